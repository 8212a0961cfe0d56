"""`mimw.ops.lightning_indexer` and `lightning_indexer_decode`: the scores by which DeepSeek's sparse attention chooses keys.

Input: queries of many heads, keys of one head, weights of the heads. Output: scores, or the places of the largest:

    scores = lightning_indexer(q, k, weights, k_scale, causal=True)                 (queries, keys) fp32
    places = lightning_indexer(q, k, weights, k_scale, causal=True, topk=2048)      (queries, 2048) int32
    scores = lightning_indexer_decode(q, cache, weights, lengths, page_table, scales)       the last queries of each sequence

A score is k_scale[t] sum over heads h of weights[s, h] relu(q[s, h] . k[t]).
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from mimw.kernels import lightning_indexer as hopper
from mimw.kernels import plain_lightning_indexer as plain
from mimw.kernels.topk_selector import MOST

from .chips import chip_of, is_amd
from .contract import Contract, Extents
from .launching import Launch, programs
from .notes import another_chip, takes
from .operator import Operator
from .planned import Planned
from .topk_selector import topk_selector

TYPES = "e4m3|bf16|fp16"
WITHOUT_E4M3 = ("sm_75", "sm_80", "sm_86", "sm_87")        # of chips that Triton compiles for
CONTRACT = Contract(
    "lightning_indexer", f"q: {TYPES} (S, H, D)", "k: =q (T, D)", "weights: float (S, H)", "k_scale?: fp32 (T)", "starts?: int (S)",
    "ends?: int (S)", "out_dtype?: fp32|bf16", "H > 0 and D > 0 -- there must be heads, and columns",
    "-> scores: out_dtype|fp32 (S, T)", flops="2 * S * T * H * D")
DECODE = Contract(
    "lightning_indexer_decode", f"q: {TYPES} (B, S, H, D)", "cache: =q (pages, page, D)", "weights: float (B, S, H)",
    "lengths: int (B)", "page_table: int (B, most)", "scales?: fp32 (pages, page)", "out_dtype?: fp32|bf16",
    "H > 0 and D > 0 -- there must be heads, and columns", "-> scores: out_dtype|fp32 (B, S, most * page)",
    flops="2 * B * S * most * page * H * D")


def lightning_indexer(q: Tensor, k: Tensor, weights: Tensor, k_scale: Tensor | None = None, starts: Tensor | None = None,
                      ends: Tensor | None = None, causal: bool = False, fill: bool = True, out_dtype: torch.dtype | None = None,
                      topk: int | None = None) -> Tensor:
    """scores[s, t] = k_scale[t] sum_h weights[s, h] relu(q[s, h] . k[t]); with `topk` the places of each query's largest.

    args:      q        (S, H, D): e4m3, bf16 or fp16, any strides; a scale of q goes into the weights
               k        (T, D) of q's type, any strides
               weights  (S, H): bf16, fp16 or fp32; they may be negative
               k_scale  (T) fp32, by default 1
               starts, ends   (S), int32 or int64: query s looks at keys starts[s] .. ends[s], cut to 0 and T, as of packed
                        sequences; by default from 0 on, and up to T
               causal   without `ends`: query s looks at keys up to its own, s + T - S
               fill     scores of other keys are -inf; else they are not written and may be anything
               out_dtype   fp32 by default, or bf16
               topk     0 to 16384: give the places of the topk largest, by `topk_selector`, and no scores
    returns:   (S, T) of out_dtype, contiguous; with topk int32 (S, topk): keys in any order, then -1 where a query looks at fewer
    computed:  on sm_90 by `mimw.kernels.lightning_indexer` for 8, 16, 32, 64 or 128 heads of 32, 64 or 128 columns; else by
               `mimw.kernels.plain_lightning_indexer`, where products of e4m3 are those of fp16 on AMD. Sums over heads are fp32;
               those over the columns of e4m3 have about 14 bits on sm_90's tensor cores. A NaN of q or k is one of the scores
    errors:    RuntimeError where shapes or devices do not fit, or topk is out of range; NotImplementedError for other types. There
               is no derivative
    """
    _check(topk)
    if topk is None:
        return LIGHTNING_INDEXER(q, k, weights, k_scale, starts, ends, causal, fill, out_dtype)
    scores = LIGHTNING_INDEXER(q, k, weights, k_scale, starts, ends, causal, False, out_dtype)
    queries, keys = scores.shape
    if ends is None and causal:
        ends = torch.arange(keys - queries + 1, keys + 1, device=q.device)
    elif ends is None and starts is not None:
        ends = starts.new_full((queries, ), keys)
    return topk_selector(scores, topk, torch.zeros_like(ends) if starts is None and ends is not None else starts, ends)


def lightning_indexer_decode(q: Tensor, cache: Tensor, weights: Tensor, lengths: Tensor, page_table: Tensor,
                             scales: Tensor | None = None, fill: bool = True, out_dtype: torch.dtype | None = None,
                             topk: int | None = None) -> Tensor:
    """The scores of the last queries of each sequence, keys in pages: query i of n keys looks at those up to i + n - S.

    args:      q        (B, S, H, D): e4m3, bf16 or fp16, any strides
               cache    (pages, page, D) of q's type, any strides, as a view of a cache whose pages have keys, then scales
               weights  (B, S, H): bf16, fp16 or fp32
               lengths  (B), int32 or int64, on the device: keys of each sequence, the new ones among them; below 0 counts as 0, and
                        more than the table's pages hold as that. The host never waits for it
               page_table  (B, most), int32 or int64: page j of a sequence has its keys from j * page on. Entries behind its keys
                        are not looked at
               scales   (pages, page) fp32, any strides; by default 1
               fill, out_dtype   as in `lightning_indexer`
               topk     as there: places in the sequence, of each query
    returns:   (B, S, most * page) of out_dtype, contiguous; with topk int32 (B, S, topk)
    computed:  on sm_90 by `mimw.kernels.lightning_indexer` for heads as above and pages of 16, 32, 64, 128 or 256 keys, where
               TMA can read cache and scales; else by `mimw.kernels.plain_lightning_indexer`
    errors:    as above
    """
    _check(topk)
    scores = LIGHTNING_INDEXER_DECODE(q, cache, weights, lengths, page_table, scales, fill and topk is None, out_dtype)
    if topk is None:
        return scores
    sequences, queries, keys = scores.shape
    ends = lengths.clamp(0, keys)[:, None] + torch.arange(1 - queries, 1, device=q.device)
    places = topk_selector(scores.view(-1, keys), topk, torch.zeros_like(ends).view(-1), ends.clamp(min=0).view(-1))
    return places.view(sequences, queries, topk)


def _check(topk: int | None) -> None:
    """RuntimeError before any score is computed, where the selector would refuse."""
    if topk is not None and not 0 <= topk <= MOST:
        CONTRACT.refuse(f"topk is {topk}; it may be 0 to {MOST}")


def _plan(of: Extents, q: Tensor, k: Tensor, weights: Tensor, k_scale: Tensor | None, starts: Tensor | None, ends: Tensor | None,
          causal: bool, fill: bool, out_dtype: torch.dtype | None) -> Callable[..., Tensor]:
    def on_hopper(q, k, scales, weights, scores, starts, ends):
        return hopper.kernel, *hopper.arguments(q, k, weights, scores, programs(q), scales, starts, ends, causal, fill)

    def anywhere(q, k, scales, weights, scores, starts, ends):
        return plain.kernel, *plain.arguments(q, k, weights, scores, scales, starts, ends, causal, fill, not is_amd(q))

    return _planned(of, on_hopper, anywhere, True, q, k, weights, k_scale, starts, ends)


def _plan_decode(of: Extents, q: Tensor, cache: Tensor, weights: Tensor, lengths: Tensor, table: Tensor, scales: Tensor | None,
                 fill: bool, out_dtype: torch.dtype | None) -> Callable[..., Tensor]:
    def on_hopper(q, cache, scales, weights, scores, lengths, table):
        return hopper.kernel, *hopper.paged(q, cache, weights, scores, lengths, table, programs(q), scales, fill)

    def anywhere(q, cache, scales, weights, scores, lengths, table):
        return plain.kernel, *plain.paged(q, cache, weights, scores, lengths, table, scales, fill, not is_amd(q))

    plan = _planned(of, on_hopper, anywhere, False, q, cache, weights, scales, lengths, table)
    return lambda q, cache, weights, lengths, table, scales: plan(q, cache, weights, scales, lengths, table)


def _planned(of: Extents, on_hopper: Callable, anywhere: Callable, copied: bool, *given: Tensor | None) -> Callable[..., Tensor]:
    """The plan of a call with queries, keys, weights, scales and integers. Keys that TMA cannot read are `copied` for it, or are
    for the plain kernel."""
    q, keys, _, scales, *_ = given
    if of.scores.empty(q).numel() == 0:
        return lambda q, *_: of.empty(q)
    heads, dim = q.shape[-2:]
    by_tma = takes("lightning_indexer", another_chip(q),
                   heads not in hopper.HEADS and f"{heads} heads; it takes {hopper.HEADS}",
                   dim not in hopper.DIMS and f"heads have {dim} columns; it takes {hopper.DIMS}",
                   not copied and keys.shape[1] not in hopper.PAGES and f"a page has {keys.shape[1]} keys; it takes {hopper.PAGES}",
                   not copied and not (_tma_reads(keys) and (scales is None or _tma_reads(scales)))
                   and "TMA cannot read the cache or its scales as they lie")
    for_products = chip_of(q) in WITHOUT_E4M3

    def ready(*given: Tensor | None) -> list[Tensor | None]:
        return _ready(by_tma and copied, for_products, *given)

    launch = Launch(q, *(on_hopper if by_tma else anywhere)(*_with_scores(ready(*given), of.empty(q))))

    def plan(*given: Tensor | None) -> Tensor:
        scores = of.empty(given[0])
        launch(*(one for one in _with_scores(ready(*given), scores) if one is not None))
        return scores

    return plan


def _with_scores(given: list[Tensor | None], scores: Tensor) -> list[Tensor | None]:
    """In the order in which kernels take them: the scores behind the weights."""
    q, keys, weights, scales, *integers = given
    return [q, keys, scales, weights, scores, *integers]


def _ready(for_tma: bool, for_products: bool, q: Tensor, keys: Tensor, weights: Tensor, scales: Tensor | None,
           *integers: Tensor | None) -> list[Tensor | None]:
    """Queries and weights contiguous, weights fp32, rows of keys and scales contiguous, integers int32. Keys are copied where that
    is what TMA reads; e4m3 becomes fp16, which has all of its numbers, for chips whose products have none of it."""
    q, keys = (x.half() if for_products and x.dtype is torch.float8_e4m3fn else x for x in (q, keys))
    keys = keys if keys.stride(-1) == 1 and (not for_tma or _tma_reads(keys)) else keys.contiguous()
    if scales is not None and (scales.stride(-1) != 1 or scales.data_ptr() % 16):
        scales = scales.clone(memory_format=torch.contiguous_format)
    return [_aligned(q.contiguous()), _aligned(keys) if for_tma else keys, weights.float().contiguous(), scales,
            *(None if one is None else one.to(torch.int32).contiguous() for one in integers)]


def _aligned(x: Tensor) -> Tensor:
    """At a multiple of 16 bytes, as a descriptor asks."""
    return x if x.data_ptr() % 16 == 0 else x.clone()


def _tma_reads(x: Tensor) -> bool:
    """True if TMA takes the tensor as it lies."""
    return (x.stride(-1) == 1 and x.data_ptr() % 16 == 0
            and all(extent == 1 or step > 0 and step * x.itemsize % 16 == 0 for step, extent in zip(x.stride()[:-1], x.shape)))


LIGHTNING_INDEXER = Operator(
    "lightning_indexer(Tensor q, Tensor k, Tensor weights, Tensor? k_scale=None, Tensor? starts=None, Tensor? ends=None, "
    "bool causal=False, bool fill=True, ScalarType? out_dtype=None) -> Tensor", Planned(_plan), CONTRACT)
LIGHTNING_INDEXER_DECODE = Operator(
    "lightning_indexer_decode(Tensor q, Tensor cache, Tensor weights, Tensor lengths, Tensor page_table, Tensor? scales=None, "
    "bool fill=True, ScalarType? out_dtype=None) -> Tensor", Planned(_plan_decode), DECODE)
