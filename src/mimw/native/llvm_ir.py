"""LLVM IR of the author to PTX, by the LLVM that Triton brings.

Input: a `RawCode` whose text is LLVM IR, and a chip. Output: PTX. For example, of

    define void @scale(ptr addrspace(3) %x, float %f) { .. }

a function whose first parameter is a 32-bit address in shared memory.
"""

from __future__ import annotations

import re

from ..ir.raw_code import RawCode
from ..target import Target
from ..triton_port.toolchain import ptx_of_llvm
from .kept import kept
from .messages import CompilerError

_AT = re.compile(r"(?:<[^>]*>|[^:\s]+\.ll|<string>):(\d+):\d+: error: (.*)")


def llvm_to_ptx(code: RawCode, chip: Target) -> str:
    """PTX of the text. CompilerError with the author's line."""
    return kept(("llvm", code.text, chip.name), lambda: _compiled(code, chip))


def _compiled(code: RawCode, chip: Target) -> str:
    try:
        return ptx_of_llvm(code.text, chip.arch)
    except RuntimeError as error:
        raise CompilerError(str(error)) from None
