"""One row of the op table, and how it is made from a declaration.

Input: the arguments of `define`. Output: an `OpDef` for each name, in `OPS`. For example:

    define("tma_load", "descriptor:Descriptor offsets:i32* barrier:Barrier buffer:Buffer predicate:i1? cache_policy:const?",
           None, "none", "read write async", touches="descriptor=async-read buffer=async-write", barrier="complete",
           brings="descriptor", copy="in")
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from ..operands import Operand, parse
from ..type_rules import TypeRule


@dataclass(frozen=True)
class OpDef:
    """One row of the table. `reads`, `writes` and `mentions` are names of operands that are buffers."""

    name: str
    operands: tuple[Operand, ...]
    attributes: dict[str, Operand]
    results: TypeRule
    layout: str
    effects: frozenset[str]
    ours: bool = False
    doc: str = ""
    touches: tuple[tuple[str, str], ...] = ()
    releases: bool = False
    view_of: str = ""
    view: str = ""
    allocates: str = ""
    elements_of: tuple[str, ...] = ()
    pointer_of: str = ""
    folds: Callable[[int, int], int] | None = None
    absorbs: int | None = None
    neutral: float | str | None = None
    relation: str = ""
    mentions: tuple[str, ...] = ()
    barrier: str = ""
    brings: str = ""
    peers: str = ""
    copy: str = ""
    blocks: str = ""
    time: str = ""
    cost: str = "int"
    needs: str = ""
    needed_if: str = ""
    becomes: str = ""
    word: str = ""
    instead: str = ""
    lies: dict[str, str] = field(default_factory=dict)
    rule: str = ""
    end: str = ""
    traits: frozenset[str] = frozenset()
    regions: tuple[str, ...] = ()
    hands_on: tuple[tuple[str, tuple[str, ...]], ...] = ()
    reads: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()

    def needs_of(self, op) -> str:
        """The feature of a chip that this op of the row needs, "" for none (`needed_if`)."""
        name, _, value = self.needed_if.partition("=")
        if not name:
            return self.needs
        found = op.attrs[name] if name in self.attributes else getattr(op, name)
        return self.needs if (found == value if value else found) else ""

    @cached_property
    def params(self) -> tuple[str, ...]:
        """The names of the operands, in order."""
        return tuple(one.name for one in self.operands)

    @cached_property
    def places(self) -> dict[str, int]:
        """The position of each operand among an op's arguments."""
        return {name: place for place, name in enumerate(self.params)}

    @property
    def loads(self) -> bool:
        """True of an ordinary load through pointers into global memory."""
        return ("pointer", "read") in self.touches and not self.copy and self.traits.isdisjoint(("atomic", "declared"))

    @property
    def brings_tile(self) -> bool:
        """True of a load by descriptor into registers."""
        return ("descriptor", "async-read") in self.touches and not self.ours

    @property
    def stores(self) -> bool:
        """True of an ordinary store through pointers into global memory."""
        return ("pointer", "write") in self.touches and not self.copy and self.traits.isdisjoint(("atomic", "declared"))

    @property
    def moves_whole_buffers(self) -> bool:
        """True of an ordinary read or write of a buffer by a tile of its shape, through registers."""
        touched = {name for name, _ in self.touches}
        elsewhere = self.copy or self.peers or "indices" in self.places or "declared" in self.traits
        return touched == {"buffer"} == {*self.reads, *self.writes} and not elsewhere

    @property
    def hands_over(self) -> bool:
        """True if control flow hands on the op's operands: `ir.flow` says where to."""
        return bool(self.hands_on) or "terminator" in self.traits

    @property
    def stores_registers(self) -> bool:
        """True if the values that the op writes into buffers of its own CTA are values of the task."""
        return bool(self.writes) and not self.copy and not self.peers and "async" not in self.effects and \
            "declared" not in self.traits

    @property
    def needs_all_threads(self) -> bool:
        """True if all threads of a task have to do it together."""
        return "collective" in self.traits or "alone" not in self.traits and not self.effects.isdisjoint(("sync", "async"))


OPS: dict[str, OpDef] = {}
_LISTS = ("mentions", "regions", "elements_of")     # facts that are names, one after the other


def define(names: str, operands: str, results: TypeRule | None, layout: str, effects: str, *, attrs: str = "",
           traits: dict[str, str] | str = "", touches: str = "", hands_on: str = "", lies: str = "", **facts) -> None:
    """A row for each of the names. `results` is None for an op without results. A fact may differ by name: then it is given as a
    dictionary from the name of the op, or from several names."""
    parsed, attributes = parse(operands), {one.name: one for one in parse(attrs)}
    facts |= {fact: tuple(facts[fact].split()) for fact in _LISTS if fact in facts}
    ways = (entry.split("->") for entry in hands_on.split())
    handed = tuple((source, tuple(targets.split(","))) for source, targets in ways)
    touches, changed = tuple(tuple(entry.split("=")) for entry in touches.split()), frozenset(effects.split())
    buffers = {one.name for one in parsed if "Buffer" in one.text}
    reads, writes = (tuple(name for name, access in touches if name in buffers and access.endswith(kind))
                     for kind in ("read", "write"))
    if changed == {"read", "write"} and results and not facts.get("copy"):
        reads = writes
    facts = {fact: _by_name(given) if isinstance(given, dict) else given for fact, given in facts.items()}
    for name in names.split():
        own = {fact: given[name] if isinstance(given, dict) else given for fact, given in facts.items()
               if not isinstance(given, dict) or name in given}
        traits_of = traits.get(name, "") if isinstance(traits, dict) else traits
        OPS[name] = OpDef(name, parsed, attributes, results or (lambda args, attrs: ()), layout, changed,
                          traits=frozenset(traits_of.split()), hands_on=handed, touches=touches, reads=reads, writes=writes,
                          lies=dict(entry.split("=") for entry in lies.split()),
                          **{"word": name, **own})


def _by_name(given: dict[str, Any]) -> dict[str, Any]:
    """A dictionary from single names, of one from several names each."""
    return {name: fact for names, fact in given.items() for name in names.split()}
