"""What the launches of attention's gradients have in common: numbers for the kernels, and the launch for dQ in one order.

Input: the arrays of a launch. Output: arguments of kernels. For example:

    terms_of(64, (8, 500, 500), True, None, (None, None), None, None)       (causal, Measures, Changes)
    of_queries(q, k, v, do, dq, rows, terms, "auto")        (grid, args, meta) of `query_gradients`
"""

from __future__ import annotations

from math import e, log2

import mimw

from ..attention.changes import READ_AT_ONCE, capped, constants_of, scale_of, sight, slopes_step
from .nouns import Changes, Form, Measures, QueriesForm
from .order import bands_of, grid_of


def terms_of(dim: int, sizes: tuple[int, int, int], causal: bool, scale: float | None, window: tuple, softcap: float | None,
             slopes, mod=None) -> tuple[bool, Measures, Changes]:
    """(causal, numbers, what changes scores) for a kernel; `sizes` are heads, and lengths of queries and keys."""
    causal, left, right, _ = sight(causal, window)
    scale = float(scale_of(scale, dim))
    inner, outer = capped(scale, softcap, mod)
    changes = Changes(inner, slopes, slopes_step(slopes), getattr(mod, "tables", None))
    return causal, Measures(scale, outer * log2(e), *sizes, None, 0, left, right), changes


def reach_of(causal: bool, window: tuple) -> int | None:
    """The number of keys behind its own place that a query sees; None for all."""
    return sight(causal, window)[3]


def order_of(terms: tuple, wanted: str) -> str:
    """The order of programs: that `wanted`, where they differ in length."""
    causal, measures, _ = terms
    return wanted if causal and measures.left is None else "heads"


def of_queries(q, k, v, do, dq, rows, terms: tuple, order: str, bn: int = 128, k_stages: int = 3, v_stages: int = 2,
               mod=None) -> tuple:
    """(grid, args, meta) of `query_gradients`, for blocks of 128 queries and bn keys."""
    batch, heads, seq_q, _ = q.shape
    describe, bm, columns, of_values = mimw.TensorDescriptor.from_tensor, 128, tile_columns(q.shape[3]), tile_columns(v.shape[3])
    causal, measures, changes = terms
    bn = bn if changes.tables is None else min(bn, READ_AT_ONCE)
    blocks = -(-seq_q // bm)
    bands = bands_of(blocks, heads, batch, order_of(terms, order))
    args = (describe(q, [1, 1, bm, columns]), describe(k, [1, 1, bn, columns]), describe(v, [1, 1, bn, of_values]),
            describe(do, [1, 1, bm, of_values]), describe(dq, [1, 1, 64, columns]), rows,
            measures._replace(padded=rows.shape[2]), changes)
    form = Form(bm, bn, heads // k.shape[1], causal, columns, k.shape[2] % bn != 0, None, bands)
    meta = dict(FORM=QueriesForm(form, of_values, k_stages, v_stages), num_warps=4, **constants_of(mod, gradient=True))
    return grid_of(blocks, heads, batch, bands), args, meta


def tile_columns(dim: int) -> int:
    """The columns of a tile that holds a row of a head: 64, 128, 192 or 256."""
    return -(-dim // 64) * 64
