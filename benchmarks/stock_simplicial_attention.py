"""2-simplicial attention in stock Triton, for groups of 64 heads: the baselines of benchmarks/simplicial_attention.py.

    run = launcher("second keys outside", q, k, v, k2, v2, o, (512, 32), BN=64, num_warps=4, num_stages=3)
    run()                                                                       o is written

Input: contiguous torch tensors of a GPU. Output: a call without arguments. Both forms take 64 heads of one query a program, so that
nothing but the ends of windows is masked, and are pipelined by Triton:

    keys outside            the published order: for every key, queries times that key, and tiles of second keys
    second keys outside     the library's order: for every second key, queries times that key, and tiles of keys
"""

from __future__ import annotations

from math import e, log2

import triton
import triton.language as tl


@triton.jit
def attend(scaled, k, v, start, end, state, scale, D: tl.constexpr, BN: tl.constexpr):
    """The online softmax of scaled queries over rows start .. end, BN at a time."""
    acc, highest, total, shrunk = state
    columns = tl.arange(0, D)
    for first in range(start, end, BN):
        rows = first + tl.arange(0, BN)
        inside = rows < end
        at = rows[:, None] * D + columns[None, :]
        logits = tl.dot(scaled, tl.trans(tl.load(k + at, mask=inside[:, None], other=0.0)))
        logits = tl.where(inside[None, :], logits * scale, float("-inf"))
        new = tl.maximum(highest, tl.max(logits, 1))
        p, shrink = tl.exp2(logits - new[:, None]), tl.exp2(highest - new)
        total, shrunk, highest = total * shrink + tl.sum(p, 1), shrunk * shrink, new
        block = tl.load(v + at, mask=inside[:, None], other=0.0)
        acc = tl.dot(p.to(block.dtype), block, acc * shrink[:, None])
    return acc, highest, total, shrunk


@triton.jit
def stock(q, k, v, k2, v2, o, scale, seq, window, window2, HEADS: tl.constexpr, D: tl.constexpr, BN: tl.constexpr,
          KEYS_OUTSIDE: tl.constexpr):
    """o[batch, 64 heads, query]; program 0 has the last query."""
    query, tile = seq - 1 - tl.program_id(0), tl.program_id(1)
    heads, columns = tile * HEADS + tl.arange(0, HEADS), tl.arange(0, D)
    at = (heads[:, None] * seq + query) * D + columns[None, :]
    queries = tl.load(q + at)
    shared = tile.to(tl.int64) * seq * D        # one head of keys for 64 heads
    k, v, k2, v2 = k + shared, v + shared, k2 + shared, v2 + shared
    low, low2 = max(0, query + 1 - window), max(0, query + 1 - window2)
    highest, total = tl.full((HEADS, ), float("-inf"), tl.float32), tl.zeros((HEADS, ), tl.float32)
    out = tl.zeros((HEADS, D), tl.float32)
    for outer in range(low if KEYS_OUTSIDE else low2, query + 1):
        row = outer * D + columns
        scaled = (queries * tl.load((k if KEYS_OUTSIDE else k2) + row)[None, :]).to(queries.dtype)
        state = tl.zeros((HEADS, D), tl.float32), highest, tl.zeros((HEADS, ), tl.float32), tl.full((HEADS, ), 1.0, tl.float32)
        if KEYS_OUTSIDE:
            acc, highest, part, shrunk = attend(scaled, k2, v2, low2, query + 1, state, scale, D, BN)
        else:
            acc, highest, part, shrunk = attend(scaled, k, v, low, query + 1, state, scale, D, BN)
        value = tl.load((v if KEYS_OUTSIDE else v2) + row).to(tl.float32)
        out, total = out * shrunk[:, None] + acc * value[None, :], total * shrunk + part
    tl.store(o + at, (out / total[:, None]).to(o.dtype.element_ty))


CANDIDATES = {
    "keys outside": [dict(BN=32, num_warps=4, num_stages=2), dict(BN=32, num_warps=8, num_stages=1)],
    "second keys outside": [dict(BN=64, num_warps=4, num_stages=2), dict(BN=64, num_warps=4, num_stages=3),
                            dict(BN=128, num_warps=4, num_stages=2), dict(BN=128, num_warps=8, num_stages=2),
                            dict(BN=64, num_warps=8, num_stages=3)],
}


def launcher(form: str, q, k, v, k2, v2, o, windows: tuple[int, int], **options):
    """A call without arguments that fills o; 64 heads of q for each one of k."""
    batch, heads, seq, dim = q.shape
    assert heads == 64 * k.shape[1] and all(x.is_contiguous() for x in (q, k, v, k2, v2, o))
    kernel, scale = stock[seq, batch * k.shape[1]], dim ** -0.5 * log2(e)
    return lambda: kernel(q, k, v, k2, v2, o, scale, seq, *windows, HEADS=64, D=dim, KEYS_OUTSIDE=form == "keys outside", **options)
