"""Values of a run as numpy shows them: tiles, buffers, barriers, numbers.

Input: what the environment of a task holds. Output: arrays, masked where nobody has written, and texts. For example:

    seen(view)          masked_array(data=[[0.0, 1.0, --, --]], mask=...)
    text(array)         fp32[1, 4]: min 0, max 1, mean 0.5; 2 of 4 not written
                        [[0.0 1.0 -- --]]

Types that numpy computes little with, as bf16 and fp8, are shown as float32.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...simulator.machine.guarded import PendingDot
from ...simulator.machine.poison import Poisoned
from ...simulator.memory.mbarriers import Mbarrier
from ...simulator.memory.views import WRITTEN, View
from .events import barrier_label

LINES = dict(threshold=200, edgeitems=3, linewidth=110, precision=6, suppress=True)


class BarrierState:
    """An mbarrier: `phase`, `parity` (that a wait passes for last), `arrived` of `count`, `pending_bytes`."""

    def __init__(self, barrier: Mbarrier):
        self.name, self.phase, self.arrived, self.count = barrier_label(barrier), barrier.phase, barrier.arrived, barrier.count
        self.pending_bytes = barrier.pending_bytes

    @property
    def parity(self) -> int:
        return self.phase & 1

    def __repr__(self) -> str:
        return (f"{self.name}: in phase {self.phase} (parity {self.parity}), {self.arrived} of {self.count} arrivals, "
                f"{self.pending_bytes} bytes pending")


def seen(value: Any) -> Any:
    """A value of an environment for expressions: numbers and arrays of numpy, `BarrierState`s; anything else as it is."""
    if isinstance(value, Poisoned):
        return np.ma.masked_array(plain(value.data), value.mask)
    if isinstance(value, View):
        return _elements(value)
    if isinstance(value, Mbarrier):
        return BarrierState(value)
    if isinstance(value, tuple) and value and all(isinstance(one, Mbarrier) for one in value):
        return [BarrierState(one) for one in value]
    if isinstance(value, PendingDot):
        return "a product under way, which no wait has finished"
    return plain(value)


def plain(value: Any) -> Any:
    """An array or number of a type that numpy prints and sums."""
    kind = getattr(value, "dtype", None)
    return value.astype(np.float32) if isinstance(kind, np.dtype) and kind.kind == "V" else value


def _elements(view: View) -> np.ndarray:
    """The elements of a buffer, or of all slots of an array of them; masked where nobody has written, if that is anywhere."""
    data = view.tile
    mask = view.marks != WRITTEN
    mask = mask.reshape(data.shape) if mask.size == data.size else mask[..., 0, :]
    if view.group_size > 1:
        data, mask = (one.reshape(-1, *one.shape[2:]) for one in (data, mask))
    data = plain(data)
    return np.ma.masked_array(data.copy(), mask) if mask.any() else data.copy()


def text(value: Any) -> str:
    """A value as the prompt prints it: of an array first what it is, and statistics."""
    if isinstance(value, list) and all(isinstance(one, BarrierState) for one in value):
        return "\n".join(map(repr, value))
    if isinstance(value, tuple):
        return f"({', '.join(map(text, value))})"
    if not isinstance(value, np.ndarray) or value.ndim == 0:
        return str(value) if isinstance(value, (np.generic, str)) else repr(value)
    with np.printoptions(**LINES):
        return f"{statistics(value)}\n{value}"


def statistics(array: np.ndarray) -> str:
    """A line on an array: type, shape, extremes, mean, how many are NaN, infinite or not written."""
    told = f"{array.dtype}[{', '.join(map(str, array.shape))}]"
    hidden = int(np.ma.count_masked(array)) if isinstance(array, np.ma.MaskedArray) else 0
    known = array.compressed() if isinstance(array, np.ma.MaskedArray) else array.reshape(-1)
    parts = []
    if known.size and known.dtype.kind in "iuf":
        finite = known[np.isfinite(known)] if known.dtype.kind == "f" else known
        if finite.size:
            parts.append(f"min {finite.min():.6g}, max {finite.max():.6g}, mean {finite.mean(dtype=np.float64):.6g}")
        if known.dtype.kind == "f" and (odd := known.size - finite.size):
            nans = int(np.isnan(known).sum())
            parts.append(f"{nans} NaN, {odd - nans} infinite")
    elif known.size and known.dtype.kind == "b":
        parts.append(f"{int(known.sum())} of {known.size} true")
    if hidden:
        parts.append(f"{hidden} of {array.size} not written")
    return f"{told}: {'; '.join(parts)}" if parts else told
