"""Types of TTGIR as types of ours, which have no layouts.

Input: a type as MLIR writes it. Output: ours; None for one without a meaning. For example:

    type_in("tensor<128x64xf16, #blocked>")                                     fp16[128, 64]
    type_in("!ttg.memdesc<3x128x64xf16, #shared, #smem, mutable>")              buffer<fp16[3, 128, 64]>
    type_in("!ttg.memdesc<3x1xi64, #shared1, #smem, mutable>")                  barrier<x 3>
    type_in("!tt.tensordesc<128x64xf16, #shared>")                              desc<fp16[128, 64]>
    type_in("!ttng.tensordesc_im2col<128x64xf16, #shared>")                     desc<fp16[128, 64] pixels>

A buffer is one with all its extents: which of them counts slots, TTGIR does not say. Memory of i64 whose last extent is 1 is for
mbarriers, as all compilers of Triton lay it out. In tensor memory a leading extent counts buffers.
"""

from __future__ import annotations

import re
from functools import lru_cache

from ...ir import Barrier, Buffer, Descriptor, Pointer, Scalar, Tensor, Type
from ...ir.mlir_types import parts_of, type_of
from ...ir.types import TOKEN

_PIXELS = "!ttng.tensordesc_im2col"
_SHAPED = re.compile(r"((?:\d+x)+)(.*)", re.DOTALL)
_WHOLE = re.compile(r", (\d+(?:x\d+)*)>$")
_SIGNED = {f"si{bits}": f"i{bits}" for bits in (8, 16, 32, 64)} | {f"ui{bits}": f"i{bits}" for bits in (8, 16, 32, 64)}


@lru_cache(maxsize=4096)
def type_in(text: str, data: bool = False) -> Type | None:
    """The type of ours that MLIR writes so. Memory of single i64 is that of mbarriers, but where it is known to hold `data`."""
    if text == "!ttg.async.token":
        return TOKEN
    if text == "i128":
        return Scalar(text)
    if text == "index":
        return Scalar("i64")
    if text in _SIGNED:
        return Scalar(_SIGNED[text])
    kind, opening, rest = text.partition("<")
    if kind not in ("!ttg.memdesc", "!tt.tensordesc", _PIXELS, "tensor") or not rest.endswith(">"):
        return type_of(text)
    if kind == "!tt.tensordesc" and rest.startswith("tensor<"):
        rest = rest[len("tensor<"):-1]
    parts = [part.strip() for part in parts_of(rest[:-1])]
    found = _SHAPED.fullmatch(parts[0])
    element = type_in(found[2]) if found else None
    if not isinstance(element, Scalar if kind != "tensor" else (Scalar, Pointer)):
        return None
    shape = tuple(map(int, found[1].rstrip("x").split("x")))
    if kind == "tensor":
        return Tensor(element, shape)
    if kind in ("!tt.tensordesc", _PIXELS):
        return Descriptor(element, shape, not found[2].startswith("ui"), kind == _PIXELS)
    return _memory(element, shape, parts[1:], data)


def _memory(element: Scalar, shape: tuple[int, ...], more: list[str], data: bool) -> Type:
    if any(part == "#ttng.tensor_memory" for part in more):
        return Buffer(element, shape, 0, "tmem") if len(shape) < 3 else Buffer(element, shape[1:], shape[0], "tmem")
    if not data and element.name == "i64" and shape[-1] == 1 and len(shape) < 3:
        return Barrier(shape[0] if len(shape) > 1 else 0)
    return Buffer(element, shape)


def whole_in(text: str) -> tuple[int, ...] | None:
    """The extents of the buffer that a subslice is a part of, as the type of the subslice says them; None of any other type."""
    found = _WHOLE.search(text)
    return tuple(map(int, found[1].split("x"))) if found else None


def layout_in(text: str) -> str:
    """The layout of a tile or a buffer as its type says it, "" for none."""
    parts = parts_of(text.partition("<")[2][:-1])
    return parts[1].strip() if len(parts) > 1 else ""


