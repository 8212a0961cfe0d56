"""Attention forward for Hopper: bf16 and fp16, head dims 64, 96, 128, 192 (with values of 128) and 256, any lengths, grouped
queries, causal or with a sliding window, soft cap, attention sinks, ALiBi.

Input: q, k and v as (batch, heads, length, dim), torch tensors, or numpy arrays for the simulator. Output: o =
softmax(scale q k^T) v, and with it the logarithms of the softmax's denominators. For example:

    arguments(q, k, v, o, lse, counter, programs)   (grid, args, meta) of a launch or `mimw.simulate` of `kernel`

With p = i + seq_k - seq_q the position of query i among the keys, a score is s = scale q_i k_j, with a soft cap
softcap tanh(s / softcap), with ALiBi less slope |p - j| after that, and counts where p - left <= j <= p + right. A sink is
one score more in the sum of a row, with no value. Soft caps take the chip's tanh.approx: its relative error is at most 2^-11 (PTX
ISA), which changes a capped score s by up to |s| / 2048; the simulator computes a tanh of fp32.
"""

from __future__ import annotations

from math import e, log2

import mimw

from ..checks import PROGRAMS
from ..contract import Contract
from .changes import CHANGES, HEADS, LONGEST_WITH_SLOPES, NEAR, SCALE, SEEN, capped, constants_of, scale_of, sight, slopes_step
from .configs import ON_AMD, WIDTHS, Configuration, configuration, configuration_of_window, heads_in_band
from .kernel import attention as kernel

__all__ = ["CONTRACT", "LONGEST_WITH_SLOPES", "ON_AMD", "Configuration", "arguments", "configuration", "kernel"]

CONTRACT = Contract(
    "q: bf16|fp16 (batch, heads, seq_q, dim) tma-all", "k: =q (batch, kv_heads, seq_k, dim) tma-all",
    "v: =q (batch, kv_heads, seq_k, value_dim) tma-all", "o: =q (batch, heads, seq_q, value_dim) tma-all",
    "lse: fp32 (batch, heads, seq_q) contiguous", "counter: i32 (numbers)", *CHANGES, HEADS, *WIDTHS, SCALE, SEEN, NEAR, PROGRAMS)


def arguments(q, k, v, o, lse, counter, programs: int, causal: bool = False, scale: float | None = None,
              chosen: Configuration | None = None, *, window: tuple[int | None, int | None] = (None, None),
              softcap: float | None = None, sinks=None, slopes=None, mod=None) -> tuple[tuple[int], tuple, dict]:
    """(grid, args, meta) that compute o = softmax(scale q k^T) v and the logarithms of the softmax's denominators.

    args:      q         (batch, heads, seq_q, dim) of bf16 or fp16, dim 64, 96, 128, 192 or 256, contiguous along dim; the other
                         strides are multiples of 16 bytes
               k, v      (batch, kv_heads, seq_k, dim), but v's dim is 128 where that of q and k is 192; kv_heads divides heads, and
                         head h reads kv head h * kv_heads // heads
               o         (batch, heads, seq_q, dim of v)
               lse       (batch, heads, seq_q) fp32, contiguous
               counter   one int32, 0 before and after a launch, for one launch at a time
               programs  how many persistent programs: one per SM, never more than output tiles
               causal    query i sees keys up to i + seq_k - seq_q: the last query sees all
               scale     of the scores, more than 0; by default 1 / sqrt(dim)
               chosen    by default the measured configuration of the head dim; AMD's chips take ON_AMD[dim]
               window    (left, right): how many keys before and after its own position a query sees, 0 or more; None is no bound.
                         With causal the right bound is 0. Blocks of keys that no query of a tile sees are not looked at
               softcap   more than 0: scores become softcap tanh(score / softcap); None leaves them
               sinks     (heads) fp32, contiguous: a logit of each head that joins the denominators, so that lse has it, too
               slopes    (heads) or (batch, heads) fp32, contiguous: ALiBi, for up to 2^22 queries and keys together
               mod       a `mimw.score_mods.ForKernels`: its function of the scaled score, in place of a soft cap and slopes; it may
                         hide all keys of a query, whose result is then 0, and lse -inf
    errors:    ValueError where a shape, a stride or a type is not what the kernel takes, with the numbers
    """
    causal, left, right, reach = sight(causal, window)
    of = CONTRACT.check(q=q, k=k, v=v, o=o, lse=lse, counter=counter, sinks=sinks, slopes=slopes, softcap=softcap, scale=scale,
                        programs=programs, reach=reach)
    batch, heads, seq_q, seq_k, dim, scale = of.batch, of.heads, of.seq_q, of.seq_k, of.dim, scale_of(scale, of.dim)
    windowed = left is not None or right is not None
    changed = any(x is not None for x in (softcap, slopes, mod))
    chosen = (chosen or (None if changed else configuration_of_window(dim, left, reach))
              or configuration(dim, causal, windowed or changed or sinks is not None, seq_q))
    chosen = chosen.reading(mod)
    group = heads // of.kv_heads
    rows = chosen.bm // chosen.consumers
    descs, rests = zip(*(_described(x, of, chosen) for x, of in ((q, rows), (k, chosen.bn), (v, chosen.bn), (o, rows))))
    band = heads_in_band(batch * heads, group, seq_k, dim, causal and left is None)
    inner, scale = capped(scale, softcap, mod)
    args = (*descs, lse, counter, scale * log2(e), batch, heads, seq_q, seq_k, band, left, right, inner, sinks, slopes,
            slopes_step(slopes), getattr(mod, "tables", None), *rests)
    tiles = -(-seq_q // chosen.bm) * batch * heads
    form = chosen.form(dim, group, causal, chosen.masked(causal, seq_q, seq_k, windowed))
    return (min(programs, tiles), ), args, dict(FORM=form, num_warps=4, **constants_of(mod))


def _described(x, rows: int, chosen: Configuration) -> tuple[mimw.TensorDescriptor, mimw.TensorDescriptor | None]:
    """Descriptors of `rows` rows of a head at a time, and of what is left of them where a head is two tiles."""
    first, rest = (mimw.TensorDescriptor.from_tensor(x, [1, 1, rows, width]) if width else None
                   for width in chosen.parts(x.shape[3]))
    return first, rest
