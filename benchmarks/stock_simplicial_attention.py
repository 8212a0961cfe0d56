"""2-simplicial attention and its gradients in stock Triton, for groups of 64 heads: the baselines of its benchmark.

    run = launcher("second keys outside", q, k, v, k2, v2, o, (512, 32), BN=64, num_warps=4, num_stages=3)
    run()                                                                       o is written

Input: contiguous torch tensors of a GPU. Output: a call without arguments. Both forms take 64 heads of one query a
program, so that nothing but the ends of windows is masked, and are pipelined by Triton:

    keys outside            the published order: for every key, queries times that key, and tiles of second keys
    second keys outside     the library's order: for every second key, queries times that key, and tiles of keys

`gradient_launcher` has the published split of the gradients: one launch for dk and dv, in which every query scales its rows by
second keys, and one for dq, dk2 and dv2, which makes four products of its own, where the library's makes three.
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


@triton.jit
def pair(scaled, weighed, k, v, logarithm, less, seen, scale):
    """(probabilities, their gradients) of 64 heads of a query, a second key and a block of keys, in bf16."""
    p = tl.where(seen[None, :], tl.exp2(tl.dot(scaled, tl.trans(k)) * scale - logarithm[:, None]), 0.0)
    ds = p * (tl.dot(weighed, tl.trans(v)) - less[:, None])
    return p.to(k.dtype), ds.to(k.dtype)


@triton.jit
def stock_of_queries(q, k, v, k2, v2, do, lse, delta, dq, dk2, dv2, scale, seq, window, window2, HEADS: tl.constexpr,
                     D: tl.constexpr, BN: tl.constexpr):
    """dq of 64 heads of a query, and their shares of dk2 and dv2."""
    query, tile = tl.program_id(0), tl.program_id(1)
    heads, columns = tile * HEADS + tl.arange(0, HEADS), tl.arange(0, D)
    at = (heads[:, None] * seq + query) * D + columns[None, :]
    queries, gradient = tl.load(q + at), tl.load(do + at)
    logarithm, less = tl.load(lse + heads * seq + query) * 1.4426950408889634, tl.load(delta + heads * seq + query)
    shared = tile.to(tl.int64) * seq * D
    sums = tl.zeros((HEADS, D), tl.float32)
    for second in range(max(0, query + 1 - window2), query + 1):
        row = shared + second * D + columns
        key2, value2 = tl.load(k2 + row), tl.load(v2 + row)
        scaled, weighed = (queries * key2[None, :]).to(queries.dtype), (gradient * value2[None, :]).to(gradient.dtype)
        x, y = tl.zeros((HEADS, D), tl.float32), tl.zeros((HEADS, D), tl.float32)
        for first in range(max(0, query + 1 - window), query + 1, BN):
            keys = first + tl.arange(0, BN)
            to = shared + keys[:, None] * D + columns[None, :]
            mask = (keys <= query)[:, None]
            block, values = tl.load(k + to, mask=mask, other=0.0), tl.load(v + to, mask=mask, other=0.0)
            p, ds = pair(scaled, weighed, block, values, logarithm, less, keys <= query, scale * 1.4426950408889634)
            x, y = tl.dot(ds, block, x), tl.dot(p, values, y)
        sums += x * key2.to(tl.float32)[None, :]
        tl.atomic_add(dk2 + row, scale * tl.sum(queries.to(tl.float32) * x, 0), sem="relaxed")
        tl.atomic_add(dv2 + row, tl.sum(gradient.to(tl.float32) * y, 0), sem="relaxed")
    tl.store(dq + at, (sums * scale).to(dq.dtype.element_ty))


@triton.jit
def stock_of_keys(q, k, v, k2, v2, do, lse, delta, dk, dv, scale, seq, window, window2, HEADS: tl.constexpr, D: tl.constexpr,
                  BN: tl.constexpr):
    """dk and dv of BN keys."""
    low, tile = tl.program_id(0) * BN, tl.program_id(1)
    keys, heads, columns = low + tl.arange(0, BN), tile * HEADS + tl.arange(0, HEADS), tl.arange(0, D)
    shared = tile.to(tl.int64) * seq * D
    to = shared + keys[:, None] * D + columns[None, :]
    inside = (keys < seq)[:, None]
    block, values = tl.load(k + to, mask=inside, other=0.0), tl.load(v + to, mask=inside, other=0.0)
    sums_k, sums_v = tl.zeros((BN, D), tl.float32), tl.zeros((BN, D), tl.float32)
    for query in range(low, min(seq, low + BN - 1 + window)):
        at = (heads[:, None] * seq + query) * D + columns[None, :]
        queries, gradient = tl.load(q + at), tl.load(do + at)
        logarithm, less = tl.load(lse + heads * seq + query) * 1.4426950408889634, tl.load(delta + heads * seq + query)
        seen = (keys <= query) & (keys > query - window)
        for second in range(max(0, query + 1 - window2), query + 1):
            row = shared + second * D + columns
            scaled = (queries * tl.load(k2 + row)[None, :]).to(queries.dtype)
            weighed = (gradient * tl.load(v2 + row)[None, :]).to(gradient.dtype)
            p, ds = pair(scaled, weighed, block, values, logarithm, less, seen, scale * 1.4426950408889634)
            sums_v, sums_k = tl.dot(tl.trans(p), weighed, sums_v), tl.dot(tl.trans(ds), scaled, sums_k)
    tl.store(dk + to, (sums_k * scale).to(dk.dtype.element_ty), mask=inside)
    tl.store(dv + to, sums_v.to(dv.dtype.element_ty), mask=inside)


def gradient_launcher(q, k, v, k2, v2, do, lse, delta, dq, dk, dv, dk2, dv2, windows: tuple[int, int], BN: int = 64,
                      num_warps: int = 8):
    """A call without arguments that fills dq, dk and dv and adds to dk2 and dv2, which are fp32."""
    batch, heads, seq, dim = q.shape
    given, scale = (q, k, v, k2, v2, do, lse, delta), dim ** -0.5
    tiles, meta = batch * heads // 64, dict(HEADS=64, D=dim, BN=BN, num_warps=num_warps, num_stages=1)

    def run():
        dk2.zero_(), dv2.zero_()
        stock_of_queries[seq, tiles](*given, dq, dk2, dv2, scale, seq, *windows, **meta)
        stock_of_keys[triton.cdiv(seq, BN), tiles](*given, dk, dv, scale, seq, *windows, **meta)

    return run
