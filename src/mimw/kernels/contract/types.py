"""The words for element types in contracts.

Input: words, "bf16|fp8". Output: names of element types, as numpy and torch have them:

    named("bf16|fp8")           ("bfloat16", "float8_e4m3fn", "float8_e5m2")
    of(array)                   "bfloat16"
"""

from __future__ import annotations

from typing import Any

NAMES = {"bf16": "bfloat16", "fp16": "float16", "fp32": "float32", "fp64": "float64", "e4m3": "float8_e4m3fn",
         "e5m2": "float8_e5m2", "e4m3fnuz": "float8_e4m3fnuz", "e5m2fnuz": "float8_e5m2fnuz", "e8m0": "float8_e8m0fnu",
         "e2m1x2": "float4_e2m1fn_x2", "u8": "uint8", "i32": "int32", "i64": "int64"}
GROUPS = {"fp8": ("e4m3", "e5m2"), "fnuz8": ("e4m3fnuz", "e5m2fnuz"), "float": ("bf16", "fp16", "fp32"), "int": ("i32", "i64")}
FP8 = tuple(NAMES[word] for word in GROUPS["fp8"])


def named(words: str) -> tuple[str, ...]:
    """The types that the words name; none for "any". KeyError for a word that names none."""
    if words == "any":
        return ()
    return tuple(NAMES[one] for word in words.split("|") for one in GROUPS.get(word, (word, )))


def are_named(words: str) -> bool:
    """True if all of the words name types."""
    return all(word in NAMES or word in GROUPS or word == "any" for word in words.split("|"))


def of(array: Any) -> str:
    """The name of a numpy or torch array's element type."""
    return str(array.dtype).removeprefix("torch.")
