"""Where the chunks of linear attention lie: rows of a batch, or of packed sequences, as a table of chunks.

Input: how many sequences there are and how long, or where packed ones begin. Output: a `Layout`. For example:

    at = layout(2, 100, None, q.device)         2 sequences of 100 rows: steps [2, 2], rows (4, 64)
    chunks = at.gather(k)                       (4, 64, heads, dim): 0 in rows behind a sequence's end
    at.scatter(chunks, into=dk)                 rows back to where they came from

Step s of a layout is chunk s of every sequence that has as many; sequences stand in the order of their lengths, the longest one
first, so a step's chunks lie side by side and belong to the first sequences.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

CHUNK = 64              # rows; fewer where no sequence has as many
BLOCK = 16              # a chunk has a multiple of these


@dataclass(frozen=True)
class Layout:
    """Chunks of sequences.

    args:      rows    (chunks, C) int64: the row among batch x length, -1 for none
               steps   the number of chunks of each step
               order   (sequences) int64: which sequence of the caller's stands here
    """

    rows: Tensor
    steps: tuple[int, ...]
    order: Tensor

    def part(self, begin: int, end: int) -> Layout:
        """Some of the chunks, for `gather` and `scatter`."""
        return Layout(self.rows[begin:end], (), self.order)

    def gather(self, x: Tensor) -> Tensor:
        """x (batch, length, ...) as (chunks, C, ...) in fp32."""
        found = x.flatten(0, 1)[self.rows.clamp(min=0)].float()
        return found.masked_fill_((self.rows < 0).view(*self.rows.shape, *[1] * (x.dim() - 2)), 0)

    def scatter(self, chunks: Tensor, into: Tensor) -> None:
        """(chunks, C, ...) to their rows of `into` (batch, length, ...), which is contiguous."""
        there = self.rows >= 0
        into.view(-1, *into.shape[2:])[self.rows[there]] = chunks[there].to(into.dtype)


def layout(batch: int, length: int, cu_seqlens: Sequence[int] | None, device: torch.device) -> Layout:
    """The chunks of `batch` sequences of `length` rows, or of packed ones, which begin and end at these numbers."""
    ends = [number * length for number in range(batch + 1)] if cu_seqlens is None else cu_seqlens
    begins = torch.tensor(ends[:-1], dtype=torch.int64)
    lengths = torch.tensor(ends[1:], dtype=torch.int64) - begins
    longest = int(lengths.max()) if len(lengths) else 0
    size = min(CHUNK, -(-max(longest, 1) // BLOCK) * BLOCK)
    order = torch.argsort(lengths, descending=True, stable=True)
    begins, lengths = begins[order], lengths[order]
    counts = (lengths + size - 1) // size
    steps = tuple(int((counts > step).sum()) for step in range(-(-longest // size)))
    within, pieces = torch.arange(size), []
    for step, count in enumerate(steps):
        at = step * size + within
        pieces.append(torch.where(at < lengths[:count, None], begins[:count, None] + at, -1))
    rows = torch.cat(pieces) if pieces else torch.empty(0, size, dtype=torch.int64)
    return Layout(rows.to(device), steps, order.to(device))


__all__ = ["BLOCK", "CHUNK", "Layout", "layout"]
