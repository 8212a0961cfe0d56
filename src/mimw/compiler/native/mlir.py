"""Functions of the dialects `llvm` and `nvvm` of the author to PTX, by the MLIR and LLVM that Triton brings.

Input: a `RawCode` whose text is MLIR, and a chip. Output: PTX. For example, of

    llvm.func @scale(%x: !llvm.ptr<3>, %f: f32) { .. }

a function whose first parameter is a 32-bit address in shared memory.
"""

from __future__ import annotations

from dataclasses import replace

from ...ir.raw_code import RawCode
from ...target import Target
from ..triton_port.mlir_complaints import MlirProblem
from ..triton_port.mlir_llvm import llvm_of_mlir
from .llvm_ir import llvm_to_ptx
from .messages import CompilerError


def mlir_to_ptx(code: RawCode, chip: Target) -> str:
    """PTX of the text. CompilerError with the author's line."""
    try:
        text = llvm_of_mlir(code.text)
    except MlirProblem as problem:
        raise CompilerError(problem.what, code.file, code.line + problem.line - 1) from None
    return llvm_to_ptx(replace(code, dialect="llvm", text=text), chip)
