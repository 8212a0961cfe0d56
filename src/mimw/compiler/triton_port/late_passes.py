"""Passes that Triton runs behind TTGIR, in its stage for LLVM, over a finished module: as a module of TTGIR again.

Input: a module's text, and a function that adds the passes. Output: the text behind them. For example:

    after_passes(text, "", "late_fences", lambda manager: nvidia.passes.ttnvgpuir.add_proxy_fence_insertion(manager, 90))
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from triton._C.libtriton import ir as mlir

from .mlir_complaints import complaints
from .text import any_context, parsed_file, text_file


def after_passes(text: str, file: str, name: str, add: Callable[[Any], None]) -> str:
    """The text behind the passes that `add` gives a manager; `name` is theirs, for MLIR. Ops without a location of their own are
    then located in `file`, where they stand in the text. `MlirProblem` for a text that MLIR cannot read, or a pass fails on."""
    with text_file(text, ".ttgir") as path:
        context = any_context()
        with complaints():
            module = parsed_file(path, context)
            manager = mlir.pass_manager(context)
            add(manager)
            manager.run(module, name)
    return str(module).replace(f'"{path}"', f'"{file or path}"')
