"""The launch that goes before the products where tokens are few: rows to their places, which each program finds for itself.

Input: tokens, their experts, and arrays to fill. Output: one launch. For example:

    few(x, ids, rows, None, places, experts, total, num_experts, bm)        (kernel, grid, args, meta)
    few(x, ids, rows, scales, ...)                                          rows in fp8 with their scales
"""

from __future__ import annotations

from ..contract.memory import strides
from .nouns import SpreadForm, SpreadSteps
from .rows import spread_few

FEW = 512           # slots, of tokens times experts a token, for which that is quicker than a launch of moe_align
BLOCK = 1024        # columns of a token that one program spreads


def few(x, ids, rows, scales, places, experts, total, num_experts: int, bm: int, counter=None) -> tuple:
    """(kernel, grid, args, meta) that fills rows, their scales if any, the place of each slot, the expert of each block of bm rows,
    the number of rows with padding, and 0 into `counter`, if any."""
    (tokens, hidden), k = x.shape, ids.shape[1]
    steps = SpreadSteps(strides(x)[0], 0 if scales is None else strides(scales)[0])
    form = SpreadForm(num_experts, bm, k, max(16, 1 << (tokens * k - 1).bit_length()), BLOCK)
    args = x, ids, rows, scales, places, experts, total, counter, tokens * k, hidden, steps
    return spread_few, (tokens, -(-hidden // BLOCK)), args, dict(FORM=form, num_warps=4)
