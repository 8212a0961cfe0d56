"""Native code of the author as PTX that a kernel takes in, from whatever language it was written in.

Input: a `RawCode` and a chip. Output: a `Unit`, the same object for the same text. For example, of a CUDA file:

    unit = unit_of_code(code, target("sm_90a"), site)
    unit.module     what goes to the top of the kernel's PTX: helpers and tables under names of their own
    unit.call(..)   the text of a call

CUDA C++ goes through nvcc, clang or NVRTC (`cuda.py`), LLVM IR through Triton's own LLVM (`llvm_ir.py`), and so do functions of
MLIR's dialect `llvm` (`mlir.py`); PTX is read as it is and assembled once on its own (`assemble.py`), so that an error has the
line of the author's file.
"""

from __future__ import annotations

from ...errors import RawCodeError
from ...ir import Program, Site
from ...ir.raw_code import RawCode, code_of
from ...target import Target
from .assemble import assembled
from .cuda import cuda_to_ptx
from .llvm_ir import llvm_to_ptx
from .messages import CompilerError
from .mlir import mlir_to_ptx
from .ptx import PtxError, parse
from .unit import Unit, chosen, unit_of

__all__ = ["Unit", "module_text", "unit_of_code"]

_UNITS: dict[tuple, Unit] = {}
_TO_PTX = {"ptx": assembled, "cuda": cuda_to_ptx, "llvm": llvm_to_ptx, "mlir": mlir_to_ptx}


def unit_of_code(code: RawCode, chip: Target, site: Site | None = None) -> Unit:
    """The function of a `RawCode` for a chip. RawCodeError, with the author's line in the native code and `site`, that in the
    kernel; what compilers make is kept, in this process and on disk."""
    key = code.content, chip.name
    if key not in _UNITS:
        if not code.text:
            raise RawCodeError(f"{code.name} ({code.dialect}): its source, {code.file}, is not there", site,
                               hint="write the file before a kernel is compiled")
        try:
            ptx = _TO_PTX[code.dialect](code, chip)
            module = parse(ptx)
            _UNITS[key] = unit_of(module, chosen(module, code.symbol, code.name), code.digest)
        except CompilerError as error:
            raise RawCodeError(f"{code.name} ({code.dialect}): {error.message}", *_sites(code, error.file, error.line), site,
                               hint=error.mend) from None
        except PtxError as error:
            line = code.line + error.line - 1 if code.dialect == "ptx" else code.line
            raise RawCodeError(f"{code.name} ({code.dialect}): {error.message}", Site(code.file, line), site,
                               hint=error.mend) from None
    return _UNITS[key]


def module_text(program: Program, chip: Target) -> str:
    """The text that the native code of a program puts at the top of its PTX, each part once; "" for none."""
    texts = (unit_of_code(code_of(op), chip, op.site).module for op in program.named("raw_call")
             if code_of(op).dialect in _TO_PTX)
    return "\n".join(dict.fromkeys(line for text in texts if text for line in _parts(text)))


def _parts(text: str) -> list[str]:
    """Declarations of the CUDA runtime's functions, which two units may share, apart from the rest."""
    lines = text.splitlines()
    shared = [line for line in lines if line.startswith(".extern")]
    rest = "\n".join(line for line in lines if not line.startswith(".extern"))
    return [*shared, *([rest] if rest else [])]


def _sites(code: RawCode, file: str, line: int) -> list[Site]:
    return [Site(file or code.file, line or code.line)]
