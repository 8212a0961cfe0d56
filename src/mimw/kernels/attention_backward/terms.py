"""What the launches of attention's gradients have in common: checks, numbers for the kernels, and the launch for dQ in one order.

Input: the arrays of a launch. Output: arguments of kernels, or a ValueError that says what does not fit. For example:

    terms_of(q, k, True, None, (None, None), None, None)    (causal, scales, bounds and what changes scores)
    of_queries(q, k, v, do, dq, rows, terms, "auto")        (grid, args, meta) of `query_gradients`
"""

from __future__ import annotations

from math import e, log2, sqrt

import mimw

from ..attention import LONGEST_WITH_SLOPES
from ..attention.changes import bounds, check_changes, slopes_step
from ..checks import strides
from .order import bands_of, grid_of


def terms_of(q, k, causal: bool, scale: float | None, window: tuple, softcap: float | None, slopes) -> tuple[bool, tuple, tuple]:
    """(causal, (scale, that of exponents of 2), (left, right, inner, slopes, step)) for a kernel, or an error."""
    batch, heads, seq_q, dim = q.shape
    seq_k = k.shape[2]
    left, right = bounds(window)
    causal = causal or right == 0
    right = None if causal else right
    if (causal or right is not None) and seq_k + (right or 0) < seq_q:
        raise ValueError(f"{'causal' if causal else f'right bound {right}'}: {seq_q} queries on {seq_k} keys; the first "
                         f"{seq_q - seq_k - (right or 0)} would see none")
    check_changes(batch, heads, softcap, None, slopes)
    if slopes is not None and seq_q + seq_k > LONGEST_WITH_SLOPES:
        raise ValueError(f"slopes: {seq_q} queries and {seq_k} keys; distances are exact for up to {LONGEST_WITH_SLOPES} of both")
    scale = 1 / sqrt(dim) if scale is None else float(scale)
    inner, outer = (None, scale) if softcap is None else (scale / softcap, float(softcap))
    return causal, (scale, outer * log2(e)), (left, right, inner, slopes, slopes_step(slopes))


def order_of(terms: tuple, wanted: str) -> str:
    """The order of programs: that `wanted`, where they differ in length."""
    causal, _, (left, *_) = terms
    return wanted if causal and left is None else "heads"


def check_like(name: str, model, **others) -> None:
    for other, x in others.items():
        if tuple(x.shape) != tuple(model.shape) or x.dtype != model.dtype:
            raise ValueError(f"{other} is {by(x)} {x.dtype}; it must be like {name}, {by(model)} {model.dtype}")


def check_strides(name: str, x) -> None:
    size = x.dtype.itemsize
    steps = tuple(step * size for step in strides(x))
    if steps[3] != size or any(step % 16 for step in steps[:3]):
        raise ValueError(f"{name} must be contiguous along the head dim and have strides of multiples of 16 bytes for TMA; its "
                         f"strides are {', '.join(map(str, steps))} bytes")


def by(x) -> str:
    return " x ".join(map(str, x.shape))


def of_queries(q, k, v, do, dq, rows, terms: tuple, order: str, bn: int = 128, k_stages: int = 3, v_stages: int = 2) -> tuple:
    """(grid, args, meta) of `query_gradients`, for blocks of 128 queries and bn keys."""
    batch, heads, seq_q, _ = q.shape
    describe, bm, columns, of_values = mimw.TensorDescriptor.from_tensor, 128, tile_columns(q.shape[3]), tile_columns(v.shape[3])
    causal, scales, changes = terms
    blocks = -(-seq_q // bm)
    bands = bands_of(blocks, heads, batch, order_of(terms, order))
    args = (describe(q, [1, 1, bm, columns]), describe(k, [1, 1, bn, columns]), describe(v, [1, 1, bn, of_values]),
            describe(do, [1, 1, bm, of_values]), describe(dq, [1, 1, 64, columns]), rows, *scales, heads, seq_q, k.shape[2],
            rows.shape[2], 0, *changes)
    meta = dict(BM=bm, BN=bn, D=columns, DV=of_values, GROUP=heads // k.shape[1], K_STAGES=k_stages, V_STAGES=v_stages,
                CAUSAL=causal, RAGGED=k.shape[2] % bn != 0, BANDS=bands, num_warps=4)
    return grid_of(blocks, heads, batch, bands), args, meta


def tile_columns(dim: int) -> int:
    """The columns of a tile that holds a row of a head."""
    return max(64, 1 << (dim - 1).bit_length())
