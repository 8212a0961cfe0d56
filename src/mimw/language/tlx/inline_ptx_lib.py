"""Arithmetic on pairs of fp32: one instruction for two elements from sm_100 on, plain arithmetic elsewhere; and the chip's tanh.

Input: the arguments of a kernel's call. Output: an op `inline_asm` of a packed instruction, or the ops of the arithmetic.
For example:

    _fma_f32x2(x, y, z)                     sm_100a: fma.rn.f32x2 for two neighbours      sm_90a: fma %x, %y, %z
    tl.reduce((x, y), 1, _reduce_fadd2)     the sums of two tiles: sm_100a: add.rn.f32x2 of an element of each
"""

from __future__ import annotations

from functools import reduce

import triton
import triton.language.core as tl

from ...errors import TargetError
from ..core import capability, word
from ..refuse import refuse

__all__ = ["_add_f32x2", "_fma_f32x2", "_mul_f32x2", "_reduce_fadd2", "_sub_f32x2", "tanh_approx_fp32"]


@word
def _add_f32x2(a, b, _semantic=None) -> tl.tensor:
    """a + b, element by element, of equal or broadcasting fp32 tiles.

    errors:    AssertionError for other types than fp32
    lowers to: PTX ISA, add.rn.f32x2; below sm_100 arith.addf
    """
    return _packed("add", (a, b), _semantic)


@word
def _sub_f32x2(a, b, _semantic=None) -> tl.tensor:
    """a - b, element by element, of equal or broadcasting fp32 tiles.

    errors:    AssertionError for other types than fp32
    lowers to: PTX ISA, sub.rn.f32x2; below sm_100 arith.subf
    """
    return _packed("sub", (a, b), _semantic)


@word
def _mul_f32x2(a, b, _semantic=None) -> tl.tensor:
    """a * b, element by element, of equal or broadcasting fp32 tiles.

    errors:    AssertionError for other types than fp32
    lowers to: PTX ISA, mul.rn.f32x2; below sm_100 arith.mulf
    """
    return _packed("mul", (a, b), _semantic)


@word
def _fma_f32x2(a, b, c, _semantic=None) -> tl.tensor:
    """a * b + c, rounded once, element by element, of equal or broadcasting fp32 tiles.

    errors:    AssertionError for other types than fp32
    lowers to: PTX ISA, fma.rn.f32x2; below sm_100 math.fma
    """
    return _packed("fma", (a, b, c), _semantic)


@triton.jit
def _reduce_fadd2(p0a, p1a, p0b, p1b):
    """A combine function for `tl.reduce` of two fp32 tiles, which adds up both: (p0a + p0b, p1a + p1b).

    example:   rows, squares = tl.reduce((x, x * x), 1, inline_ptx_lib._reduce_fadd2)
    """
    return _add_two(p0a, p1a, p0b, p1b)


@word
def _add_two(p0a, p1a, p0b, p1b, _semantic=None) -> tuple:
    """(p0a + p0b, p1a + p1b) of fp32 numbers, by one instruction from sm_100 on: what `_reduce_fadd2` is made of.

    errors:    AssertionError for other types than fp32
    lowers to: PTX ISA, add.rn.f32x2; below sm_100 arith.addf
    """
    given = [p0a, p1a, p0b, p1b]
    for one in given:
        if one.dtype != tl.float32:
            refuse(AssertionError, f"_reduce_fadd2 takes fp32, got {one.type}")
    if (capability(_semantic) or 0) < 100:
        return tl.tuple([_semantic.add(p0a, p0b, True), _semantic.add(p1a, p1b, True)])
    builder, kind = _semantic.builder, p0a.type.to_ir(_semantic.builder)
    made = builder.create_inline_asm(_assembly("add", 2), "=r,=r,r,r,r,r", [one.handle for one in given], [kind, kind], True, 1)
    return tl.tuple([tl.tensor(made.get_result(place), p0a.type) for place in range(2)])


@word
def tanh_approx_fp32(x, _semantic=None) -> tl.tensor:
    """tanh(x) of an fp32 number or tile by the chip's own instruction, with a relative error of 2^-11 at most.

    errors:    AssertionError for other types than fp32; TargetError on chips other than NVIDIA's
    example:   y = inline_ptx_lib.tanh_approx_fp32(x)
    lowers to: PTX ISA, tanh.approx.f32
    """
    x = _semantic.to_tensor(x)
    if x.dtype != tl.float32:
        refuse(AssertionError, f"tanh_approx_fp32 takes fp32, got {x.type}")
    if capability(_semantic) is None:
        refuse(TargetError, "tanh_approx_fp32 is an instruction of NVIDIA's chips", "take libdevice.tanh")
    builder = _semantic.builder
    made = builder.create_inline_asm("tanh.approx.f32 $0, $1;", "=r,r", [x.handle], [x.type.to_ir(builder)], True, 1)
    return tl.tensor(made.get_result(0), x.type)


def _packed(operation: str, values: tuple, semantic) -> tl.tensor:
    """The instruction on pairs where the chip has it; numbers that are not tiles are not packed."""
    given = [semantic.to_tensor(value) for value in values]
    # A literal is fp32 as in `x * 2.0`.
    given = [semantic.cast(one, tl.float32) if not isinstance(value, tl.tensor) else one for one, value in zip(given, values)]
    for one in given:
        if one.dtype != tl.float32:
            refuse(AssertionError, f"_{operation}_f32x2 takes fp32, got {one.type}")
    first = reduce(lambda x, y: semantic.broadcast_impl_value(x, y)[0], given)
    given = [semantic.broadcast_impl_value(one, first)[0] for one in given]
    builder, handles = semantic.builder, [one.handle for one in given]
    if (capability(semantic) or 0) >= 100 and first.type.is_block():
        handle = builder.create_inline_asm(_assembly(operation, len(given)), ",".join(["=r"] * 2 + ["r"] * 2 * len(given)), handles,
                                           [first.type.to_ir(builder)], True, 2).get_result(0)
    else:
        handle = getattr(builder, f"create_{operation}" if operation == "fma" else f"create_f{operation}")(*handles)
    return tl.tensor(handle, first.type)


def _assembly(operation: str, count: int) -> str:
    """`$0` and `$1` are the pair of results; each operand is a pair of registers behind them."""
    names = "abc"[:count]
    pairs = [f"mov.b64 {name}, {{${2 * place + 2}, ${2 * place + 3}}};" for place, name in enumerate(names)]
    return "\n".join(["{", f".reg .b64 made, {', '.join(names)};", *pairs, f"{operation}.rn.f32x2 made, {', '.join(names)};",
                      "mov.b64 {$0, $1}, made;", "}"])
