"""The attention of one step of a server: rows of many sequences, whose keys lie in pages of one cache.

Input: queries of all sequences one behind the other, first of those that decode; the cache; a table of pages and the lengths of the
sequences on the device; where sequences begin, on the host. Output: the rows of the result. For example:

    rows = rows_of(starts, [0, 1, 2, 9], lengths, [40, 7, 300], table, decodes=2, queries=1)
    attend(q, keys, values, rows, out, scale=0.125)         keys (pages, page_size, kv_heads, dim), q and out (tokens, heads, dim)

Sequences that decode take one launch of `ops.attention_decode`. The keys of others are gathered from their pages, as many sequences
at a time as MOST_KEYS hold, for one launch of `ops.attention_varlen`; one with more keys than that is left in its pages and takes a
launch of `ops.attention_decode`. The host waits for nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from mimw import ops

MOST_KEYS = 1 << 16     # that are gathered at a time: 256 MiB of keys and values with 8 heads of 128 in bf16
E4M3 = torch.float8_e4m3fn


@dataclass(frozen=True, eq=False)
class Extends:
    """Sequences with rows of a prompt: their rows, the table of their pages, and where they begin among queries and keys."""

    first: int
    last: int
    lengths: Tensor
    table: Tensor
    starts_q: Tensor
    starts_k: Tensor
    most_q: int
    most_k: int
    keys: int                                       # at least as many as all of them have
    gathered: bool                                  # their keys are few enough to be gathered
    _places: dict[int, tuple[Tensor, Tensor]] = field(default_factory=dict)

    def places(self, page: int) -> tuple[Tensor, Tensor]:
        """(page, slot) of each key, by pages of so many; those behind the last key are the last one's. Once for all layers."""
        if page not in self._places:
            ends = self.starts_k.long()
            at = torch.minimum(torch.arange(self.keys, device=ends.device), ends[-1:] - 1).clamp(min=0)
            sequence = (torch.searchsorted(ends, at, right=True) - 1).clamp(max=len(self.lengths) - 1)
            position = at - ends[sequence]
            self._places[page] = self.table[sequence, position // page].long(), position % page
        return self._places[page]


@dataclass(frozen=True, eq=False)
class Rows:
    """The rows of a step: `decodes` sequences of `queries` each, then those of prompts."""

    decodes: int
    queries: int
    lengths: Tensor
    table: Tensor
    extends: tuple[Extends, ...]


def rows_of(starts: Tensor, starts_on_host: Sequence[int], lengths: Tensor, most: Sequence[int], table: Tensor, decodes: int,
            queries: int, most_keys: int = MOST_KEYS) -> Rows:
    """The rows of a step, for all its layers.

    args:      starts          (sequences + 1) int32 on the device: where the queries of each sequence begin
               starts_on_host  the same numbers
               lengths         (sequences) int32 on the device: the keys of each, those of its queries among them
               most            for each sequence a number that its length is not above, on the host
               table           (sequences, most pages of one) int32: page j of a sequence has its keys from j * page_size on
               decodes, queries   the first so many sequences have so many queries each
    """
    extends, begin = [], decodes
    while begin < len(most):
        end, keys = begin + 1, most[begin]
        while end < len(most) and keys + most[end] <= most_keys:
            end, keys = end + 1, keys + most[end]
        counts = [b - a for a, b in zip(starts_on_host[begin:end], starts_on_host[begin + 1:end + 1])]
        if any(counts):
            mine = lengths[begin:end]
            extends.append(Extends(
                starts_on_host[begin], starts_on_host[end], mine, table[begin:end], starts[begin:end + 1] - starts[begin],
                torch.nn.functional.pad(mine.cumsum(0, dtype=torch.int32), (1, 0)), max(counts), max(most[begin:end]), keys,
                keys <= most_keys))
        begin = end
    return Rows(decodes, queries, lengths[:decodes], table[:decodes], tuple(extends))


def attend(q: Tensor, keys: Tensor, values: Tensor, rows: Rows, out: Tensor, *, scale: float, left: int | None = None,
           softcap: float | None = None, sinks: Tensor | None = None, k_scale: Tensor | None = None,
           v_scale: Tensor | None = None) -> None:
    """Causal attention of all rows, written into `out`; rows behind those of `rows` are not touched.

    args:      q, out          (tokens, heads, dim): bf16, fp16 or fp32
               keys, values    (pages, page_size, kv_heads, dim) of q's type, or of e4m3 with k_scale and v_scale, tensors of one
                               number or of kv_heads; the step's own keys are in them
               left            how many keys before its own position a query sees; None for all
               softcap, sinks  as `mimw.ops.attention_decode` has them
    """
    options = dict(scale=scale, window=(left, None), softcap=softcap, sinks=sinks)
    scales = dict(k_scale=k_scale, v_scale=v_scale) if keys.dtype is E4M3 else {}
    if tokens := rows.decodes * rows.queries:
        o = ops.attention_decode(q[:tokens].unflatten(0, (rows.decodes, rows.queries)), keys, values, rows.lengths,
                                 page_table=rows.table, **scales, **options)
        out[:tokens].copy_(o.flatten(0, 1))
    for one in rows.extends:
        mine = slice(one.first, one.last)
        if one.gathered:
            places = one.places(keys.shape[1])
            k, v = _gathered(keys, places, q.dtype, k_scale), _gathered(values, places, q.dtype, v_scale)
            o = ops.attention_varlen(q[mine], k, v, one.starts_q, one.starts_k, one.most_q, one.most_k, causal=True, **options)
        else:
            o = ops.attention_decode(q[None, mine], keys, values, one.lengths, page_table=one.table, **scales, **options)[0]
        out[mine].copy_(o)


def _gathered(cache: Tensor, places: tuple[Tensor, Tensor], type_: torch.dtype, scale: Tensor | None) -> Tensor:
    """The rows (keys, kv_heads, dim) at these places, times the scale where they are e4m3."""
    if cache.dtype is not E4M3:
        return cache[places]
    return cache.view(torch.uint8)[places].view(E4M3).to(type_).mul_(1.0 if scale is None else scale.view(-1, 1))


__all__ = ["Extends", "MOST_KEYS", "Rows", "attend", "rows_of"]
