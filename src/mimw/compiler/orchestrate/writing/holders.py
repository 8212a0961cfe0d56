"""Names that may mean another value from a line on, as `acc` in `acc = acc * fade`.

Input: what each name means, as it is written. Output: for a value the name that the author gave it, if that one is free again. For
example:

    %acc.2 = fmul %acc.1, %fade         acc = acc * fade            nothing reads %acc.1 behind this line
    %s.2 = fsub %s.1, %m                s2 = s - m                  .. where something reads %s.1 later

A name is assigned again only in the block that has assigned it, so no loop or branch carries more than the program's does.
"""

from __future__ import annotations

from ....ir import Block, Value


class Holders:
    """The value of each name of a writer, and the latest name for each of the author's."""

    def __init__(self, w):
        self.w = w
        self.value: dict[str, Value] = {}
        self.latest: dict[str, str] = {}

    def note(self, value: Value, name: str) -> None:
        """The name means the value from here on."""
        self.value[name] = value
        if value.name:
            self.latest[value.name] = name

    def free_again(self, value: Value) -> str | None:
        """The name under which the author had a value before, if that one is read no more where `value` is made."""
        uses, reads = self.w.uses, self.w.inlining.reads
        name = self.latest.get(value.name)
        held = self.value.get(name)
        made = uses.definition[value]
        if held is None or made is None or self.w.texts[held].code != name or held.type != value.type:
            return None
        block, here = uses.place[made].block, uses.position[made]
        if self.block(held) is not block or any(read > here for read in reads(held)):
            return None
        last = max(reads(value), default=here)
        return name if all(last <= self._limit(aimed) for aimed, (other, _) in self.w.targets.items() if other == name) else None

    def block(self, value: Value) -> Block:
        """The block that assigns a value's name."""
        uses = self.w.uses
        made = uses.definition.get(value)
        if made is not None:
            return uses.place[made].block
        return uses.argument[value].block if value in uses.argument else self.w.program.body

    def _limit(self, aimed: Value) -> int:
        """The last place at which the name may still mean something else than a value that is to get it."""
        made = self.w.uses.definition[aimed]
        return self.w.uses.position[made] - bool(made.blocks)
