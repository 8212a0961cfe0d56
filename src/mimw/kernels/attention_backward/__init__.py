"""The gradients of attention on Hopper: bf16 and fp16, heads of up to 128, grouped queries, any lengths, causal or with a sliding
window, soft cap, ALiBi, attention sinks.

Input: q, k, v, o and the log-sum-exps of the forward kernel, and the gradient of o. Output: the gradients of q, k and v.
For example:

    launches(q, k, v, o, lse, do, dq, dk, dv, rows, sums)   the three launches of it, each (kernel, grid, args, meta)

With P = softmax(scale Q K^T) and delta the sum of each row of O dO: dV = P^T dO, dP = dO V^T, dS = P (dP - delta), dQ = scale dS K,
dK = scale dS^T Q. A launch before the products makes delta and clears fp32 sums, to which programs add their shares of dQ, in any
order; a launch after them makes dQ of the sums. So the last bits of dQ differ from run to run, unless one order is asked for
(queries.py); those of dK and dV do not.

Windows, soft caps and slopes are those of `mimw.kernels.attention`. A sink is in the log-sum-exps and changes nothing else; its own
gradient is - exp2(log2(e) sink - rows[0]) rows[1], summed over the queries of its head: `rows` is what that launch makes.
"""

from __future__ import annotations

from dataclasses import replace

import mimw

from ..attention.changes import CHANGES, HEADS, NEAR, SEEN, constants_of
from ..contract import Contract
from ..contract.memory import strides
from .configs import HEAD_DIMS, Configuration, configuration
from .kernel import attention_backward as kernel
from .nouns import Numbers, RowsForm, Steps
from .order import bands_of, grid_of
from .queries import query_gradients
from .rows import after, before
from .terms import of_queries, order_of, reach_of, terms_of, tile_columns

__all__ = ["Configuration", "after", "arguments", "before", "configuration", "kernel", "launches", "query_gradients",
           "workspace"]

QUERY, KEY = "(batch, heads, seq_q, dim) tma-all", "(batch, kv_heads, seq_k, dim) tma-all"
WIDTH = f"dim <= {max(HEAD_DIMS)} and dim % 8 == 0 -- the head dim may be a multiple of 8 up to {max(HEAD_DIMS)}"
ROWS = Contract(f"q: bf16|fp16 {QUERY}", f"o: =q {QUERY}", f"do: =q {QUERY}", f"dq: =q {QUERY}", "lse: fp32 (batch, heads, seq_q)",
                "dlse?: fp32 (batch, heads, seq_q)", WIDTH)
PRODUCTS = Contract(f"q: bf16|fp16 {QUERY}", f"k: =q {KEY}", f"v: =q {KEY}", f"do: =q {QUERY}", f"dk: =q {KEY}", f"dv: =q {KEY}",
                    *CHANGES, HEADS, WIDTH, SEEN, NEAR)
WORK = Contract("rows: fp32 (2, batch * heads, padded) contiguous", "sums?: fp32 (shares, 32) contiguous")


