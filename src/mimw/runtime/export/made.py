"""All files of an exported kernel: compile it as a launch specialises it, then write each file.

Input: a kernel and a launch of it, or what `compile_kernel` gave. Output: an `Exported`:

    export(double, (2, ), x, y, 256, BLOCK=128).write("build")      build/double.h, double.c, double.cubin, double.json
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from ...compiler.analysis.written import written
from ...compiler.launch import extents_of, grid_extents
from ...errors import LaunchError
from ..ahead import compiled as ahead
from ..call import bound, resolve
from .arguments import KINDS, Argument, Number, arguments_of, fixed_of, parameters_of
from .contracts import Said, said_by_contract
from .facts import Facts, facts_of
from .header import header
from .launcher import launcher
from .torch_cpp import torch_operator

VERSION = sys.modules[__name__.partition(".")[0]].__version__      # of the package that is being imported, installed or not


@dataclass(frozen=True)
class Exported:
    """A kernel as files: `files` by name, text or bytes. `facts` and `arguments` are what they are made of; `written` names the
    arguments that the kernel writes, `parameters` all run-time parameters of its source, and `fixed` those that the launch made
    constants."""

    facts: Facts
    arguments: tuple[Argument, ...]
    written: tuple[str, ...]
    files: Mapping[str, str | bytes]
    parameters: tuple[str, ...] = ()
    fixed: Mapping[str, Any] = field(default_factory=dict)

    def write(self, folder: str | Path) -> list[Path]:
        """Write all files into `folder`, which is made if it is not there. OSError where that cannot be."""
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        found = []
        for name, content in self.files.items():
            found.append(folder / name)
            found[-1].write_bytes(content if isinstance(content, bytes) else content.encode())
        return found


def export(kernel, grid, *args, target: str | None = None, name: str | None = None, writes: Iterable[str] | None = None,
           torch: bool = False, **meta) -> Exported:
    """Compile the kernel as this launch specialises it, and write its launcher.

    args:      kernel, grid, args, meta    as `mimw.simulate` takes them; of arrays only types, strides and alignment matter, and
                       every array counts as one that begins at a multiple of 16 bytes, as a GPU's memory does
               target  "sm_90a", "sm_100a"; by default MIMW_TARGET or sm_90a
               name    of the functions in C, by default the kernel's
               writes  parameters that the kernel writes, for torch's schema; by default those that its stores name, and all
                       arrays of a kernel that stock Triton compiles
               torch   also write NAME_torch.cpp
    returns:   Exported. What the launch's integers specialised holds for every call: 1 is a constant, and a multiple of 16 stays
               one; the launcher refuses others
    errors:    TargetError for a chip without cubins; LaunchError for arguments that have no counterpart in C; as compiling
    """
    compiled = ahead(kernel, grid, args, meta, target)
    fn, positional, named = resolve(kernel, args, dict(meta))
    hosts = bound(fn, positional, {name: value for name, value in named.items() if name in fn.arg_names})
    asked = grid_extents(extents_of(grid, hosts))
    return export_compiled(compiled, name, asked, hosts, writes, torch)


def export_compiled(compiled: Any, name: str | None = None, grid: tuple[int, ...] | None = None,
                    hosts: Mapping[str, Any] | None = None, writes: Iterable[str] | None = None, torch: bool = False) -> Exported:
    """The same of what `compile_kernel` gave. `grid` is noted in the header, `hosts` are host descriptors by parameter."""
    facts, arguments = facts_of(compiled, name), arguments_of(compiled, hosts)
    changed, origin = _written(compiled, arguments, writes), f"mimw {VERSION}"
    said = said_by_contract(compiled.source.fn, arguments, hosts or {})
    files = {f"{facts.name}.h": header(facts, arguments, origin, grid, _constants(compiled), said),
             f"{facts.name}.c": launcher(facts, arguments, compiled.stages["cubin"], origin),
             f"{facts.name}.cubin": compiled.stages["cubin"],
             f"{facts.name}.json": _described(compiled, facts, arguments, changed, grid, said)}
    if torch:
        files[f"{facts.name}_torch.cpp"] = torch_operator(facts, arguments, changed, origin)
    return Exported(facts, arguments, changed, files, parameters_of(compiled), fixed_of(compiled))


def _written(compiled: Any, arguments: tuple[Argument, ...], asked: Iterable[str] | None) -> tuple[str, ...]:
    """The arrays that are written, in order."""
    arrays = [one.name for one in arguments if not isinstance(one, Number)]
    if asked is not None:
        if unknown := set(asked := tuple(asked)) - set(arrays):
            raise LaunchError(f"writes names {', '.join(sorted(unknown))}; the arrays of {compiled.metadata.name} are "
                              f"{', '.join(arrays) or 'none'}")
        return tuple(name for name in arrays if name in asked)
    found = None if compiled.program is None else written(compiled.program)
    return tuple(name for name in arrays if found is None or name in found)


def _constants(compiled: Any) -> list[str]:
    source = compiled.source
    named = {source.fn.arg_names[path[0]]: value for path, value in source.constants.items() if len(path) == 1}
    return [f"{name}={getattr(value, '__name__', value)}" for name, value in named.items() if value is not None]


def _described(compiled: Any, facts: Facts, arguments: tuple[Argument, ...], changed: tuple[str, ...],
               grid: tuple[int, ...] | None, said: Said) -> str:
    """Facts about the exported kernel for a build to read, as JSON."""
    listed = [{"is": KINDS[type(one)], **asdict(one), **({} if isinstance(one, Number) else {"written": one.name in changed}),
               **({"contract": said.of[one.name]} if one.name in said.of else {})} for one in arguments]
    return json.dumps({**asdict(facts), "grid": grid, "arguments": listed, "constants": _constants(compiled),
                       "made_by": {"mimw": VERSION, "triton": compiled.metadata.triton_version}}, indent=2) + "\n"
