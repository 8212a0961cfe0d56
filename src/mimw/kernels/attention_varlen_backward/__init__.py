"""The gradients of attention on packed sequences for Hopper: bf16 and fp16, heads of up to 256; where sequences begin, only the
device knows.

Input: q (total_q, heads, dim), k, v, cu_seqlens_q, cu_seqlens_k, o and the log-sum-exps of the forward kernel, and the gradient of
o. Output: the gradients of q, k and v. For example:

    work = [np.empty(*one) if one else None for one in workspace(q, k, v, cu_q, 500, 500)]          shapes and types
    launches(q, k, v, o, lse, do, dq, dk, dv, cu_q, cu_k, work, 500, 500)       three launches, each (kernel, grid, args, meta)

Heads of up to 128, with values as wide, are computed as `mimw.kernels.attention_backward` does, with the lengths of each sequence:
the last bits of dQ differ from run to run, unless one order is asked for. Other heads, up to 256, are computed as by
`wide_attention_backward`, always in one order. The first launch also lists the tiles of keys, and of queries for one order; rows of
gradients that are in no sequence get zeros. A sink is in the log-sum-exps; `rows`, the first of the workspace, is what its gradient
is made of, as there.
"""

from __future__ import annotations

from dataclasses import replace

import mimw

from ..attention_backward.configs import HEAD_DIMS, Configuration, configuration
from ..attention_backward.nouns import Form, KeysForm, QueriesForm
from ..attention_backward.terms import terms_of, tile_columns
from ..attention_varlen import SEQUENCES
from ..attention_varlen.maps import ending, steps
from ..contract import Contract, by
from ..contract.memory import wrong
from ..contract.types import of as type_of
from ..wide_attention_backward import WIDEST
from .kernel import attention_varlen_backward as kernel
from .nouns import Counts, Given, Gradients, Heads, Lists, RowsForm, RowSteps, Starts, StepsOfAll
from .queries import packed_query_gradients
from .rows import after, before
from .tiles import ENTRY
from .wide import packed_wide_key_gradients

__all__ = ["Configuration", "after", "before", "kernel", "launches", "packed_query_gradients",
           "packed_wide_key_gradients", "workspace"]

OF_QUERIES = 128                            # queries of a tile where dQ is made in one order
WIDE = Configuration(bn=64, dq="not")       # tiles of wide heads
QUERY, KEY = "(total_q, heads, dim) tma", "(total_k, kv_heads, dim) tma"
VALUE, RESULT = "(total_k, kv_heads, value_dim) tma", "(total_q, heads, value_dim) tma"
CONTRACT = Contract(
    f"q: bf16|fp16 {QUERY}", f"k: =q {KEY}", f"v: =q {VALUE}", f"o: =q {RESULT}", f"do: =q {RESULT}", f"dq: =q {QUERY}",
    f"dk: =q {KEY}", f"dv: =q {VALUE}", "lse: fp32 (heads, total_q) contiguous", "dlse?: fp32 (heads, total_q) contiguous",
    *SEQUENCES,
    f"max(dim, value_dim) <= {WIDEST} and dim % 8 == 0 and value_dim % 8 == 0 -- widths may be multiples of 8 up to {WIDEST}")


def _chosen(dim: int, value_dim: int, causal: bool, chosen: Configuration | None, one_order: bool) -> Configuration:
    if dim != value_dim or dim > max(HEAD_DIMS):
        return WIDE
    chosen = chosen or configuration(tile_columns(dim), causal)
    return replace(chosen, dq="not") if one_order else chosen


