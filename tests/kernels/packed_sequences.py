"""Attention on packed sequences, in fp64 of numpy: sequence by sequence, by `attention_reference`.

Input: lengths; or q, k, v as (total, heads, dim), where sequences begin, and the options of attention_reference. Output: arrays; or
o and lse of every row that is in a sequence:

    q, k, v, o, lse, cu_q, cu_k = packed((70, 0), (5, 90))
    expect(q, k, v, o, lse, cu_q, cu_k, causal=True)        what o and lse are to become
"""

import numpy as np

from .attention_reference import reference

BEHIND = 3      # rows behind the last sequence, all NaN: nobody may use them


def packed(q_lengths, k_lengths, heads=2, kv_heads=1, dim=64, value_dim=None, dtype=np.float16):
    random, value_dim = np.random.default_rng(0), value_dim or dim
    cu_q, cu_k = (np.cumsum((0, *lengths)).astype(np.int32) for lengths in (q_lengths, k_lengths))
    q = random.standard_normal((cu_q[-1] + BEHIND, heads, dim)).astype(dtype)
    k, v = (random.standard_normal((cu_k[-1] + BEHIND, kv_heads, width)).astype(dtype) for width in (dim, value_dim))
    for x in (q, k, v):
        x[-BEHIND:] = np.nan
    return q, k, v, np.full((len(q), heads, value_dim), 7, dtype), np.full((heads, len(q)), 7, np.float32), cu_q, cu_k


def expect(q, k, v, o, lse, cu_q, cu_k, sinks=None, slopes=None, **options):
    o, lse = o.astype(np.float64), lse.astype(np.float64)
    for at, (a, b, c, d) in enumerate(zip(cu_q, cu_q[1:], cu_k, cu_k[1:])):
        if a == b:
            continue
        sequence = [x.swapaxes(0, 1)[None] for x in (q[a:b], k[c:d], v[c:d])]
        own = slopes if slopes is None or slopes.ndim == 1 else slopes[at]
        found, sums = reference(*sequence, sinks=sinks, slopes=own, **options)
        o[a:b], lse[:, a:b] = found[0].swapaxes(0, 1), sums[0]
    return o, lse
