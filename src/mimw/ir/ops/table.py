"""One row of the op table, and how it is made from a declaration.

Input: the arguments of `define`. Output: an `OpDef` for each name, in `OPS`. For example:

    define("tma_load", "descriptor:Descriptor offsets:i32* barrier:Barrier buffer:Buffer predicate:i1? cache_policy:const?",
           None, "none", "read write async", touches="descriptor=async-read buffer=async-write", barrier="complete",
           brings="descriptor", copy="in")
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

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
    mentions: tuple[str, ...] = ()
    barrier: str = ""
    brings: str = ""
    peers: str = ""
    copy: str = ""
    blocks: str = ""
    traits: frozenset[str] = frozenset()
    regions: tuple[str, ...] = ()
    hands_on: tuple[tuple[str, tuple[str, ...]], ...] = ()
    reads: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()

    @cached_property
    def params(self) -> tuple[str, ...]:
        """The names of the operands, in order."""
        return tuple(one.name for one in self.operands)

    @cached_property
    def places(self) -> dict[str, int]:
        """Where among an op's arguments each operand stands."""
        return {name: place for place, name in enumerate(self.params)}

    @property
    def stores_registers(self) -> bool:
        """True if what the op writes into buffers of its own CTA are values of the task."""
        return bool(self.writes) and not self.copy and not self.peers


OPS: dict[str, OpDef] = {}


def define(names: str, operands: str, results: TypeRule | None, layout: str, effects: str, *, attrs: str = "", traits: str = "",
           touches: str = "", blocks: dict[str, str] | str = "", hands_on: str = "", **facts) -> None:
    """A row for each of the names. `results` is None for an op without results; `blocks` may differ by name."""
    parsed, attributes = parse(operands), {one.name: one for one in parse(attrs)}
    facts |= {fact: tuple(facts[fact].split()) for fact in ("mentions", "regions") if fact in facts}
    ways = (entry.split("->") for entry in hands_on.split())
    handed = tuple((source, tuple(targets.split(","))) for source, targets in ways)
    touches, changed = tuple(tuple(entry.split("=")) for entry in touches.split()), frozenset(effects.split())
    buffers = {one.name for one in parsed if "Buffer" in one.text}
    reads, writes = (tuple(name for name, access in touches if name in buffers and access.endswith(kind))
                     for kind in ("read", "write"))
    if changed == {"read", "write"} and results and not facts.get("copy"):
        reads = writes
    for name in names.split():
        OPS[name] = OpDef(name, parsed, attributes, results or (lambda args, attrs: ()), layout, changed,
                          traits=frozenset(traits.split()),
                          blocks=blocks if isinstance(blocks, str) else blocks.get(name, ""),
                          hands_on=handed, touches=touches, reads=reads, writes=writes, **facts)
