"""Which rows belong to which chunk, and to which span of the recurrence, as tables of int32.

Input: the batch, or where its packed sequences begin and end; into how many parts each sequence is cut. Output: `Tables`, of numpy:

    tables(2, 1000)                             2 sequences of 16 chunks
    tables(1, 1000, [0, 70, 1000])              packed ones of 70 and 930 rows: 2 and 15 chunks
    tables(1, 65536, parts=8).spans             8 rows, one a part: each a span of 128 chunks

A sequence begins a chunk, so its last chunk may have fewer rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from .nouns import CHUNK_FIELDS, SPAN_FIELDS, C

ROWS = C.value


class Tables(NamedTuple):
    """Arrays of int32. `chunks` [NT, 4]: batch, first row, end of the sequence, its number. `spans` [NS, 8]: batch, first row, end,
    first chunk, chunks, and the numbers of the states before and behind it. Where sequences are cut there are besides, else None:
    `sums` and `transitions`, spans of parts for whose own states those kernels run, and `lists` [N, 2]: first span, and spans."""

    chunks: Any
    spans: Any
    sums: Any = None
    transitions: Any = None
    lists: Any = None

    @property
    def cut(self) -> bool:
        """True where some sequence is more than one span."""
        return self.lists is not None

    def map(self, function) -> Tables:
        """The same tables elsewhere: `tables.map(lambda x: torch.from_numpy(x).to(device))`."""
        return Tables(*(None if one is None else function(one) for one in self))


def tables(batch: int, rows: int, cu_seqlens: Sequence[int] | None = None, parts: int = 1) -> Tables:
    """The tables of a batch of sequences of `rows` rows, or of those between neighbours of cu_seqlens in one of `rows` rows.

    errors:    ValueError where cu_seqlens does not rise from 0 to `rows` in a batch of 1
    """
    if cu_seqlens is None:
        sequences = [(one, 0, rows) for one in range(batch)]
    else:
        ends = [int(one) for one in cu_seqlens]
        if batch != 1 or len(ends) < 2 or ends[0] != 0 or ends[-1] != rows or sorted(ends) != ends:
            raise ValueError(f"cu_seqlens is {ends} for a batch of {batch} with {rows} rows; it must rise from 0 to {rows}, and the "
                             "batch be 1")
        sequences = [(0, *pair) for pair in zip(ends, ends[1:])]
    chunks, spans, sums, transitions, lists = [], [], [], [], []
    for number, (at, begin, end) in enumerate(sequences):
        count = -(-(end - begin) // ROWS)
        each = max(1, -(-count // parts))
        cuts = list(range(0, count, each)) or [0]
        lists.append((len(spans), len(cuts)))
        for first in cuts:
            of = min(each, count - first)
            last, own = first + of == count, len(spans)
            span = at, begin + first * ROWS, end if last else begin + (first + of) * ROWS, len(chunks) + first, of
            spans.append((*span, own if parts > 1 else number, number if last else -1, 0))
            if not last:
                sums.append((*span, number if first == 0 else -1, own, 0))
                if first:
                    transitions.append((*span, -1, own, 0))
        chunks += [(at, begin + one * ROWS, end, number) for one in range(count)]
    if not sums:        # no sequence is longer than a part
        spans = [(*span[:5], number, number, 0) for number, span in enumerate(spans)]
        return Tables(_table(chunks, CHUNK_FIELDS.value), _table(spans, SPAN_FIELDS.value))
    return Tables(_table(chunks, CHUNK_FIELDS.value), _table(spans, SPAN_FIELDS.value), _table(sums, SPAN_FIELDS.value),
                  _table(transitions, SPAN_FIELDS.value), _table(lists, 2))


def _table(rows: list[tuple[int, ...]], width: int) -> np.ndarray:
    return np.array(rows, np.int32).reshape(-1, width)
