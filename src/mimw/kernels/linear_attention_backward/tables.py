"""The tables of the backward recurrence: spans from the last one of a sequence to its first one.

Input: the forward's tables. Output: `Tables`, of numpy. For example:

    back = tables(linear_attention.tables(1, 65536, parts=8))
    back.map(lambda x: torch.from_numpy(x).to(device))
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..linear_attention import tables as forward


class Tables(NamedTuple):
    """Arrays of int32. `chunks` as the forward's; `spans` as its spans, but with the number of the state whose gradient comes from
    behind, and of that which goes before; where sequences are cut also `sums`, such spans of all parts but the first ones, and
    `lists`."""

    chunks: Any
    spans: Any
    sums: Any = None
    lists: Any = None

    @property
    def cut(self) -> bool:
        """True where some sequence is more than one span."""
        return self.lists is not None

    def map(self, function) -> Tables:
        """The same tables elsewhere."""
        return Tables(*(None if one is None else function(one) for one in self))


def tables(made: forward.Tables) -> Tables:
    """Those of a call whose forward has the tables `made`, as numpy."""
    if not made.cut:
        return Tables(made.chunks, made.spans)
    spans, sums = made.spans.copy(), []
    for number, (first, count) in enumerate(made.lists):
        for part in range(first, first + count):
            spans[part, 4:] = part, number if part == first else -1
            if part > first:
                sums.append((*made.spans[part, :4], number if part == first + count - 1 else -1, part))
    return Tables(made.chunks, spans, np.array(sums, np.int32), made.lists)


__all__ = ["Tables", "tables"]
