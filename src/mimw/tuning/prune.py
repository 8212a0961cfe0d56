"""Pruning of candidates by their predicted times: those that are worth compiling.

Input: predicted microseconds by candidate. Output: the candidates that are kept, and for each other one the reason. For
example:

    kept, dropped = by_prediction({"a": 100.0, "b": 150.0, "c": 101.0}, share=0.5, least=2)
    kept                            ["a", "c"]
    dropped["b"]                    "predicted 150.0 us, 1.500 x the best (100.0 us); kept: the best 2 of 3, up to 101.0 us"
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from math import ceil


def by_prediction(times: Mapping[Hashable, float], share: float, least: int) -> tuple[list, dict[Hashable, str]]:
    """(those kept, the best first, {one that is not: why}): the best `share` of all, `least` at least, and those whose
    prediction is just as good as the last of these."""
    order = sorted(times, key=times.get)
    if not order:
        return [], {}
    count = min(len(order), max(least, ceil(share * len(order))))
    best, last = times[order[0]], times[order[count - 1]]
    kept = [one for one in order if times[one] <= last]
    why = {one: f"predicted {times[one]:.1f} us, {times[one] / best:.3f} x the best ({best:.1f} us); kept: the best {len(kept)} of "
                f"{len(order)}, up to {last:.1f} us" for one in order if times[one] > last}
    return kept, why
