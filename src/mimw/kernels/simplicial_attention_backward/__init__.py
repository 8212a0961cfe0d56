"""The gradient of the queries of 2-simplicial attention for Hopper: bf16 and fp16, head dims 64 and 128.

Input: what `mimw.kernels.simplicial_attention` takes, the gradient do of its result, its lse, and delta. Output: dq. For example:

    arguments(q, k, v, k2, v2, do, lse, delta, dq, programs)    (grid, args, meta) of a launch or `mimw.simulate` of `kernel`

The other gradients are `mimw.kernels.plain_simplicial_attention`'s.
"""

from __future__ import annotations

import mimw

from ..attention.changes import scale_of
from ..checks import PROGRAMS
from ..contract import Contract
from ..contract.memory import strides
from ..simplicial_attention import FITS, HEADS, OF_HOPPER, WINDOWS, Configuration, tensors
from ..simplicial_attention.nouns import Problem, Steps, StepsOfSeconds
from .configs import configuration
from .kernel import simplicial_attention_backward as kernel

__all__ = ["CONTRACT", "Configuration", "arguments", "configuration", "kernel"]

CONTRACT = Contract(*tensors("bf16|fp16", " tma", "do", "dq"), "lse: fp32 (batch, heads, seq_q)",
                    "delta: fp32 (batch, heads, seq_q)", *FITS, OF_HOPPER, PROGRAMS)


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
    of = CONTRACT.check(q=q, k=k, v=v, k2=k2, v2=v2, do=do, dq=dq, lse=lse, delta=delta, windows=windows, programs=programs)
    batch, heads, seq_q, dim, group, scale = of.batch, of.heads, of.seq_q, of.dim, of.heads // of.kv_heads, scale_of(scale, of.dim)
    chosen = chosen or configuration(dim)
    describe = mimw.TensorDescriptor.from_tensor
    rows, keys = [1, HEADS, 1, dim], [1, 1, chosen.bn, dim]
    steps = StepsOfSeconds(*(Steps(*strides(x)[:3]) for x in (k2, v2)))
    args = (describe(q, rows), describe(k, keys), describe(v, keys), describe(do, rows), describe(dq, rows), k2, v2, lse, delta,
            Problem(float(scale), batch, heads, seq_q, of.seq_k, *windows), steps)
    return (min(programs, batch * heads // HEADS * seq_q), ), args, chosen.meta(dim, group)
