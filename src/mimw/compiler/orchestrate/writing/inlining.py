"""Which ops are written inside the text of others, and at which ops a value is read by its name.

Input: a program. Output: an `Inlining`. For example, of `y = tl.load(x + 2 * i)` and `acc = acc + y`:

    inlining.inside(multiplication)         True: its only use is the sum of pointer and offset beside it
    inlining.inside(load)                   False: what has an effect has a line of its own, so that the order stays
    inlining.reads(acc)                     the numbers, in program order, of the ops whose lines read `acc`
"""

from __future__ import annotations

from ....ir import Op, Program, Value
from ....ir.flow import handed_to
from ....ir.ops import is_pure
from ...analysis.live import live_values
from ...analysis.uses import Use, uses_of

_SPREADS = ("splat", "broadcast", "expand_dims")


class Inlining:
    """Decided op by op when asked, and kept."""

    def __init__(self, program: Program):
        self.uses, self.live = uses_of(program), live_values(program)
        self._inside: dict[Op, bool] = {}
        self._reads: dict[Value, frozenset[int]] = {}

    def used(self, value: Value) -> list[Use]:
        """The uses of a value that something needs."""
        return [use for use in self.uses.of(value) if self._counts(use)]

    def inside(self, op: Op) -> bool:
        """True if the op has no line of its own."""
        if op not in self._inside:
            self._inside[op] = self._decide(op)
        return self._inside[op]

    def inlined(self, value: Value) -> Op | None:
        """The op that is written where the value is used; None if the value has a name."""
        op = self.uses.definition.get(value)
        return op if op is not None and self.inside(op) else None

    def reads(self, value: Value) -> frozenset[int]:
        """The numbers of the ops at whose place the value's name is read: for an op that is written inside others, theirs."""
        if value not in self._reads:
            found: set[int] = set()
            for op, _ in self.used(value):
                found |= self.reads(op.result) if self.inside(op) else {self.uses.position[op]}
            self._reads[value] = frozenset(found)
        return self._reads[value]

    def _counts(self, use: Use) -> bool:
        op = use.op
        if op.row.hands_on or "terminator" in op.row.traits:
            place = self.uses.place.get(op)
            targets = handed_to(op, use.index, place.parent if place else None)
            return not targets or any(target in self.live for target in targets)
        return not is_pure(op.name) or not self.live.isdisjoint(op.results)

    def _stands_for_its_operand(self, op: Op) -> bool:
        """True of a cast of a named value, or of a number, to its own type."""
        if op.name != "int_cast" or op.value.type != op.type:
            return False
        made = self.uses.definition.get(op.value)
        return made is None or not self.inside(made) or made.name == "constant" or self._stands_for_its_operand(made)

    def _decide(self, op: Op) -> bool:
        if not is_pure(op.name) or len(op.results) != 1:
            return False
        if op.name == "constant":
            return True
        uses, place = self.used(op.result), self.uses.place[op]
        if self._stands_for_its_operand(op):
            return True
        named = bool(op.result.name) and not op.site.file.replace("\\", "/").rpartition("/")[0].endswith("triton/language")
        if op.name in _SPREADS and not (named and len(uses) > 1):
            source = self.uses.definition.get(op.value)
            if source is None or source.name == "constant" or not self.inside(source) or len(uses) < 2 and not named:
                return True
        if named or len(uses) != 1:
            return False
        return self.uses.place[uses[0].op].block is place.block
