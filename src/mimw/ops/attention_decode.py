"""`mimw.ops.attention_decode`: a few new queries of each sequence on a cache of keys and values, paged or in one piece.

Input: queries, caches, lengths on the device, perhaps a page table. Output: o = softmax(scale q k^T) v and, if asked for, the
logarithms of the denominators:

    o = attention_decode(q, k_cache, v_cache, cache_seqlens)                            (batch, queries, heads, dim)
    o = attention_decode(q, k_pages, v_pages, cache_seqlens, page_table=page_table)
    o = attention_decode(q, k_e4m3, v_e4m3, cache_seqlens, k_scale=k_scale, v_scale=v_scale)
    torch.ops.mimw.attention_decode(q, k_cache, v_cache, cache_seqlens, None, None)     the operator itself: (o, lse)
"""

from __future__ import annotations

from collections.abc import Callable
from math import sqrt

import torch
from torch import Tensor

from mimw.kernels import attention_decode as hopper
from mimw.kernels import plain_attention_decode as plain
from mimw.kernels.attention.changes import HEADS, LEFT, SOFTCAP
from mimw.kernels.attention_decode.configs import HEAD_DIMS, PAGES

from .contract import Contract, Extents
from .launching import Launch, has_e4m3, is_exact, programs, zeros
from .notes import another_chip, in_fp32, takes
from .operator import LOWER, Operator
from .planned import Planned

E4M3 = torch.float8_e4m3fn
CONTRACT = Contract(
    "attention_decode", "q: float (batch, queries, heads, dim)", "k_cache: =q|e4m3 (pages, page_size, kv_heads, dim)",
    "v_cache: =k_cache (pages, page_size, kv_heads, value_dim)", "cache_seqlens: int (batch)",
    "page_table?: int (batch, most_pages)", "sinks?: float (heads)", "k_scale?: float (kv_heads|1)", "v_scale?: float (kv_heads|1)",
    "fp8(k_cache) == (k_scale is not None) and (k_scale is None) == (v_scale is None) -- caches of e4m3 have both scales, others "
    "none",
    "k_scale is None or len(k_scale) == len(v_scale) -- there must be as many scales of keys as of values",
    "dim > 0 and value_dim > 0 -- heads of width 0 have no scores", HEADS,
    "page_table is not None or pages == batch -- without a page table there must be as many caches as sequences",
    LEFT, "splits >= 1 -- the number of splits must be 1 or more, or None", SOFTCAP,
    "-> o: =q (batch, queries, heads, value_dim)", "-> lse: fp32 (batch, heads, queries)")


