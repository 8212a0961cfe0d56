"""Triton's passes under guard: the order of effects after them is that of the recorded program, or nothing is compiled.

Input: a way to lower a program to TTGIR, and the list of passes to run. Output: the module after the passes; or `OrderChanged`,
which names the pass, the two ops and the user's lines. An example:

    module = optimise_in_order(program, lambda: lower(...), lambda: nvidia_passes(90, 3, True, True, False))

Only a finished module is looked at; if its order looks wrong, the kernel is lowered once more and looked at after every pass,
to find the pass. MLIR's own passes that go by effects (`_BY_EFFECTS`) may take loops and `if`s apart and join them in ways that
the comparison cannot follow everywhere (an unrolled loop in an unrolled loop with branches of known conditions): after each of
these the comparison begins anew, with a number of its own for every op that they have repeated. Which ops have a fixed place is
`analysis.order`; what may become of a tree of effects, `passes.same_order`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ..errors import OrderChanged
from ..ir import Op, Program
from .analysis.order import Order, makes_memory, orders
from .passes.same_order import Changed, order_change
from .triton_port.order import Effects, renumbered
from .triton_port.passes import optimise

# Each moves, joins or drops an op only if its effects allow that (`triton_port.passes`, tests/lowering/test_order.py).
_BY_EFFECTS = frozenset(("canonicalizer", "loop_aware_cse", "loop_unroll", "sccp", "cse"))


def optimise_in_order(program: Program, lower: Callable[[], Any], listed: Callable[[], Iterable], observer=None):
    """The module that `lower` gives, after the passes of `listed`; `observer(name, module)` sees it after each of them."""
    guard = _Guard(program)
    module = lower()
    before = guard.effects(module)
    module = optimise(module, listed(), observer)
    if guard.change(before, guard.effects(module, before)) is not None:
        guard.blame(lower(), listed())
    return module


class _Guard:
    """The numbers of one program's effects, and the reports of changes. `recorded` names the recorded op of each number."""

    def __init__(self, program: Program, recorded: Mapping[int, int] | None = None):
        self.program, self.ops = program, list(program.walk())
        self.recorded = dict(enumerate(range(len(self.ops)))) if recorded is None else recorded
        found = orders(program)
        self.numbers = self._numbers(found)
        self.fixed = self._numbers(number for number, order in found.items() if order is Order.FIXED)
        self.memory = self._numbers(number for number, op in enumerate(self.ops) if makes_memory(op))

    def _numbers(self, recorded: Iterable[int]) -> frozenset[int]:
        """The numbers that name these recorded ops."""
        recorded = frozenset(recorded)
        return frozenset(number for number, op in self.recorded.items() if op in recorded)

    def effects(self, module, before: Effects | None = None) -> Effects:
        return Effects(module, self.numbers, self.memory, before)

    def change(self, before: Effects, after: Effects) -> Changed | None:
        """The first change of order; a product that now reads a buffer in place, where a copy was made of it, is one, too."""
        late = after.held - before.held
        return Changed(min(late)) if late else order_change(before.nodes, after.nodes, self.fixed)

    def blame(self, module, listed: Iterable) -> None:
        """Raise `OrderChanged` for the first pass after which the order is another one; none, if it was MLIR's own passes."""
        guard, before = self, self.effects(module)
        for name, add in listed:
            module = optimise(module, [(name, add)])
            if name in _BY_EFFECTS:
                module, old = renumbered(module)
                guard = _Guard(self.program, {number: guard.recorded[was] for number, was in old.items()})
                before = guard.effects(module)
            elif (change := guard.change(before, guard.effects(module, before))) is not None:
                raise guard.error(name, change)

    def error(self, name: str, change: Changed) -> OrderChanged:
        moved, beside = self._op(change.number), None if change.beside is None else self._op(change.beside)
        sites = [op.site for op in (moved, beside) if op is not None]
        return OrderChanged(name, _named(moved), "its place" if beside is None else _named(beside), *sites)

    def _op(self, number: int) -> Op | None:
        return self.ops[self.recorded[number]] if number in self.recorded else None


def _named(op: Op | None) -> str:
    return "an op" if op is None else f"{op.name} at {op.site}"
