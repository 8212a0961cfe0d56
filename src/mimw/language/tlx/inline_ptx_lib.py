"""Arithmetic on pairs of fp32: one instruction for two elements from sm_100 on, plain arithmetic elsewhere.

Input: the arguments of a kernel's call. Output: an op `inline_asm` of a packed instruction, or the ops of the arithmetic.
For example:

    _fma_f32x2(x, y, z)        sm_100a: fma.rn.f32x2 for two neighbours      sm_90a: fma %x, %y, %z
"""

from __future__ import annotations

from functools import reduce

import triton.language.core as tl

from ..core import capability, word
from ..refuse import refuse

__all__ = ["_add_f32x2", "_fma_f32x2", "_mul_f32x2", "_sub_f32x2"]


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
