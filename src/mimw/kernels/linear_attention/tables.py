"""Which rows belong to which chunk, and to which span of the recurrence, as tables of int32.

Input: the batch, or where its packed sequences begin and end; into how many parts each sequence is cut. Output: `Tables`, of
numpy:

    tables(2, 1000)                             2 sequences of 16 chunks
    tables(1, 1000, [0, 70, 1000])              packed ones of 70 and 930 rows: 2 and 15 chunks
    tables(1, 65536, parts=8).spans             8 rows, one a part: each a span of 128 chunks

A sequence begins a chunk, so its last chunk may have fewer rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ..contract import Contract
from .nouns import CHUNK_FIELDS, SPAN_FIELDS, C

ROWS = C.value
RULES = Contract()
LEAST = 16      # chunks of a part


class Tables(NamedTuple):
    """Arrays of int32. Rows are counted through all batches. `chunks` [NT, 2]: first row, end of the sequence. `spans` [NS, 6]:
    first row, end, first chunk, chunks, and the numbers of the states before and behind it. Where sequences are cut there are
    besides, else None: `sums` and `transitions`, spans of parts for whose own states those kernels run, and `lists` [N, 2]: first
    span, and spans."""

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

    errors:    ValueError where cu_seqlens does not rise from 0 to `rows` at most, in a batch of 1
    """
    if cu_seqlens is None:
        sequences = [(one * rows, one * rows + rows) for one in range(batch)]
    else:
        ends = [int(one) for one in cu_seqlens]
        rise = batch == 1 and len(ends) > 1 and ends[0] == 0 and ends[-1] <= rows and sorted(ends) == ends
        RULES.demand(rise, lambda: f"cu_seqlens is {ends} for a batch of {batch} with {rows} rows; it must rise from 0 to {rows} "
                                   "at most, and the batch be 1")
        sequences = list(zip(ends, ends[1:]))
    chunks, spans, sums, transitions, lists = [], [], [], [], []
    for number, (begin, end) in enumerate(sequences):
        count = -(-(end - begin) // ROWS)
        each = max(1, -(-count // parts))
        cuts = list(range(0, count, each)) or [0]
        lists.append((len(spans), len(cuts)))
        for first in cuts:
            of = min(each, count - first)
            last, own = first + of == count, len(spans)
            span = begin + first * ROWS, end if last else begin + (first + of) * ROWS, len(chunks) + first, of
            spans.append((*span, own if parts > 1 else number, number if last else -1))
            if not last:
                sums.append((*span, number if first == 0 else -1, own))
                if first:
                    transitions.append((*span, -1, own))
        chunks += [(begin + one * ROWS, end) for one in range(count)]
    if not sums:        # no sequence is longer than a part
        spans = [(*span[:4], number, number) for number, span in enumerate(spans)]
        return Tables(_table(chunks, CHUNK_FIELDS.value), _table(spans, SPAN_FIELDS.value))
    return Tables(_table(chunks, CHUNK_FIELDS.value), _table(spans, SPAN_FIELDS.value), _table(sums, SPAN_FIELDS.value),
                  _table(transitions, SPAN_FIELDS.value), _table(lists, 2))


def _table(rows: list[tuple[int, ...]], width: int) -> np.ndarray:
    return np.array(rows, np.int32).reshape(-1, width)


def parts_for(sequences: int, rows: int, heads: int, value_dim: int, programs: int, key_dim: int = 128) -> int:
    """Into how many parts to cut each of the sequences, of up to `rows` rows, so that their heads occupy `programs` SMs. A part
    has LEAST chunks at least: to know the state before it costs about as much as its outputs. Where that leaves half of the SMs
    idle, half as many chunks pay in up to 8 parts. A program has 128 columns of values, beside keys of over 128 columns 64."""
    side_by_side = sequences * heads * max(1, value_dim // (128 if key_dim <= 128 else 64))
    parts = rows // (LEAST * ROWS)
    smaller = min(8, rows // (LEAST // 2 * ROWS), programs // 2 // side_by_side) if parts > 1 else 1
    return max(1, min(programs // side_by_side, max(parts, smaller)))