def attention_decode(q: Tensor, k_cache: Tensor, v_cache: Tensor, cache_seqlens: Tensor | int, *, page_table: Tensor | None = None,
                     scale: float | None = None, window: int | tuple[int | None, int | None] | None = None,
                     softcap: float | None = None,
                     sinks: Tensor | None = None, splits: int | None = None, k_scale: Tensor | float | None = None,
                     v_scale: Tensor | float | None = None, return_lse: bool = False) -> Tensor | tuple[Tensor, Tensor]:
    """softmax(scale q k^T) v of the last queries of each sequence, with fp32 scores and sums. Layouts are those of
    FlashAttention's `flash_attn_with_kvcache` without new keys and with causal=True: write the new keys and values into the
    caches first.

    args:      q           (batch, queries, heads, dim): bf16, fp16 or fp32, any strides
               k_cache, v_cache   (batch, length, kv_heads, dim) and (..., value_dim), or with a page table (pages, page_size,
                           kv_heads, dim); of q's type or e4m3, any strides; kv_heads divides heads, and head h reads kv head h *
                           kv_heads // heads
               cache_seqlens   (batch) int32 or int64 on the device, or one number for all: how many keys of each sequence
                           count, those of the new queries among them. Query i sees keys up to i + length - queries. The host
                           never waits for it, so a captured graph may be replayed with others. A length above what the cache
                           holds counts as that, one below 0 as 0
               page_table  (batch, most pages of a sequence) int32 or int64: page j of a sequence has its keys from j *
                           page_size on. Sequences may share pages. Entries behind a sequence's keys are not looked at: they
                           may be anything; no NaN that lies in a page behind the last key matters
               scale       of the scores, by default 1 / sqrt(dim)
               window      (left, right): a query sees so many keys before and after its own position; None is no bound, and
                           what is after a query's own position it never sees. Entries of the page table in front of the window
                           may be anything
               softcap     more than 0: softcap tanh(score / softcap) in place of each score; as in `attention`
               sinks       (heads) of bf16, fp16 or fp32: a logit of each head that joins the sum of each row, with no value
               splits      into so many parts at most the keys of a sequence are cut; by default all multiprocessors get equal
                           shares of all keys. With 1 a sequence's result is the same to the bit whatever else is in the batch
               k_scale, v_scale   of caches of e4m3: what keys and values are multiplied by, more than 0: a tensor of kv_heads
                           numbers, or one for all heads, as a tensor or a number; 1 by default. Products are of fp16 then, of
                           fp32 where q is fp32: queries of bf16 beyond 65504 count as that
               return_lse  also the natural logarithms of the softmax's denominators
    returns:   o, (batch, queries, heads, value_dim) of q's type, contiguous; with lse, fp32 (batch, heads, queries). A query
               that sees no key, as in an empty sequence (length 0), gets o = 0 and lse = -inf, or the head's sink. Results are
               the same to the bit from run to run for the same lengths
    computed:  on sm_90 by `mimw.kernels.attention_decode` for bf16 and fp16, heads of up to 256, pages of 16, 32, 64, 128
               or 256 keys, where TMA can read the caches, which are read once for each 128 rows (queries times heads that share a
               head of keys); else by `mimw.kernels.plain_attention_decode`. fp32 obeys torch.get_float32_matmul_precision()
    errors:    RuntimeError where shapes, types or devices do not fit each other; NotImplementedError for other types. There is
               no derivative
    """
    if not isinstance(cache_seqlens, Tensor):
        cache_seqlens = torch.full((q.shape[0], ), cache_seqlens, dtype=torch.int32, device=q.device)
    left, right = (window, window) if isinstance(window, int) else window or (None, None)
    if right is not None and right < 0:
        CONTRACT.refuse(f"the right bound of the window is {right}; it must be 0 or more keys, or None")
    if k_cache.dtype is E4M3:
        k_scale, v_scale = (torch.full((1, ), 1.0 if x is None else x, device=q.device) if not isinstance(x, Tensor) else x.view(-1)
                            for x in (k_scale, v_scale))
    o, lse = ATTENTION_DECODE(q, k_cache, v_cache, cache_seqlens, page_table, sinks, k_scale, v_scale, scale, left, softcap, splits)
    return (o, lse) if return_lse else o


