"""A step of a server on a cache of pages, and its attention by plain torch in fp64.

Input: lengths of sequences and how many queries each has. Output: tensors as servers hold them, and the rows wanted. For example:

    given = cached([40, 7, 30], [1, 1, 5], 4, 2, 16, 16, torch.float32)
    wanted = attention(given, given.cache, scale=0.3)                   (7, 4, 16): the rows of all queries
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Step:
    """q (tokens + 3, heads, dim), the last three of no sequence; k, v of the tokens; cache (pages, kv_heads, page, 2 dim), into
    which they are to be written at `slots`; page j of a sequence is table[sequence, j], and what is behind the last one is no
    page."""

    q: Tensor
    k: Tensor
    v: Tensor
    cache: Tensor
    table: Tensor
    slots: Tensor
    lengths: list[int]
    starts: list[int]


def cached(lengths: list[int], queries: list[int], heads: int, kv_heads: int, dim: int, page: int, type_: torch.dtype) -> Step:
    """A step with random numbers; pages lie in no order, and no sequence has page 0."""
    counts = [-(-one // page) for one in lengths]
    places = (1 + torch.randperm(sum(counts))).int().split(counts)
    table = torch.full((len(lengths), max(counts) + 1), -1, dtype=torch.int32)
    slots = []
    for row, mine, length, new in zip(table, places, lengths, queries):
        row[:len(mine)] = mine
        at = torch.arange(length - new, length)
        slots.append(mine.long()[at // page] * page + at % page)
    starts = [0]
    for one in queries:
        starts.append(starts[-1] + one)
    tokens = starts[-1]
    q, k, v = (torch.randn(tokens + extra, count, dim).to(type_) for extra, count in ((3, heads), (0, kv_heads), (0, kv_heads)))
    cache = torch.randn(sum(counts) + 1, page, kv_heads, 2 * dim).to(type_).transpose(1, 2)
    return Step(q, k, v, cache, table, torch.cat(slots), lengths, starts)


def attention(given: Step, cache: Tensor, *, scale: float, left: int | None = None, softcap: float | None = None,
              sinks: Tensor | None = None) -> Tensor:
    """The rows (tokens, heads, dim) of a step, from a cache in which its own keys are."""
    out = []
    for row, length, begin, end in zip(given.table, given.lengths, given.starts, given.starts[1:]):
        q, dim = given.q[begin:end].double(), given.q.shape[2]
        flat = cache.transpose(1, 2)[row[:-(-length // cache.shape[2])].long()].flatten(0, 1)[:length].double()
        k, v = (one.repeat_interleave(q.shape[1] // flat.shape[1], 1) for one in flat.split(dim, -1))
        scores = torch.einsum("qhd,khd->hqk", q, k) * scale
        scores = scores if softcap is None else softcap * torch.tanh(scores / softcap)
        back = (torch.arange(end - begin)[:, None] + length - (end - begin)) - torch.arange(length)
        scores = scores.masked_fill((back < 0) | (back > (length if left is None else left)), -math.inf)
        if sinks is not None:
            scores = torch.cat([scores, sinks.double()[:, None, None].expand(-1, end - begin, 1)], -1)
        out.append(torch.einsum("hqk,khd->qhd", scores.softmax(-1)[..., :length], v))
    return torch.cat(out).to(given.q.dtype)
