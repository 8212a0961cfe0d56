"""The element types of generated programs: their names in kernels and in numpy, and up to where they hold integers exactly.

ELEMENTS["f16"].tl          # "tl.float16"
ELEMENTS["f16"].exact       # 2048: every integer up to there is a half float
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Element:
    """`reading`: its name in numpy's words; `exact`: the largest magnitude up to which all integers are values of the type."""

    name: str
    tl: str
    reading: str
    bytes: int
    kind: str  # "float", "int", "uint"
    exact: int


ELEMENTS = {
    one.name: one
    for one in (
        Element("f32", "tl.float32", "np.float32", 4, "float", 1 << 24),
        Element("f16", "tl.float16", "np.float16", 2, "float", 1 << 11),
        Element("bf16", "tl.bfloat16", "ml_dtypes.bfloat16", 2, "float", 1 << 8),
        Element("i32", "tl.int32", "np.int32", 4, "int", (1 << 31) - 1),
        Element("i16", "tl.int16", "np.int16", 2, "int", (1 << 15) - 1),
        Element("i8", "tl.int8", "np.int8", 1, "int", (1 << 7) - 1),
        Element("u8", "tl.uint8", "np.uint8", 1, "uint", (1 << 8) - 1),
        Element("u32", "tl.uint32", "np.uint32", 4, "uint", (1 << 32) - 1),
        Element("u16", "tl.uint16", "np.uint16", 2, "uint", (1 << 16) - 1),
        Element("u64", "tl.uint64", "np.uint64", 8, "uint", (1 << 64) - 1),
        Element("i64", "tl.int64", "np.int64", 8, "int", (1 << 63) - 1),
        Element("f8e4", "tl.float8e4nv", "ml_dtypes.float8_e4m3fn", 1, "float", 16),
        Element("f8e5", "tl.float8e5", "ml_dtypes.float8_e5m2", 1, "float", 8),
    )
}
