"""The gradients of attention with wide heads on Hopper: bf16 and fp16, heads of up to 256, whatever is a multiple of 8, values of
another width or the same; grouped queries, any lengths, causal or with a sliding window, soft cap, ALiBi, attention sinks.

Input: q, k, v, o and the log-sum-exps of the forward kernel, and the gradient of o. Output: the gradients of q, k and v.
For example:

    launches(q, k, v, o, lse, do, dq, dk, dv, rows)     the three launches of it, each (kernel, grid, args, meta)
    workspace(q), sums_of(q, v, changed)                the shapes of `rows` and of `sums`

A launch makes delta, one dK and dV (kernel.py), one dQ (../attention_backward/queries.py): seven products, and all bits are the
same in every run. With `sums`, which are for heads of up to 192 with values of up to 128, one kernel makes all three with five
(one.py), as `mimw.kernels.attention_backward` does of heads of up to 128; the last bits of dQ then differ from run to run. Tiles
have 64, 128, 192 or 256 columns, of which TMA reads as 0, and does not write, those that the tensors lack. A sink is in the
log-sum-exps, and its gradient in `rows`, as there.
"""

from __future__ import annotations

import mimw

from ..attention.changes import CHANGES, HEADS, NEAR, SEEN, constants_of
from ..attention_backward.nouns import Form, KeysForm, Numbers, RowsForm, Steps
from ..attention_backward.order import bands_of, grid_of
from ..attention_backward.queries import query_gradients
from ..attention_backward.rows import after, before
from ..attention_backward.terms import of_queries, order_of, reach_of, terms_of, tile_columns
from ..contract import Contract
from ..contract.memory import strides
from .halves import HALF
from .kernel import wide_key_gradients as kernel
from .one import wide_gradients

__all__ = ["WIDEST", "after", "before", "kernel", "launches", "query_gradients", "sums_of", "wide_gradients", "workspace"]

WIDEST, BM, BN = 256, 64, 64
QUERY, KEY = "(batch, heads, seq_q, dim) tma-all", "(batch, kv_heads, seq_k, dim) tma-all"
VALUE, RESULT = "(batch, kv_heads, seq_k, value_dim) tma-all", "(batch, heads, seq_q, value_dim) tma-all"
CONTRACT = Contract(
    f"q: bf16|fp16 {QUERY}", f"k: =q {KEY}", f"v: =q {VALUE}", f"o: =q {RESULT}", f"do: =q {RESULT}", f"dq: =q {QUERY}",
    f"dk: =q {KEY}", f"dv: =q {VALUE}", "lse: fp32 (batch, heads, seq_q)", "dlse?: fp32 (batch, heads, seq_q)",
    f"rows: fp32 (2, batch * heads, cdiv(seq_q, {BM}) * {BM}) contiguous", "sums?: fp32 (shares, 32) contiguous",
    *CHANGES, HEADS, SEEN, NEAR,
    f"max(dim, value_dim) <= {WIDEST} and dim % 8 == 0 and value_dim % 8 == 0 -- widths may be multiples of 8 up to {WIDEST}")


def workspace(q) -> tuple[int, int, int]:
    """The shape of `rows`, fp32: numbers for each query."""
    batch, heads, seq_q, _ = q.shape
    return 2, batch * heads, -(-seq_q // BM) * BM


def sums_of(q, v, changed: bool = False) -> tuple[int, int] | None:
    """The shape of `sums`, fp32: those of dQ; None where one kernel has not room for all gradients, or, where a soft cap or a
    score_mod has `changed` scores, not enough registers to be faster than two."""
    if q.shape[3] > 2 * HALF.value or v.shape[3] > 128 or changed:
        return None
    _, shares, padded = workspace(q)
    return shares * padded * 2 * HALF.value // 32, 32


def launches(q, k, v, o, lse, do, dq, dk, dv, rows, causal: bool = False, scale: float | None = None, dlse=None, *,
             window: tuple[int | None, int | None] = (None, None), softcap: float | None = None, slopes=None,
             order: str = "auto", sums=None, mod=None) -> list[tuple]:
    """The launches that compute dq, dk and dv, in order; each a (kernel, grid, args, meta).

    args:      q, dq          (batch, heads, seq_q, dim) of bf16 or fp16, contiguous along dim, which is a multiple of 8 and at most
                              256; the other strides are multiples of 16 bytes
               k, dk          (batch, kv_heads, seq_k, dim), v and dv the same of value_dim; kv_heads divides heads
               o, do          (batch, heads, seq_q, value_dim)
               rows           fp32 of the shape of `workspace`, contiguous, of any content
               lse, dlse, causal, scale, window, softcap, slopes, mod   as `mimw.kernels.attention_backward.launches` has them
               order          of programs, as its `Configuration` has it
               sums           fp32 of the shape of `sums_of`, contiguous, of any content: dQ in any order, by five products
    errors:    ValueError where a shape, a stride or a type is not what the kernels take, with the numbers
    """
    of = CONTRACT.check(q=q, k=k, v=v, o=o, do=do, dq=dq, dk=dk, dv=dv, lse=lse, dlse=dlse, rows=rows, sums=sums, slopes=slopes,
                        softcap=softcap, reach=reach_of(causal, window))
    heads, seq_q, kv_heads, seq_k, batch, dim, of_values = (of.heads, of.seq_q, of.kv_heads, of.seq_k, of.batch, of.dim,
                                                            of.value_dim)
    causal, *numbers = terms = terms_of(dim, (heads, seq_q, seq_k), causal, scale, window, softcap, slopes, mod)
    one, padded, values = sums is not None, rows.shape[2], tile_columns(of_values)
    columns, bn = (2 * HALF.value, 2 * BN) if one else (tile_columns(dim), BN)
    grid, of_o, of_do, of_dq = (padded // BM, heads, batch), *(Steps(*strides(x)[:3]) for x in (o, do, dq))
    rows_form, lengths = RowsForm(dim, columns, BM, 32 if one else 0, of_values, values), Numbers(heads, seq_q, padded)
    first = before, grid, (o, do, lse, dlse, rows, sums, of_o, of_do, lengths), dict(FORM=rows_form, num_warps=8)
    describe, wide = mimw.TensorDescriptor.from_tensor, HALF.value if one else columns
    args = (describe(q, [1, 1, BM, wide]), describe(k, [1, 1, BN, wide]), describe(v, [1, 1, bn, values]),
            describe(do, [1, 1, BM, values]), describe(rows[0], [1, BM]), describe(rows[1], [1, BM]),
            *([describe(sums, [BM, 32])] if one else []), describe(dk, [1, 1, BN, wide]),
            describe(dv, [1, 1, BN, values]), *numbers)
    blocks = -(-seq_k // bn)
    bands = bands_of(blocks, kv_heads, batch, order_of(terms, order))
    form = Form(BM, bn, heads // kv_heads, causal, columns, seq_k % bn != 0, "tma" if one else None, bands)
    meta = dict(FORM=KeysForm(form, values, 2, 2), num_warps=4, **constants_of(mod, gradient=True))
    main = wide_gradients if one else kernel, grid_of(blocks, kv_heads, batch, bands), args, meta
    if one:
        return [first, main, (after, grid, (sums, dq, terms[1].scale, of_dq, lengths), dict(FORM=rows_form, num_warps=4))]
    slots = dict(k_stages=2, v_stages=1) if values == WIDEST else dict(k_stages=3, v_stages=2)
    at_once = 32 if mod is not None and mod.gathers else 64        # leaves room for what is read
    return [first, main, (query_gradients, *of_queries(q, k, v, do, dq, rows, terms, order, at_once, **slots, mod=mod))]
