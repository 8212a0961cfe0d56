"""The gradient of the queries of 2-simplicial attention for Hopper: bf16 and fp16, head dims 64 and 128.

Input: what `mimw.kernels.simplicial_attention` takes, the gradient do of its result, its lse, and delta. Output: dq. For example:

    arguments(q, k, v, k2, v2, do, lse, delta, dq, programs)    (grid, args, meta) of a launch or `mimw.simulate` of `kernel`

The other gradients are `mimw.kernels.plain_simplicial_attention`'s.
"""

from __future__ import annotations

from math import sqrt

import mimw

from ..checks import of_rank, one_of, persistent, rows_for_tma, strides
from ..simplicial_attention import HEAD_DIMS, HEADS, WINDOWS, Configuration, check_shapes
from .configs import configuration
from .kernel import simplicial_attention_backward as kernel

__all__ = ["Configuration", "arguments", "configuration", "kernel"]


def arguments(q, k, v, k2, v2, do, lse, delta, dq, programs: int, windows: tuple[int, int] = WINDOWS, scale: float | None = None,
              chosen: Configuration | None = None) -> tuple[tuple[int], tuple, dict]:
    """(grid, args, meta) that compute dq.

    args:      q ... v2    as those of `mimw.kernels.simplicial_attention.arguments`
               do, dq      like q
               lse         (batch, heads, seq_q) fp32, contiguous, as that kernel gives it
               delta       the same shape: sum(o do) along the head dim, less the gradient of lse
               programs    how many persistent programs: one per SM
               windows, scale, chosen    as there
    errors:    ValueError where a shape, a stride or a type is not what the kernel takes, with the numbers
    """
    arrays = dict(q=q, k=k, v=v, k2=k2, v2=v2, do=do, dq=dq)
    of_rank(4, **arrays)
    of_rank(3, lse=lse, delta=delta)
    programs = persistent(programs)
    batch, heads, seq_q, dim = map(int, q.shape)
    check_shapes(q, k, v, k2, v2, do, lse, windows)
    check_shapes(q, k, v, k2, v2, dq, delta, windows)
    group = heads // int(k.shape[1])
    if dim not in HEAD_DIMS or group % HEADS:
        raise ValueError(f"the head dim is {dim} and {group} query heads share keys; it may be "
                         f"{' or '.join(map(str, HEAD_DIMS))}, and they a multiple of {HEADS}")
    one_of(("bfloat16", "float16"), **arrays)
    rows_for_tma(**arrays)
    scale = 1 / sqrt(dim) if scale is None else scale
    chosen = chosen or configuration(dim)
    describe = mimw.TensorDescriptor.from_tensor
    rows, keys = [1, HEADS, 1, dim], [1, 1, chosen.bn, dim]
    steps = [step for x in (k2, v2) for step in strides(x)[:3]]
    args = (describe(q, rows), describe(k, keys), describe(v, keys), describe(do, rows), describe(dq, rows), k2, v2, lse, delta,
            float(scale), batch, heads, seq_q, int(k.shape[2]), *windows, *steps)
    return (min(programs, batch * heads // HEADS * seq_q), ), args, chosen.meta(dim, group)
