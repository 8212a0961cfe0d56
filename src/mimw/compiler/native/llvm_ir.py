"""LLVM IR of the author to PTX, by the LLVM that Triton brings.

Input: a `RawCode` whose text is LLVM IR, and a chip. Output: PTX. For example, of

    define void @scale(ptr addrspace(3) %x, float %f) { .. }

a function whose first parameter is a 32-bit address in shared memory.
"""

from __future__ import annotations

import re

from ...ir.raw_code import RawCode
from ...target import Target
from ..triton_port.toolchain import ptx_of_llvm
from .kept import kept
from .messages import CompilerError

_SAID = re.compile(r"LLVM ERROR: (?:failed to parse IR: )?(.*?)\s*(?:lineno: (\d+))?\s*$", re.MULTILINE)
_DEFINES = re.compile(r"^define\s+(?!(?:internal|private)\b)[^@]*@([\w.$-]+)\(", re.MULTILINE)


def llvm_to_ptx(code: RawCode, chip: Target) -> str:
    """PTX of the text. CompilerError with the author's line."""
    return kept(("llvm", code.text, chip.name), lambda: _compiled(code, chip))


def _compiled(code: RawCode, chip: Target) -> str:
    functions = _DEFINES.findall(code.text)
    if not functions:
        raise CompilerError("the text defines no function", code.file, code.line)
    made, said = ptx_of_llvm(code.text, functions, chip.arch)
    if made is None:
        match = _SAID.search(said)
        line = code.line + int(match[2]) - 1 if match and match[2] else 0
        raise CompilerError(f"LLVM: {match[1] if match else said.strip()[-2000:]}", code.file, line)
    return made
