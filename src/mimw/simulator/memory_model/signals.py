"""Signals: a word that one task waits for may be changed again only when that task is known to have looked.

Input: waits that have passed (`saw_signal`), and changes of the word (`signalled`). Output: nothing, or a `SignalReusedEarly` at
the change. For example:

    rank 0                                   rank 1
    wait_signal(flag, 1, "eq")               signal(flag of rank 0, 1)          round 0
                                             signal(flag of rank 0, 1)          round 1: had rank 0 been slower, it had found 2

So it is with the phases of a barrier (`PhaseMissed`): the run at hand need not have gone wrong. A change after which the wait would
have passed as well takes nothing from anybody.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ...errors import SignalReusedEarly, fail
from ...ir import Op
from .clocks import Epoch


@dataclass(frozen=True)
class Look:
    """A wait of `task` that has passed: for which values it would, what it awaited, and when it looked."""

    task: Any
    op: Op
    passes: Callable[[Any], bool]
    awaited: str
    epoch: Epoch


class SignalOrder:
    """The part of `Order` about words that are waited for."""

    def __init__(self):
        self.looks: dict[int, list[Look]] = {}      # by address

    def saw_signal(self, task, op: Op, address: int, passes: Callable[[Any], bool], awaited: str) -> None:
        """A wait of `task` for the word at `address` has passed."""
        looks = self.looks.setdefault(address, [])
        looks[:] = [look for look in looks if look.task is not task]        # what comes after this comes after those
        looks.append(Look(task, op, passes, awaited, task.strand.epoch))
        self._tick(task.strand)

    def signalled(self, task, op: Op, address: int, value, name: str) -> None:
        """`task` has made `value` of the word at `address`."""
        looks = self.looks.get(address)
        if not looks:
            return
        for look in looks:
            if not look.passes(value) and not look.epoch.before(task.strand.clock):
                raise self._reused(task, op, look, value, name)
        looks[:] = [look for look in looks if look.passes(value)]

    @staticmethod
    def _reused(task, op: Op, look: Look, value, name: str) -> SignalReusedEarly:
        return fail(SignalReusedEarly, task, op, f"{op.name} makes {name} {value}, and nothing orders that after the wait of "
                    f"{look.task.where} at {look.op.site}, which wants {look.awaited}. Had that task been slower, it would have "
                    f"found {value} and waited for ever", look.op.site,
                    hint=f"count up and wait for ge, or let {look.task.where} signal back after its wait and {task.where} wait for "
                    "that before the next round")
