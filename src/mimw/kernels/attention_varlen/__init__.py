"""Attention forward on sequences of any lengths, packed one behind the other, for Hopper: where they begin, only the device knows.

Input: q (total_q, heads, dim), k and v (total_k, kv_heads, dim), and cu_seqlens_q and cu_seqlens_k. Output: o =
softmax(scale q k^T) v in each sequence, and the logarithms of the softmax's denominators. For example:

    arguments(q, k, v, o, lse, cu_q, cu_k, counter, programs, 500, 500)     (grid, args, meta) of a launch or of
                                                                            `mimw.simulate` of `kernel`

Head dims, masks, windows, soft caps, sinks and ALiBi are those of `mimw.kernels.attention`, with the lengths of each sequence: its
last query sees its last key. Every row of a result is made by one consumer in one order, so the bits are the same in every run.
"""

from __future__ import annotations

from math import e, log2

from ..attention.changes import CHANGES, HEADS, LONGEST_WITH_SLOPES, SCALE, capped, scale_of, sight, slopes_step
from ..attention.configs import L2_BYTES, WIDTHS, value_dim
from ..checks import PROGRAMS
from ..contract import Contract
from . import maps
from .configs import Configuration, configuration
from .kernel import attention_varlen as kernel
from .maps import ending, packed

__all__ = ["CONTRACT", "LONGEST_WITH_SLOPES", "Configuration", "arguments", "configuration", "kernel"]

FAR = maps.FAR.value            # each total of rows is below
SEQUENCES = (                   # lines of contracts
    "cu_seqlens_q: i32 (batch + 1) contiguous", "cu_seqlens_k: i32 (batch + 1) contiguous",
    "batch > 0 -- cu_seqlens_q and cu_seqlens_k have one number more than there are sequences", *CHANGES, HEADS,
    f"total_q < {FAR} and total_k < {FAR} -- queries and keys must be fewer than 2^30 each",
    f"slopes is None or max_seqlen_q + max_seqlen_k <= {LONGEST_WITH_SLOPES} -- distances of slopes are exact for up to "
    f"{LONGEST_WITH_SLOPES} queries and keys of a sequence", "min(max_seqlen_q, max_seqlen_k) >= 0 -- lengths are 0 or more")
CONTRACT = Contract("q: bf16|fp16 (total_q, heads, dim) tma", "k: =q (total_k, kv_heads, dim) tma",
                    "v: =q (total_k, kv_heads, value_dim) tma", "o: =q (total_q, heads, value_dim) tma",
                    "lse: fp32 (heads, total_q)", *SEQUENCES, "counter: i32 (numbers)", *WIDTHS, SCALE, PROGRAMS)


def arguments(q, k, v, o, lse, cu_seqlens_q, cu_seqlens_k, counter, programs: int, max_seqlen_q: int, max_seqlen_k: int,
              causal: bool = False, scale: float | None = None, chosen: Configuration | None = None, *,
              window: tuple[int | None, int | None] = (None, None), softcap: float | None = None, sinks=None,
              slopes=None) -> tuple[tuple[int], tuple, dict]:
    """(grid, args, meta) that compute o = softmax(scale q k^T) v and the logarithms of the denominators, sequence by sequence.

    args:      q         (total_q, heads, dim) of bf16 or fp16, dim 64, 96, 128, 192 or 256, contiguous along dim; the other strides
                         are multiples of 16 bytes
               k, v      (total_k, kv_heads, dim), but v's dim is 128 where that of q and k is 192; kv_heads divides heads, and
                         head h reads kv head h * kv_heads // heads. Each total is below 2^30
               o         (total_q, heads, dim of v); rows that are in no sequence stay as they are
               lse       (heads, total_q) fp32, contiguous; likewise
               cu_seqlens_q, cu_seqlens_k   (sequences + 1) int32, ascending from 0 on, contiguous: sequence s has the queries from
                         cu_seqlens_q[s] up to cu_seqlens_q[s + 1], and may have none; read on the device, where nobody checks them
               counter   one int32, 0 before and after a launch, for one launch at a time
               programs  how many persistent programs: one per SM
               max_seqlen_q, max_seqlen_k   no sequence is longer; they choose a configuration and bound the grid
               causal    query i of a sequence sees its keys up to i + length_k - length_q; one that sees none gets o = 0 and lse =
                         -inf, or the head's sink
               scale     of the scores, more than 0; by default 1 / sqrt(dim)
               chosen    by default the measured configuration
               window, softcap, sinks, slopes   as `mimw.kernels.attention.arguments`; slopes (heads) or (sequences, heads)
    errors:    ValueError where a shape, a stride or a type is not what the kernel takes, with the numbers
    """
    causal, left, right, _ = sight(causal, window)
    of = CONTRACT.check(q=q, k=k, v=v, o=o, lse=lse, cu_seqlens_q=cu_seqlens_q, cu_seqlens_k=cu_seqlens_k, counter=counter,
                        sinks=sinks, slopes=slopes, softcap=softcap, scale=scale, programs=programs, max_seqlen_q=max_seqlen_q,
                        max_seqlen_k=max_seqlen_k)
    total_q, heads, dim, sequences, scale = of.total_q, of.heads, of.dim, of.batch, scale_of(scale, of.dim)
    windowed = left is not None or right is not None
    chosen = chosen or configuration(dim, causal, windowed or any(x is not None for x in (softcap, sinks, slopes)), max_seqlen_q)
    form = chosen.form(dim, heads // of.kv_heads, causal, 2 if causal or windowed else 1)
    rows, (width, rest), (v_width, v_rest) = chosen.bm // chosen.consumers, chosen.parts(dim), chosen.parts(value_dim(dim))
    inner, scale = capped(scale, softcap)
    args = (packed(q, rows, width), packed(k, chosen.bn, width), ending(v, chosen.bn, v_width), ending(o, rows, v_width), lse,
            cu_seqlens_q, cu_seqlens_k, counter, scale * log2(e), sequences, heads, total_q, L2_BYTES // (4 * dim), left, right,
            inner, sinks, slopes, slopes_step(slopes), packed(q, rows, rest), packed(k, chosen.bn, rest),
            ending(v, chosen.bn, v_rest), ending(o, rows, v_rest))
    tiles = heads * min(-(-total_q // chosen.bm) + sequences, sequences * -(-max_seqlen_q // chosen.bm))
    return (max(min(programs, tiles), 1), ), args, dict(FORM=form, num_warps=4)
