"""Two scales that are multiplied with each other, in the shape of the larger one: plain program to plain program, to the last bit.

Input: a plain program. Output: the program in which products of spread tiles are computed before they are spread; itself if there
are none. For example, of 64 rows with a scale each, and one scale for all columns:

    acc += tl.dot(x, y) * (sa[:, None] * sb)        8,192 products sa * sb of a tile of 64 x 128 become 64

Every element is the same product of the same two numbers. Triton computes what is written: a tile.
"""

from __future__ import annotations

from dataclasses import replace

from ...ir import Builder, Op, Program, Tensor
from ..analysis.spreads import extents, in_shape, spread, spread_to
from ..analysis.uses import uses_of


def small_scales(program: Program) -> Program:
    """The program with such products of scales small: one after the other, since a product of three scales is one of two, and of
    these and a third."""
    while (one := next((op for op in program.named("fmul") if _is_small(program, op)), None)) is not None:
        program = _with_small(program, one)
    return program


def _with_small(program: Program, one: Op) -> Program:
    b, uses = Builder(program.site), uses_of(program)

    def change(op: Op) -> None:
        lhs, rhs = spread(uses, op.lhs), spread(uses, op.rhs)
        shape = op.result.type.shape
        if isinstance(lhs.core.type, Tensor) or isinstance(rhs.core.type, Tensor):
            small = extents(lhs.varies | rhs.varies, shape)
            product = b.emit("fmul", (in_shape(b, lhs, small, op.site), in_shape(b, rhs, small, op.site)), op.site)
        else:
            product = b.emit("fmul", (lhs.core, rhs.core), op.site)
        spread_to(b, product, shape, op.result, op.site)

    return replace(program, body=b.anew(program.body, {one}, change))


def _is_small(program: Program, op: Op) -> bool:
    """True of a product of spread tiles which together vary along fewer axes than the tile has."""
    if not isinstance(op.result.type, Tensor):
        return False
    uses, shape = uses_of(program), op.result.type.shape
    lhs, rhs = spread(uses, op.lhs), spread(uses, op.rhs)
    small = extents(lhs.varies | rhs.varies, shape)
    return small != shape and lhs.core is not op.lhs and rhs.core is not op.rhs
