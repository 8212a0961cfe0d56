"""Rotary position embedding of queries and keys in one launch: bf16, fp16 and fp32 on any GPU, in place or not.

Input: one or two tensors (batch, heads, length, dim), tables cos and sin, perhaps positions. Output: tensors like the first. For
example:

    arguments((q, k), (q_out, k_out), cos, sin)         (kernel, grid, args, meta) of a launch or `mimw.simulate`
    arguments((q, k), (q, k), cos, sin, positions)      in place; position i is at row positions[i] of the tables
    arguments((dy, ), (dx, ), cos, sin, back=True)      the gradient, which is the rotation by the negative angles
"""

from __future__ import annotations

from ..checks import of_rank, one_of, strides, type_name
from ..norm.configs import power_of_two
from .kernel import rope as kernel

TYPES = ("float16", "bfloat16", "float32")
ELEMENTS = 4096     # of x that a program of 4 warps takes: 32 a thread

__all__ = ["arguments", "kernel"]


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
    named = {name: x for name, x in zip(("x", "k", "out", "k_out"), (*_two(xs), *_two(outs))) if x is not None}
    of_rank(4, **named)
    of_rank(3, cos=cos, sin=sin)
    one_of(TYPES, cos=cos, sin=sin, **named)
    batch, heads, length, dim = map(int, xs[0].shape)
    for name, x in named.items():
        like = xs[1] if name.startswith("k") else xs[0]
        if (x.shape[0], *x.shape[2:]) != (batch, length, dim) or x.shape[1] != like.shape[1] or x.dtype != xs[0].dtype:
            raise ValueError(f"{name} is {type_name(x)} {tuple(x.shape)}, x {type_name(xs[0])} {tuple(xs[0].shape)}; they may "
                             "differ in their heads alone")
        if dim > 1 and strides(x)[3] != 1:
            raise ValueError(f"the columns of {name} must be contiguous; they are {strides(x)[3]} elements apart")
    table, half = map(int, cos.shape[1:])
    for name, one in (("cos", cos), ("sin", sin)):
        if tuple(one.shape[1:]) != (table, half) or one.shape[0] not in (1, batch) or half > 1 and strides(one)[2] != 1:
            raise ValueError(f"{name} is {tuple(one.shape)} with strides {strides(one)}; it must be {(batch, table, half)} or "
                             f"{(1, table, half)}, columns contiguous")
    if 2 * half > dim:
        raise ValueError(f"cos has {half} columns, which turn {2 * half} columns of x; it has {dim}")
    if positions is None and table < length:
        raise ValueError(f"cos has {table} rows for {length} positions")
    if positions is not None and (len(positions.shape) != 2 or positions.shape[0] not in (1, batch) or positions.shape[1] != length
                                  or type_name(positions) not in ("int32", "int64") or length > 1 and strides(positions)[1] != 1):
        raise ValueError(f"positions is {type_name(positions)} {tuple(positions.shape)}; it must be {(batch, length)} or "
                         f"{(1, length)} of int32 or int64, contiguous")
    in_place = outs[0] is xs[0]
    rest = 0 if in_place or 2 * half == dim else power_of_two(dim - 2 * half)
    width = power_of_two(half)
    positions_each, heads_each = chosen or _block(xs[0], max(width * 2, rest))
    x_k, out_k = _two(xs)[1], _two(outs)[1]
    k_heads = 0 if x_k is None else int(x_k.shape[1])
    steps = [step for x in (xs[0], x_k, outs[0], out_k) for step in (strides(x)[:3] if x is not None else (0, 0, 0))]
    tables = [step if one.shape[0] > 1 or at else 0 for one in (cos, sin) for at, step in enumerate(strides(one)[:2])]
    apart = strides(positions)[0] if positions is not None and positions.shape[0] > 1 else 0
    grid = batch * -(-length // positions_each), -(-heads // heads_each) + -(-k_heads // heads_each)
    args = (xs[0], x_k, outs[0], out_k, cos, sin, positions, length, dim, half, table, heads, k_heads, *steps, *tables, apart)
    return kernel, grid, args, dict(POSITIONS=positions_each, HEADS_EACH=heads_each, HALF=width, REST=rest, INTERLEAVED=interleaved,
                                    BACK=back, num_warps=4)


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
