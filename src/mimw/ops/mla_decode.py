"""`mimw.ops.mla_decode`: multi-head latent attention in decoding: a few new queries of many heads on one latent cache.

Input: queries, a paged cache whose rows are key and value, lengths on the device, perhaps a page table. Output: the values'
weighted sums, and the logarithms of the sums of exponentials:

    out, lse = mla_decode(q, cache, cache_seqlens, page_table=page_table)           value_dim is 512 by default
    out, lse = mla_decode(q, e4m3, cache_seqlens, page_table=page_table, k_scale=0.02)
    torch.ops.mimw.mla_decode(q, cache, cache_seqlens, page_table)                  the operator itself
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from mimw.kernels import mla_decode as hopper
from mimw.kernels import plain_mla_decode as plain
from mimw.kernels.mla_decode.caches import OWN, PACKED, RULES, kind_of, views

from .contract import Contract, Extents
from .launching import Launch, has_e4m3, is_exact, is_hopper, programs
from .notes import another_chip, in_fp32, takes
from .operator import LOWER, Operator
from .planned import Planned
from .tma import every_step_for_tma

E4M3 = torch.float8_e4m3fn
CONTRACT = Contract(
    "mla_decode", "q: float (batch, queries, heads, width)", "cache: =q|e4m3 (pages, page_size, kv_heads, cache_width)",
    "cache_seqlens: int (batch)", "page_table?: int (batch, most_pages)", "k_scale?: float (1)", *RULES,
    "splits >= 1 -- the number of splits must be 1 or more, or None", "-> out: =q (batch, queries, heads, value_dim)",
    "-> lse: fp32 (batch, heads, queries)")


def mla_decode(q: Tensor, cache: Tensor, cache_seqlens: Tensor | int, *, page_table: Tensor | None = None, value_dim: int = 512,
               scale: float | None = None, causal: bool = True, splits: int | None = None,
               k_scale: Tensor | float | None = None) -> tuple[Tensor, Tensor]:
    """(out, lse): out = softmax(scale q k^T) v of the last queries of each sequence, where k are the rows of its cache, and v the
    first value_dim columns of these; scores and sums in fp32. Write the new rows into the cache first.

    args:      q           (batch, queries, heads, width): bf16, fp16 or fp32, any strides
               cache       (pages, page_size, 1, width), or without a page table (batch, length, 1, width); of q's type, or of e4m3
                           with k_scale; or packed as FlashMLA has it, in e4m3 without k_scale: each row value_dim numbers, a
                           float32 for each 128 of them, and the other columns in bf16, 656 bytes for 576 columns; q is bf16 then.
                           Any strides; one whose rows are not contiguous is copied at each call
               cache_seqlens   (batch) int32 or int64 on the device, or one number for all: how many keys of each sequence count,
                           those of the new queries among them. The host never waits for it. A length above what the cache holds
                           counts as that, one below 0 as 0
               page_table  (batch, most pages) int32 or int64: page j of a sequence has its keys from j * page_size on. Entries
                           behind a sequence's keys may be anything; no NaN that lies behind the last key matters
               value_dim   1 to width - 1
               scale       of the scores, by default width ** -0.5
               causal      query i sees keys up to i + length - queries; else all of its sequence
               splits      into so many parts at most the keys of a sequence are cut; by default all multiprocessors get equal
                           shares of all keys. With 1 a sequence's result is the same to the bit whatever else is in the batch
               k_scale     what keys and values of e4m3 are multiplied by: a tensor of one number, or a number
    returns:   out (batch, queries, heads, value_dim) of q's type, contiguous; lse, fp32 (batch, heads, queries), natural. A query
               that sees no key gets out = 0 and lse = -inf. Results are the same to the bit from run to run for the same lengths
    computed:  on sm_90 by `mimw.kernels.mla_decode` for bf16 and fp16, 512, 256 or 128 values and 64 other columns, pages of 16,
               32 or a multiple of 64 keys that TMA can read, of caches of e4m3 any; each key is read once for all heads and queries
               of its sequence. Else by `mimw.kernels.plain_mla_decode`. fp32 obeys torch.get_float32_matmul_precision()
    errors:    RuntimeError where shapes, types or devices do not fit each other; NotImplementedError for other types. There is
               no derivative
    """
    if not isinstance(cache_seqlens, Tensor):
        cache_seqlens = torch.full((q.shape[0], ), cache_seqlens, dtype=torch.int32, device=q.device)
    if k_scale is not None:
        k_scale = k_scale.view(-1) if isinstance(k_scale, Tensor) else torch.full((1, ), k_scale, device=q.device)
    return MLA_DECODE(q, cache, cache_seqlens, page_table, k_scale, value_dim, scale, causal, splits)


def _plan(of: Extents, q: Tensor, cache: Tensor, lengths: Tensor, table: Tensor | None, k_scale: Tensor | None, value_dim: int,
          scale: float | None, causal: bool, splits: int | None, exact: bool) -> Callable[..., tuple[Tensor, Tensor]]:
    out, lse = of.empty(q)
    page = cache.shape[1]
    capacity = page * (1 if table is None else table.shape[1])
    if out.numel() == 0 or capacity == 0 or cache.numel() == 0:
        return lambda q, *_: (of.out.empty(q).zero_(), of.lse.empty(q).fill_(float("-inf")))
    if cache.dtype is E4M3 and not has_e4m3(q):
        raise NotImplementedError("mla_decode: caches of e4m3 need an sm_89 or later")
    rows, width, kind = q.shape[1] * q.shape[2], q.shape[3], kind_of(cache, k_scale)
    given = q, cache, lengths, table, k_scale
    q, cache, lengths, table, k_scale = ready = _ready(*given)
    as_is = all(one is other for one, other in zip(given, ready))
    by_tma = takes(
        "mla_decode", another_chip(q), in_fp32(q), scale is not None and not scale > 0 and "the scale is not more than 0",
        (value_dim not in hopper.VALUES or width != value_dim + hopper.OTHERS) and "values are not 512, 256 or 128 columns and the "
        "others 64", kind == OWN and table is not None and page % 64 and page not in (16, 32) and f"a page has {page} rows",
        (-(-rows // hopper.ROWS) > programs(q) or of.batch * -(-capacity // hopper.BLOCK) >= hopper.MOST_UNITS)
        and "there are more heads or keys than it counts",
        kind == OWN and not every_step_for_tma(cache) and "TMA cannot read the cache as it lies")
    if by_tma:
        size = hopper.room_for(q, value_dim, programs(q))
        room = q.new_empty(size, dtype=torch.float32)
        made = hopper.arguments(q, cache, lengths, out, lse, room, programs(q), table, scale, causal, splits, k_scale)
    else:
        splits = splits or plain.splits_for(q, capacity, programs(q), is_hopper(q))
        size = plain.room_for(q, value_dim, splits)
        room = q.new_empty(size, dtype=torch.float32) if size else None
        made = plain.arguments(q, cache, lengths, out, lse, room, table, scale, causal, splits, exact, is_hopper(q), k_scale)
    launches = [Launch(q, *one) for one in made]
    batch, groups = q.shape[0], programs(q)

    def plan(q: Tensor, cache: Tensor, lengths: Tensor, table: Tensor | None, k_scale: Tensor | None) -> tuple[Tensor, Tensor]:
        if not as_is:
            q, cache, lengths, table, k_scale = _ready(q, cache, lengths, table, k_scale)
        out, lse = of.empty(q)
        room = [q.new_empty_strided((size, ), (1, ), dtype=torch.float32)] if size else []
        pages = [] if table is None else [table]
        arrays = [cache if kind == OWN else hopper.words_of(cache, lengths)] if by_tma else [
            part.array for part in views(cache, q, lse, value_dim, kind == PACKED) if part is not None]
        sums = [hopper.sums_of(room[0], batch, rows, value_dim, groups)] if by_tma else []
        launches[0](q, *arrays, *pages, lengths, out, lse, *room, *sums, *([] if k_scale is None else [k_scale]))
        if len(launches) > 1:
            launches[1](out, lse, *room)
        return out, lse

    return plan


def _ready(q: Tensor, cache: Tensor, lengths: Tensor, table: Tensor | None, k_scale: Tensor | None) -> tuple:
    """Contiguous, of the cache rows alone, aligned, int32 where they are integers, the scale fp32."""
    q, cache = q.contiguous(), cache if cache.stride(3) == 1 else cache.contiguous()
    if table is not None and (table.dtype is not torch.int32 or table.stride(1) != 1):
        table = table.to(torch.int32).contiguous()
    return (q if q.data_ptr() % 16 == 0 else q.clone(), cache, lengths.to(torch.int32).contiguous(), table,
            None if k_scale is None else k_scale.float().contiguous())


MLA_DECODE = Operator(
    "mla_decode(Tensor q, Tensor cache, Tensor cache_seqlens, Tensor? page_table, Tensor? k_scale=None, int value_dim=512, "
    "float? scale=None, bool causal=True, int? splits=None) -> (Tensor, Tensor)", Planned(_plan, is_exact), CONTRACT,
    autocast=LOWER, kept=("k_scale", ))
