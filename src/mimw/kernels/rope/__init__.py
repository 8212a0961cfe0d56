"""Rotary position embedding of queries and keys in one launch: bf16, fp16 and fp32 on any GPU, in place or not.

Input: one or two tensors (batch, heads, length, dim), tables cos and sin, perhaps positions. Output: tensors like the first. For
example:

    arguments((q, k), (q_out, k_out), cos, sin)         (kernel, grid, args, meta) of a launch or `mimw.simulate`
    arguments((q, k), (q, k), cos, sin, positions)      in place; position i is at row positions[i] of the tables
    arguments((dy, ), (dx, ), cos, sin, back=True)      the gradient, which is the rotation by the negative angles
"""

from __future__ import annotations

from ..contract import Contract
from ..contract.memory import strides
from ..powers import power_of_two
from .kernel import RopeForm, Shape, Steps, TableSteps, TensorSteps
from .kernel import rope as kernel

CONTRACT = Contract("x: float (batch, heads, length, dim) rows", "out: =x (batch, heads, length, dim) rows",
                    "k?: =x (batch, k_heads, length, dim) rows", "k_out?: =x (batch, k_heads, length, dim) rows",
                    "cos: float (batch|1, table, half) rows", "sin: float (batch|1, table, half) rows",
                    "positions?: int (batch|1, length) rows", "2 * half <= dim -- tables turn twice as many columns as they have",
                    "positions is not None or table >= length -- tables need " "a row for each position")
ELEMENTS = 4096     # of x that a program of 4 warps takes: 32 a thread

__all__ = ["CONTRACT", "arguments", "kernel"]


def arguments(xs: tuple, outs: tuple, cos, sin, positions=None, interleaved: bool = False, back: bool = False,
              chosen: tuple[int, int] | None = None) -> tuple:
    """(kernel, grid, args, meta) of the launch that turns the first 2 x half columns of each row of one or two tensors.

    args:      xs           (batch, heads, length, dim) each, of one type; heads may differ; columns contiguous
               outs         like xs; may be xs
               cos, sin     (batch or 1, table, half), columns contiguous; 2 half <= dim
               positions    (batch or 1, length) int32 or int64, each batch contiguous: rows of the tables; by default 0, 1, ...
                            Of one that is outside of the tables the numbers turned are NaN
               interleaved  columns 2i and 2i + 1 are a pair; else columns i and half + i
               back         by the negative angles
               chosen       positions and heads of a program, powers of two
    errors:    ValueError where a shape, a type or a stride does not fit, with the numbers
    """
    (x, k), (out, k_out) = _two(xs), _two(outs)
    of = CONTRACT.check(x=x, out=out, k=k, k_out=k_out, cos=cos, sin=sin, positions=positions)
    batch, heads, length, dim, table, half = of.batch, of.heads, of.length, of.dim, of.table, of.half
    in_place = out is x
    rest = 0 if in_place or 2 * half == dim else power_of_two(dim - 2 * half)
    width = power_of_two(half)
    positions_each, heads_each = chosen or _block(x, max(width * 2, rest))
    k_heads = 0 if k is None else of.k_heads
    tensors = [TensorSteps(*strides(one)[:3]) if one is not None else TensorSteps(0, 0, 0) for one in (x, k, out, k_out)]
    tables = [TableSteps(strides(one)[0] if one.shape[0] > 1 else 0, strides(one)[1]) for one in (cos, sin)]
    apart = strides(positions)[0] if positions is not None and positions.shape[0] > 1 else 0
    grid = batch * -(-length // positions_each), -(-heads // heads_each) + -(-k_heads // heads_each)
    shape, steps = Shape(length, dim, half, table, heads, k_heads), Steps(*tensors, *tables, apart)
    form = RopeForm(positions_each, heads_each, width, rest, interleaved, back)
    return kernel, grid, (x, k, out, k_out, cos, sin, positions, shape, steps), dict(FORM=form, num_warps=4)


def _two(given: tuple) -> tuple:
    """One or two tensors as two, the second perhaps None."""
    return (*given, None)[:2]


def _block(x, columns: int) -> tuple[int, int]:
    """(positions, heads) of a program: many of what lies side by side in memory."""
    _, heads, length, _ = map(int, x.shape)
    rows = max(1, ELEMENTS // columns)
    _, head, place, _ = strides(x)
    heads_each = min(power_of_two(heads), rows if head < place else min(rows, 4))
    return min(power_of_two(length), max(1, rows // heads_each)), heads_each
