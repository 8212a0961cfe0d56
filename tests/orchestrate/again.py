"""Programs as the text of a kernel, recorded again: what the text has to be equal to.

    launch = recorded(kernel, args, meta)           the program of a launch, before passes; nothing is run
    again(launch, "gemm", tmp_path)                 (text, None), or what the kernel of the text does differently
"""

from __future__ import annotations

import importlib.util
import sys
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from mimw.compiler.analysis.same_program import difference
from mimw.compiler.orchestrate.text import module_text
from mimw.compiler.pipeline import Kernel, gpu_target
from mimw.compiler.pipeline.stages import Setting, record
from mimw.compiler.triton_port.no_gpu import answer_for
from mimw.compiler.triton_port.runtime import make_backend
from mimw.ir import Block, Op, Program
from mimw.runtime.simulate import specialised
from mimw.target import asked, asking, wanted


@dataclass(frozen=True)
class Recorded:
    """The program of a launch, the values of its arguments by path, and the options that it was recorded for."""

    program: Program
    values: dict[tuple[int, ...], Any]
    options: dict[str, Any]
    chip: str


@cache
def _backend(chip: str):
    return make_backend(gpu_target(wanted(chip)))


def recorded(kernel, args, meta: dict[str, Any], chip: str = "sm_90a") -> Recorded:
    """Record what a launch would run."""
    answer_for(lambda: None if asked() is None else gpu_target(asked()))
    with asking(wanted(chip)):
        found, _, values, _ = specialised(kernel, args, dict(meta), wanted(chip))
        options, backend = dict(found.options), _backend(chip)
        cluster = options.pop("ctas_per_cga", None) or (1, 1, 1)
        parsed = backend.parse_options({"debug": True, "sanitize_overflow": False, **options})
        made = Kernel(found.fn, found.signature, found.constants, {}, cluster)
        return Recorded(record(made, Setting(wanted(chip), parsed, backend), None), values, dict(found.options), chip)


def kernel_of(text: str, name: str, folder: Path, file: str = ""):
    """The kernel `name` of a module with that text."""
    path = Path(folder) / f"{file or name}_written.py"
    path.write_text(text)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return getattr(module, name)


def again(launch: Recorded, name: str, folder: Path, file: str = "") -> tuple[str, str | None]:
    """The text of a recorded program, and what the kernel of the text, recorded for the same arguments, does differently."""
    text = module_text(launch.program, name)
    paths = dict.fromkeys(param.path for param in launch.program.params)
    kernel = kernel_of(text, name, folder, file)
    other = recorded(kernel, [launch.values[path] for path in paths], launch.options, launch.chip)
    return text, difference(launch.program, other.program)


def with_op(program: Program, old: Op, *new: Op) -> Program:
    """The program with other ops in the place of one."""
    def changed(block: Block) -> Block:
        ops = []
        for op in block.ops:
            ops += new if op is old else (op.with_blocks(changed), )
        return block.with_ops(ops)
    return replace(program, body=changed(program.body))
