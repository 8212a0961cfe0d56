"""Functions of the dialects `llvm` and `nvvm` of the author to PTX, by the MLIR and LLVM that Triton brings.

Input: a `RawCode` whose text is MLIR, and a chip. Output: PTX. For example, of

    llvm.func @scale(%x: !llvm.ptr<3>, %f: f32) { .. }

a function whose first parameter is a 32-bit address in shared memory.
"""

from __future__ import annotations

from ..ir.raw_code import RawCode
from ..target import Target
from ..triton_port.mlir_complaints import MlirProblem
from ..triton_port.mlir_llvm import llvm_of_mlir
from ..triton_port.toolchain import ptx_of_llvm
from .kept import kept
from .messages import CompilerError


def mlir_to_ptx(code: RawCode, chip: Target) -> str:
    """PTX of the text. CompilerError with the author's line."""
    return kept(("mlir", code.text, chip.name), lambda: _compiled(code, chip))


def _compiled(code: RawCode, chip: Target) -> str:
    try:
        return ptx_of_llvm(llvm_of_mlir(code.text), chip.arch)
    except MlirProblem as problem:
        raise CompilerError(problem.what, line=code.line + problem.line - 1) from None
    except RuntimeError as error:
        raise CompilerError(str(error)) from None