def _plan(of: Extents, q: Tensor, k: Tensor, v: Tensor, lengths: Tensor, table: Tensor | None, sinks: Tensor | None,
          k_scale: Tensor | None, v_scale: Tensor | None, scale: float | None, left: int | None, softcap: float | None,
          splits: int | None, exact: bool) -> Callable:
    o, lse = of.empty(q)
    capacity = k.shape[1] * (1 if table is None else table.shape[1])
    if o.numel() == 0 or capacity == 0 or k.shape[0] == 0:
        return lambda q, *rest: (of.o.empty(q).zero_(), _of_no_keys(of.lse.empty(q), rest[-3]))
    if k.dtype is E4M3 and not has_e4m3(q):
        raise NotImplementedError("attention_decode: caches of e4m3 need an sm_89 or later")
    small = lengths, table, sinks, k_scale, v_scale
    as_is, (lengths, table, sinks, k_scale, v_scale) = _are_ready(*small), _ready(*small)
    scale = 1 / sqrt(q.shape[3]) if scale is None else scale
    by_tma = takes("attention_decode", another_chip(q), in_fp32(q), not scale > 0 and "the scale is not more than 0",
                   q.shape[3] != v.shape[3] and "keys and values are of two widths",
                   q.shape[3] > HEAD_DIMS[-1] and f"heads are wider than {HEAD_DIMS[-1]}",
                   table is not None and k.shape[1] not in PAGES and f"a page has {k.shape[1]} rows; it takes {PAGES}",
                   not (_tma_reads(k) and _tma_reads(v)) and "TMA cannot read the caches as they lie")
    by_tma = by_tma and takes("attention_decode", k.dtype is E4M3 and hopper.configuration_of(q, k, table).few != 2
                              and "e4m3 caches are for few rows of queries")
    contiguous_q = q.stride(3) == 1 or not by_tma
    if by_tma:
        chosen = hopper.configuration_of(q, k, table)
        room = q.new_empty(hopper.room_for(q, k.shape[2], programs(q), chosen), dtype=torch.float32)
        count = hopper.flags_for(programs(q), chosen)
        flags = zeros(q, count)
        made = hopper.arguments(q if contiguous_q else q.contiguous(), k, v, lengths, o, lse, room, programs(q), table, scale, left,
                                softcap, sinks, splits, chosen, flags, k_scale, v_scale)
    else:
        splits = splits or plain.splits_for(-(-q.shape[1] * q.shape[2] // k.shape[2] // 64) * q.shape[0] * k.shape[2], capacity,
                                            programs(q))
        room = q.new_empty(plain.room_for(q, v.shape[3], splits), dtype=torch.float32) if splits > 1 else None
        made = plain.arguments(q, k, v, lengths, o, lse, room, table, scale, left, softcap, sinks, splits, exact, k_scale, v_scale)
    launches = [Launch(q, *one) for one in made]
    flagged = by_tma and _is_among(flags, made)
    size = 0 if room is None else room.shape[0]
    paged, sunk = table is not None, sinks is not None

    def plan(q: Tensor, k: Tensor, v: Tensor, lengths: Tensor, table: Tensor | None, sinks: Tensor | None, k_scale: Tensor | None,
             v_scale: Tensor | None) -> tuple[Tensor, Tensor]:
        if not as_is:
            lengths, table, sinks, k_scale, v_scale = _ready(lengths, table, sinks, k_scale, v_scale)
        o, lse = of.empty(q)
        room = (q.new_empty_strided((size, ), (1, ), dtype=torch.float32), ) if size else ()
        logits = (sinks, ) if sunk else ()
        pages = (table, ) if paged else ()
        flags = (zeros(q, count), ) if flagged else ()
        launches[0](q if contiguous_q else q.contiguous(), k, v, *pages, lengths, o, lse, *room, *flags, *logits,
                    *(() if k_scale is None else (k_scale, v_scale)))
        if len(launches) > 1:
            launches[1](o, lse, *room, *logits)
        return o, lse

    return plan


def _is_among(array: Tensor, launches: list[tuple]) -> bool:
    """True if the array is an argument of one of the launches."""
    return any(one is array for _, _, args, _ in launches for one in args)


def _of_no_keys(lse: Tensor, sinks: Tensor | None) -> Tensor:
    return lse.fill_(float("-inf")) if sinks is None else lse.copy_(sinks[:, None])


def _ready(lengths: Tensor, table: Tensor | None, *floats: Tensor | None) -> tuple:
    """int32 and contiguous, the others fp32."""
    if table is not None and (table.dtype is not torch.int32 or table.stride(1) != 1):
        table = table.to(torch.int32).contiguous()
    return lengths.to(torch.int32).contiguous(), table, *[None if x is None else x.float().contiguous() for x in floats]


def _are_ready(*given: Tensor | None) -> bool:
    return all(one is other for one, other in zip(given, _ready(*given)))


def _tma_reads(cache: Tensor) -> bool:
    """True if TMA takes the cache with its strides."""
    return (cache.stride(3) == 1 and cache.data_ptr() % 16 == 0
            and all(extent == 1 or step > 0 and step * cache.itemsize % 16 == 0
                    for step, extent in zip(cache.stride()[:3], cache.shape)))


ATTENTION_DECODE = Operator(
    "attention_decode(Tensor q, Tensor k_cache, Tensor v_cache, Tensor cache_seqlens, Tensor? page_table, Tensor? sinks, "
    "Tensor? k_scale=None, Tensor? v_scale=None, float? scale=None, int? left=None, float? softcap=None, int? splits=None) "
    "-> (Tensor, Tensor)", Planned(_plan, is_exact), CONTRACT, autocast=LOWER, kept=("sinks", "k_scale", "v_scale"))
