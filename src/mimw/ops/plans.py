"""What a call does, found once for calls that look alike, and kept.

Input: a key, all that the choice depends on: shapes, strides, types, device, alignment. Output: the plan that `make` gave for
the first call of that key:

    plans = Plans(make)
    plan = plans[key] or plans.made(key, a, b)      `make(a, b)` where the key is new
    plan(a, b)

A table is bounded: a service of ever new shapes forgets the oldest plan, and makes it anew when the plan is wanted again.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Hashable
from typing import Any

from torch import Tensor

from .chips import asked
from .notes import planning

MOST = 1024     # plans of one operator; a plan is a few kilobytes


def look(tensor: Tensor) -> tuple:
    """All of a tensor that a choice may depend on, its values aside: shape, strides, type, the device or, of the CPU, the chip that
    is simulated, the address's last 4 bits."""
    device = tensor.get_device()
    where = device if device >= 0 else asked() or os.environ.get("MIMW_TARGET")
    return tensor.shape, tensor.stride(), tensor.dtype, where, tensor.data_ptr() & 15


class Plans(dict):
    """Key -> plan, at most `most` of them; a key without a plan gives None. `name` is the operator's, by default its module's."""

    def __init__(self, make: Callable[..., Any], most: int = MOST, name: str | None = None):
        super().__init__()
        self.make, self.most = make, most
        self.name = name or getattr(make, "__module__", "").rpartition(".")[2]

    def __missing__(self, key: Hashable) -> None:
        return None

    def made(self, key: Hashable, *args) -> Any:
        """`make(*args)`, which may refuse them, kept under `key` unless the call is only to be explained."""
        with planning(self.name, args):
            plan = self.make(*args)
        if asked() is not None:
            return plan
        while len(self) >= self.most:
            self.pop(next(iter(self)), None)
        self[key] = plan
        return plan


__all__ = ["MOST", "Plans", "look"]