def workspace(q, chosen: Configuration | None = None, causal: bool = False,
              mod=None) -> tuple[tuple[int, ...], tuple[int, ...] | None]:
    """The shapes of `rows` and `sums`, fp32, for queries like q: numbers for each query, and the sums of dQ, None where a score_mod
    leaves no room for these."""
    batch, heads, seq_q, dim = q.shape
    columns = tile_columns(dim)
    chosen = chosen or configuration(columns, causal, mod)
    padded = -(-seq_q // chosen.bm) * chosen.bm
    return (2, batch * heads, padded), None if mod is not None and mod.gathers else (batch * heads * padded * columns // 32, 32)


def launches(q, k, v, o, lse, do, dq, dk, dv, rows, sums, causal: bool = False, scale: float | None = None,
             chosen: Configuration | None = None, dlse=None, one_order: bool = False, *,
             window: tuple[int | None, int | None] = (None, None), softcap: float | None = None, slopes=None,
             mod=None) -> list[tuple]:
    """The launches that compute dq, dk and dv, in order; each a (kernel, grid, args, meta).

    args:      q, o, do, dq   (batch, heads, seq_q, dim) of bf16 or fp16, contiguous along dim, which is a multiple of 8 up to 128
                              (what tiles of 64 or 128 columns have more is 0); the other strides are multiples of 16 bytes
               k, v, dk, dv   (batch, kv_heads, seq_k, dim), strides like q's; kv_heads divides heads
               lse            (batch, heads, seq_q) fp32, contiguous: the natural logarithms of the softmax's denominators
               rows, sums     fp32 arrays of the shapes of `workspace`, contiguous, of any content; for `one_order`, and where sums
                              have no shape, sums may be None
               causal         query i sees keys up to i + seq_k - seq_q: the last query sees all
               scale          of the scores; by default 1 / sqrt(dim)
               chosen         by default the measured configuration of the head dim
               dlse           the gradient of lse, like it, if there is one
               one_order      dQ by a kernel that owns its queries: the same bits in every run, for seven products instead of five
               window, softcap, slopes, mod     as `mimw.kernels.attention.arguments` has them; blocks outside of a window cost
                              nothing
    errors:    ValueError where a shape, a stride or a type is not what the kernels take, with the numbers
    """
    of = ROWS.check(q=q, o=o, do=do, dq=dq, lse=lse, dlse=dlse)
    heads, seq_q, dim, batch = of.heads, of.seq_q, of.dim, of.batch
    whole = tile_columns(dim)
    chosen = chosen or configuration(whole, causal, mod)
    one_order = one_order or mod is not None and mod.gathers
    if one_order:
        chosen = replace(chosen, dq="not")
    changes = dict(window=window, softcap=softcap, slopes=slopes, mod=mod)
    main = kernel, *arguments(q, k, v, do, dk, dv, rows, sums, causal, scale, chosen, **changes)
    _, measures, _ = terms = terms_of(dim, (heads, seq_q, k.shape[2]), causal, scale, **changes)
    padded, columns = rows.shape[2], chosen.share_columns(whole)
    grid = padded // chosen.bm, heads, batch
    of_o, of_do, of_dq = (Steps(*strides(x)[:3]) for x in (o, do, dq))
    numbers, form = Numbers(heads, seq_q, padded), RowsForm(dim, whole, chosen.bm, 0 if one_order else columns, dim, whole)
    first = before, grid, (o, do, lse, dlse, rows, sums, of_o, of_do, numbers), dict(FORM=form, num_warps=8)
    if one_order:
        return [first, main, (query_gradients, *of_queries(q, k, v, do, dq, rows, terms, chosen.order, mod=mod))]
    return [first, main, (after, grid, (sums, dq, measures.scale, of_dq, numbers), dict(FORM=form, num_warps=4))]


def arguments(q, k, v, do, dk, dv, rows, sums, causal: bool = False, scale: float | None = None,
              chosen: Configuration | None = None, *, window: tuple[int | None, int | None] = (None, None),
              softcap: float | None = None, slopes=None, mod=None) -> tuple[tuple[int, ...], tuple, dict]:
    """(grid, args, meta) of `kernel`, which computes dk and dv and adds to sums; `rows` is what `before` has made.

    Arguments and errors are as `launches` has them.
    """
    of = PRODUCTS.check(q=q, k=k, v=v, do=do, dk=dk, dv=dv, slopes=slopes, softcap=softcap, reach=reach_of(causal, window))
    heads, seq_q, kv_heads, seq_k, batch = of.heads, of.seq_q, of.kv_heads, of.seq_k, of.batch
    causal, *numbers = terms = terms_of(of.dim, (heads, seq_q, seq_k), causal, scale, window, softcap, slopes, mod)
    columns = tile_columns(of.dim)
    chosen = chosen or configuration(columns, causal, mod)
    (_, _, padded), (shares, _) = workspace(q, chosen)      # whatever the score_mod
    WORK.check(rows=rows, sums=None if chosen.dq == "not" else sums, batch=batch, heads=heads, padded=padded, shares=shares)
    describe = mimw.TensorDescriptor.from_tensor
    queries, keys, own, of_rows = [1, 1, chosen.bm, columns], [1, 1, chosen.bn, columns], [1, 1, 64, columns], [1, chosen.bm]
    share = [64 * chosen.share_columns(columns) // 32, 32]
    args = (describe(q, queries), describe(k, keys), describe(v, keys), describe(do, queries),
            describe(rows[0], of_rows), describe(rows[1], of_rows), describe(sums, share) if chosen.dq == "tma" else sums,
            describe(dk, own), describe(dv, own), *numbers)
    blocks = -(-seq_k // chosen.bn)
    bands = bands_of(blocks, kv_heads, batch, order_of(terms, chosen.order))
    meta = chosen.meta(columns, heads // kv_heads, causal, seq_k, bands) | constants_of(mod, gradient=True)
    return grid_of(blocks, kv_heads, batch, bands), args, meta

