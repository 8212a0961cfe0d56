"""A recorded program as the text of a Python module, which records again to the same program up to names and places.

Input: a program, plain or in tasks with pipes, as the recorder or `tasks.py` leaves it. Output: text. For example:

    text = module_text(program, "gemm_ws")      import triton.language as tl .. @mimw.jit def gemm_ws(a_desc, b_desc, ..): ..

The kernel has a parameter for each argument that the program takes, in their order; what was known when the program was recorded is
in the text as numbers. An op that has no text is refused (`NotYet`, with its line). Whether the text means the same is not for this
file to say: record it, and ask `analysis.same_program.difference`.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType

from ...errors import NotYet
from ...ir import I32, Descriptor, Op, Program, Type
from .comments import comments
from .writing import (  # noqa: F401
    arithmetic,
    casts,
    descriptors,
    flow,
    layouts,
    memory,
    pipes,
    products,
    regions,
    tensor_memory,
    tiles,
    words,
)
from .writing.descriptors import pieces
from .writing.lines import broken
from .writing.signs import argument_signs
from .writing.texts import Text
from .writing.writer import Writer

_IMPORTS = (("tl", "import triton.language as tl"), ("", ""), ("mimw", "import mimw"), ("tle", "import mimw.tle as tle"),
            ("tlx", "import mimw.tlx as tlx"))


def module_text(program: Program, name: str, host: str = "", docstring: str = "", imports: Sequence[str] = (),
                unspecialised: Collection[str] = (), annotations: Mapping[str, str] = MappingProxyType({}),
                notes: Mapping[Op, str] = MappingProxyType({})) -> str:
    """The text of a module with the kernel `name`.

    args:      program      as it was recorded, before pipes are expanded
               name         of the kernel
               host         (opt) text that stands behind the kernel: functions of the host
               docstring    (opt) the module's
               imports      (opt) lines that import what `host` takes
               notes        (opt) comments on ops, beside those on pipes and loops
               unspecialised   (opt) names of parameters that are compiled for all values alike, also for 1 and multiples of 16
               annotations     (opt) types that the author gave parameters, by name: "tl.int64"
    returns:   the text; `name` in it is the kernel, with the program's arguments in their order
    errors:    NotYet for an op that has no text, with its line
    """
    facts = program.launch_facts
    if facts.mesh_size is not None or facts.grid_meets:
        raise NotYet("a kernel with a mesh, or with barriers of the whole grid, has no text yet", program.site,
                     hint="the kernel is launched as its author wrote it")
    w = Writer(program, name, comments(program) | dict(notes))
    params = _params(w, program)
    w.block(program.body.ops)
    same = [w.texts[param.value].code for param in program.params if param.name in unspecialised]
    typed = {w.texts[param.value].code: annotations[param.name] for param in program.params if param.name in annotations}
    params = [f"{param}: {typed[param]}" if param in typed else param for param in params]
    kernel = _function(name, params, w.lines or ["    pass"], same)
    helpers = [f"@mimw.jit\ndef {helper}{text}" for helper, text in w.helpers.items()]
    parts = [*helpers, kernel, *([host.strip("\n")] if host else [])]
    body = "\n\n\n".join(parts)
    end = "\n" if "\n" in docstring.strip("\n") else ""
    head = [f'"""{docstring.strip(chr(10))}{end}"""', ""] if docstring else []
    used = [line for module, line in _IMPORTS if not module or re.search(rf"\b{module}\.", body)]
    used = [*(line for line in imports if line.startswith("import functools")), *used,
            *(line for line in imports if line and line not in used and not line.startswith("import functools"))]
    return "\n".join([*head, "\n".join(used).strip("\n"), "", ""]) + f"\n{body}\n"


def _params(w: Writer, program: Program) -> list[str]:
    """The parameters' names, in order; parts of descriptors are known by them."""
    parts, names, signs = pieces(program), [], argument_signs(program)
    for param in program.params:
        if param.value in parts:
            continue
        names.append(w.names.fresh(param.name))
        w.hold(param.value, names[-1], _sign(param.value.type, signs.get(param.value)))
    for value, (whole, place) in parts.items():
        w.texts[value] = Text(f"{w.texts[whole].code}.{place}", signed=True)
    return names


def _sign(type_: Type, told: bool | None) -> bool | None:
    """The sign of an argument, or of what it points to. Triton takes Python's numbers of 32 bits as signed."""
    if isinstance(type_, Descriptor):
        return type_.signed
    return True if type_ == I32 else told


def _function(name: str, params: list[str], lines: list[str], unspecialised: list[str]) -> str:
    options = f"(do_not_specialize=[{', '.join(map(repr, unspecialised))}])".replace("'", '"') if unspecialised else ""
    return "\n".join([f"@mimw.jit{options}", *broken(f"def {name}({', '.join(params)}):", ""), *lines])
