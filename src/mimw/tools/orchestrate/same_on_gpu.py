"""Whether kernels give the plain kernel's results on this GPU, for chips on which no orchestrated kernel has ever run.

Input: functions that launch, the plain kernel's first, and the tensors of the launch with what they held before. Output: what is
wrong, by number. For example:

    strangers([plain, ours], [(c, before)])     {1: "its results on this GPU are not the plain kernel's: 0.7 beside 0.5"}

A proof on the simulator says nothing of what only a chip does (a fence that is missing in what was emitted, an order of TMA and
tensor core that is taken for granted). Both kernels round their sums in orders of their own, so they agree within `TOLERANCE` of
the largest number.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

TOLERANCE = 2.0**-6


def strangers(runs: Sequence[Callable[[], Any]], kept: Sequence[tuple[Any, Any]]) -> dict[int, str]:
    """The numbers of runs whose results are others than those of the first run, with the reason. `kept` are (tensor, what it held
    before); the tensors are left with what some run has written."""
    found: dict[int, str] = {}
    wanted: list[Any] = []
    for at, run in enumerate(runs):
        for tensor, before in kept:
            tensor.copy_(before)
        try:
            run()
        except Exception as error:      # too much memory or too many registers: no results at all
            found[at] = f"{type(error).__name__}: {(str(error).strip().splitlines() or [''])[0]}"
            continue
        if at == 0:
            wanted = [tensor.clone() for tensor, _ in kept]
        elif wanted and (why := next(filter(None, map(_differs, wanted, (tensor for tensor, _ in kept))), "")):
            found[at] = f"its results on this GPU are not the plain kernel's: {why}"
    return found


def _differs(plain: Any, ours: Any) -> str:
    """A sentence on two tensors that are not alike; "" if they are."""
    if not plain.numel():
        return ""
    if not plain.is_floating_point():
        return "" if bool((plain == ours).all()) else "integers differ"
    one, other = plain.float(), ours.float()
    if bool((one.isfinite() != other.isfinite()).any()):
        return "NaN or infinity where the other has a number"
    one, other = one.nan_to_num(0, 0, 0), other.nan_to_num(0, 0, 0)
    apart, largest = float((one - other).abs().max()), float(one.abs().max())
    return "" if apart <= TOLERANCE * largest else f"they are {apart:.3g} apart where the largest number is {largest:.3g}"
