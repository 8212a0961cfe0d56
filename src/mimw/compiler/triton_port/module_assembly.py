"""Text of PTX at the top of a kernel's module: functions and tables that its inline assembly uses.

Input: a TTGIR module and the text. Output: the module with the attribute from which LLVM writes the text ahead of the kernel:

    module attributes {llvm.module_asm = [".func raw_6f0c_helper() {..}"], "ttg.num-warps" = 4 : i32, ..}
"""

from __future__ import annotations

import re

from .text import Rewrite, rewritten

_MODULE = re.compile(r"module attributes \{(.*)")


def with_module_assembly(module, text: str):
    """The module with the text in its assembly."""
    escaped = "".join(one if one.isascii() and one.isprintable() and one not in '"\\' else "".join(f"\\{byte:02X}" for byte in
                      one.encode()) for one in text)
    attribute = f'module attributes {{llvm.module_asm = ["{escaped}"], '
    return rewritten(module, (Rewrite(_MODULE, lambda line: attribute + line[1], times=1), ))


__all__ = ["with_module_assembly"]
