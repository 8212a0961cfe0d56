"""A value in a message, as its author would call it.

Input: any value of a kernel's call. Output: a few words. For example:

    described(tl.full([16, 8], 0, tl.float16))      fp16[16, 8]
    described(x_ptr)                                pointer<fp32>
    described(5)                                    5
"""

from __future__ import annotations

from typing import Any

import triton.language.core as tl

from .core import unwrap


def described(value: Any) -> str:
    """Types of what is known at run time only, and all else as it is printed."""
    value = unwrap(value)
    if not isinstance(value, tl.tensor):
        return repr(value) if not isinstance(value, tl.base_value) or type(value).__repr__ is not object.__repr__ else str(value)
    extents = ", ".join(str(unwrap(extent)) for extent in value.shape)
    return f"{value.dtype}[{extents}]" if value.type.is_block() else str(value.dtype)


def element_type(value: Any) -> str:
    """The mend for what was given in place of an element type of Triton's: of numpy, of torch, or a text."""
    if isinstance(value, tl.dtype):
        return ""
    name = value if isinstance(value, str) else getattr(value, "__name__", str(value)).rpartition(".")[2]
    name = {"half": "float16", "float": "float32", "double": "float64", "int": "int32", "long": "int64", "fp16": "float16",
            "bf16": "bfloat16", "fp32": "float32"}.get(name, name)
    return f"write tl.{name}" if isinstance(getattr(tl, name, None), tl.dtype) else ""