def workspace(q, k, v, cu_seqlens_q, max_seqlen_q: int, max_seqlen_k: int, causal: bool = False,
              chosen: Configuration | None = None, one_order: bool = False) -> list[tuple[tuple[int, ...], str] | None]:
    """(shape, type) of `rows`, `sums`, tiles of keys and tiles of queries for a launch on such arrays; None for what it has not."""
    (total_q, heads, dim), sequences = q.shape, cu_seqlens_q.shape[0] - 1
    chosen = _chosen(dim, v.shape[2], causal, chosen, one_order)
    blocks = total_q // chosen.bm + sequences

    def tiles(total: int, longest: int, rows: int) -> tuple[tuple[int, int], str]:
        most = min((total + sequences * (rows - 1)) // rows, sequences * -(-longest // rows))
        return (max(most, 1), ENTRY.value), "int32"

    sums = ((heads * blocks * chosen.bm * tile_columns(dim) // 32, 32), "float32") if chosen.dq == "tma" else None
    return [((2, heads, blocks * chosen.bm), "float32"), sums, tiles(k.shape[0], max_seqlen_k, chosen.bn),
            None if sums else tiles(total_q, max_seqlen_q, OF_QUERIES)]


def launches(q, k, v, o, lse, do, dq, dk, dv, cu_seqlens_q, cu_seqlens_k, work, max_seqlen_q: int, max_seqlen_k: int,
             causal: bool = False, scale: float | None = None, chosen: Configuration | None = None, dlse=None,
             one_order: bool = False, *, window: tuple[int | None, int | None] = (None, None), softcap: float | None = None,
             slopes=None) -> list[tuple]:
    """The launches that compute dq, dk and dv, in order; each a (kernel, grid, args, meta).

    args:      q, dq          (total_q, heads, dim) of bf16 or fp16, contiguous along dim, which is a multiple of 8 and at most 256;
                              the other strides are multiples of 16 bytes
               k, dk          (total_k, kv_heads, dim), v and dv the same of value_dim; kv_heads divides heads. Totals below 2^30
               o, do          (total_q, heads, value_dim)
               lse            (heads, total_q) fp32, contiguous: the natural logarithms of the softmax's denominators
               cu_seqlens_q, cu_seqlens_k, max_seqlen_q, max_seqlen_k, causal    as `mimw.kernels.attention_varlen.arguments` has
                              them; rows behind max_seqlen_q and max_seqlen_k may stay without gradients
               work           arrays as `workspace` says, contiguous, of any content; None where it says None
               scale          of the scores; by default 1 / sqrt(dim)
               chosen         by default `mimw.kernels.attention_backward`'s configuration, for heads of up to 128
               dlse           the gradient of lse, like it, if there is one
               one_order      dQ by a kernel that owns its queries: the same bits in every run, for seven products instead of five
               window, softcap, slopes     as `mimw.kernels.attention_varlen.arguments` has them
    errors:    ValueError where a shape, a stride or a type is not what the kernels take, with the numbers
    """
    of = CONTRACT.check(q=q, k=k, v=v, o=o, do=do, dq=dq, dk=dk, dv=dv, lse=lse, dlse=dlse, cu_seqlens_q=cu_seqlens_q,
                        cu_seqlens_k=cu_seqlens_k, slopes=slopes, softcap=softcap, max_seqlen_q=max_seqlen_q,
                        max_seqlen_k=max_seqlen_k)
    total_q, total_k, heads, kv_heads, sequences = of.total_q, of.total_k, of.heads, of.kv_heads, of.batch
    dim, of_values = of.dim, of.value_dim
    causal, measures, changes = terms_of(dim, (heads, None, None), causal, scale, window, softcap, slopes)
    wanted = workspace(q, k, v, cu_seqlens_q, max_seqlen_q, max_seqlen_k, causal, chosen, one_order)
    _check_work(work, wanted, f"q {by(q)}, k {by(k)} and {sequences} sequences")
    chosen, (rows, sums, tiles, query_tiles) = _chosen(dim, of_values, causal, chosen, one_order), work
    terms, seen = (measures.scale, measures.log2_scale, heads), (0, measures.left, measures.right, *changes[:3])
    group, blocks, columns, value_columns = heads // kv_heads, rows.shape[2] // chosen.bm, *map(tile_columns, (dim, of_values))
    form = RowsForm(dim, columns, chosen.bm, 0 if sums is None else chosen.share_columns(columns), of_values, value_columns,
                    128 if sequences <= 128 else 1024, chosen.bn, OF_QUERIES)
    strides_of, of_rows = StepsOfAll(*(RowSteps(*steps(x)[:2]) for x in (o, do, dq, dk, dv))), dict(FORM=form, num_warps=8)
    counts = Counts(sequences, total_q, total_k, tiles.shape[0], 0 if query_tiles is None else query_tiles.shape[0])
    first = (before, (blocks, heads),
             (Given(o, do, lse, dlse), rows, sums, Gradients(dq if query_tiles is not None else None, dk, dv),
              Lists(tiles, query_tiles), Starts(cu_seqlens_q, cu_seqlens_k), strides_of, Heads(heads, kv_heads), counts), of_rows)
    describe, numbers = mimw.TensorDescriptor.from_tensor, [1, chosen.bm]
    read = (ending(q, chosen.bm, columns), ending(k, chosen.bn, columns), ending(v, chosen.bn, value_columns),
            ending(do, chosen.bm, value_columns), describe(rows[0], numbers), describe(rows[1], numbers))
    written = ending(dk, 64, columns), ending(dv, 64, value_columns)
    of_keys = Form(chosen.bm, chosen.bn, group, causal, columns, True, chosen.dq, None)
    meta = dict(FORM=KeysForm(of_keys, value_columns, chosen.q_stages, chosen.do_stages), num_warps=4)
    grid = tiles.shape[0], kv_heads
    if chosen is WIDE:
        main = packed_wide_key_gradients, grid, (*read, *written, tiles, *terms, *seen), meta
    else:
        share = None if sums is None else describe(sums, [64 * chosen.share_columns(columns) // 32, 32])
        main = kernel, grid, (*read, share, *written, tiles, *terms, blocks, *seen), meta
    if query_tiles is None:
        args = sums, dq, Starts(cu_seqlens_q), measures.scale, strides_of.dq, Counts(sequences, total_q)
        return [first, main, (after, (blocks, heads), args, of_rows)]
    bn, slots = 128 if columns <= 128 else 64, (2, 1) if value_columns == WIDEST else (3, 2)
    args = (ending(q, OF_QUERIES, columns), ending(k, bn, columns), ending(v, bn, value_columns),
            ending(do, OF_QUERIES, value_columns), ending(dq, 64, columns), rows, query_tiles, *terms, rows.shape[2], *seen)
    of_queries = QueriesForm(Form(OF_QUERIES, bn, group, causal, columns, True, None, None), value_columns, *slots)
    meta = dict(ROWS=chosen.bm, FORM=of_queries, num_warps=4)
    return [first, main, (packed_query_gradients, (query_tiles.shape[0], heads), args, meta)]


def _check_work(work, wanted: list, what: str) -> None:
    for name, x, one in zip(("rows", "sums", "tiles", "tiles of queries"), work, wanted, strict=True):
        if (x is None) != (one is None):
            raise ValueError(f"the array for {name} must {'not ' * (one is None)}be there for {what}")
        if one is None:
            continue
        shape, type_ = one
        if tuple(x.shape) != shape or type_of(x) != type_ or wrong("contiguous", x):
            raise ValueError(f"{name} is {by(x)} {x.dtype}; for {what} it must be {' x '.join(map(str, shape))} {type_}, "
                             "contiguous")
