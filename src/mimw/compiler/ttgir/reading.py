"""From ops of TTGIR to ops of ours, one at a time: what a reader of one op is given, and how readers are found.

Input: a `Node` of the tree of a module. Output: the ops of ours that do the same. A reader is a function with the names it is for:

    @reads("ttng.wait_barrier")
    def wait_barrier(here):
        barrier, phase, *more = here.operands
        return here.op("barrier_wait", barrier, phase, *more[:1])

Layouts say where elements live, and change no element: `ttg.convert_layout` leaves no op. Tokens say in SSA form what the order of
the ops says, too; none is kept. An op without a reader is refused with its text and its line, never left out.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import Any

from ...ir import OPS, Block, Op, Site, Token, Type, Value
from ..triton_port.enumerations import enumeration_member, enumeration_names
from ..triton_port.mlir_tree import Block as Nodes
from ..triton_port.mlir_tree import Node
from ..triton_port.numbers import number_said
from .cta_parts import part_in
from .layout_text import LayoutProblem
from .locations import name_in, site_in
from .shared_accesses import SharedAccess

Ops = Op | Iterable[Op] | None
_READERS: dict[str, Callable[[Here], Ops]] = {}
_OF_ONE_CTA: set[str] = set()
_ANY_ORDER: set[str] = set()
_STRING = r'"((?:[^"\\]|\\.)*)"'


class Unreadable(Exception):
    """An op without a meaning among ours."""

    def __init__(self, what: str, node: Node):
        self.what, self.node = what, node
        super().__init__(what)


def reads(*names: str, one_cta: bool = False,
          any_order: bool = False) -> Callable[[Callable[[Here], Ops]], Callable[[Here], Ops]]:
    """Register a reader of the ops of these names; with `one_cta` it knows them in programs of one CTA only, with `any_order` of
    buffers whose elements follow each other in no order (`reshaped`), too."""

    def register(reader: Callable[[Here], Ops]) -> Callable[[Here], Ops]:
        for name in names:
            assert name not in _READERS, f"two readers of {name}"
            _READERS[name] = reader
        _OF_ONE_CTA.update(names if one_cta else ())
        _ANY_ORDER.update(names if any_order else ())
        return reader

    return register


def readable() -> frozenset[str]:
    """The names of all ops that have a reader."""
    return frozenset(_READERS)


@dataclass
class Reader:
    """Reads the ops of one function. `values` has our value for each of MLIR's by its number, None for a token; `texts` its type as
    MLIR writes it; `made_by` the op that gives it; `written` the type of a value of ours; `accesses` those to shared memory by
    threads. `base` is where locations stand that name no file of an author's. Of a program that is several CTAs, `rank_bits` are
    the bits of a CTA's rank in it, and `rank` is the value of that; the program of ours is one of them."""

    base: Site
    warp_size: int = 32
    rank_bits: int = 0
    rank: Value | None = None

    def __post_init__(self):
        self.values: dict[int, Value | None] = {}
        self.texts: dict[int, str] = {}
        self.made_by: dict[int, Node] = {}
        self.written: dict[Value, str] = {}
        self.accesses: list[SharedAccess] = []
        self.constants: dict[Value, int | float] = {}
        self.notes: dict[str, Any] = {}
        self.slots: dict[Value, Value] = {}   # the slot where a descriptor will stand by the time that it is used
        self.ahead: list[Op] = []             # ops that stand in front of all others
        self.turned: set[int] = set()         # numbers of buffers that are those of another shape: `reshaped`
        self.numbers: dict[Op, int] = {}      # of the recorded op that an op comes from, where mimw compiled it

    @property
    def task_warps(self) -> int:
        """The warps that run what is being read: those of a task, or of the kernel."""
        return self.notes.get("task_warps", self.notes["num_warps"])

    def block(self, nodes: Nodes, arguments: Iterable[Value | None] | None = None) -> Block:
        """A block of ours. `arguments` are the values that stand for the block's own, if they are known from outside; else they are
        the block's arguments here, too."""
        if arguments is not None:
            for (number, text), value in zip(nodes.arguments, arguments, strict=True):
                self.values[number], self.texts[number] = value, text
            return Block((), tuple(self.ops(nodes)))
        args = [self.new(number, text, nodes.nodes[0], "") for number, text in nodes.arguments]
        return Block(tuple(value for value in args if value is not None), tuple(self.ops(nodes)))

    def ops(self, nodes: Nodes) -> Iterator[Op]:
        """The ops of a block, in order."""
        for node in nodes.nodes:
            made = self.read(node)
            found, number = (made, ) if isinstance(made, Op) else tuple(made or ()), number_said(node.location)
            if number >= 0:
                inside = found if node.regions else [one for op in found for one in op.walk()]
                self.numbers.update(dict.fromkeys((op for op in inside if op not in self.numbers), number))
            for op in found:
                yield from self.looked_at(op)

    def looked_at(self, op: Op) -> tuple[Op, ...]:
        """The op behind a look at the descriptor that it takes, if that stands in memory of the kernel."""
        descriptor = getattr(op, "descriptor", None) if "descriptor" in op.row.places else None
        if descriptor not in self.slots:
            return (op, )
        there = Value(descriptor.type, descriptor.name)
        type_ = MappingProxyType({"type": there.type})
        look = Op("view_descriptor_slot", (self.slots[descriptor], ), (there, ), (), type_, op.site)
        return look, op.with_operands(descriptor=there)

    def read(self, node: Node) -> Ops:
        """The ops of ours in the place of one."""
        for number, text in node.results:
            self.made_by[number], self.texts[number] = node, text
        if node.name not in _READERS:
            raise Unreadable(f"{node.name} has no meaning in the simulator", node)
        if self.rank_bits and node.name in _OF_ONE_CTA:
            raise Unreadable(f"{node.name} is not read in a program that is several CTAs (num_ctas)", node)
        if node.name not in _ANY_ORDER:
            self.check_order(node)
        here = Here(self, node)
        made = _READERS[node.name](here)
        if any(number not in self.values for number, _ in node.results):
            here.results        # tokens, which no op of ours gives
        return made

    def check_order(self, node: Node) -> None:
        """Refuse an op of a buffer whose elements follow each other in no order."""
        if not self.turned.isdisjoint(node.operands):
            raise Unreadable(f"{node.name} of a buffer of another shape, which was turned before, is not read", node)

    def type_in(self, text: str, node: Node, number: int | None = None) -> Type:
        """The type of ours, of the value of that number; of a tile in several CTAs that of one CTA's part."""
        try:
            type_ = part_in(text, number in self.notes.get("data", ()))
        except LayoutProblem as problem:
            raise Unreadable(str(problem), node) from None
        if type_ is None:
            raise Unreadable(f"the type {text} has no meaning in the simulator", node)
        return type_

    def new(self, number: int, text: str, node: Node, name: str) -> Value | None:
        """A value of ours for one of MLIR's; None for a token."""
        type_ = self.type_in(text, node, number)
        self.texts[number] = text
        made = self.values[number] = None if isinstance(type_, Token) else Value(type_, name)
        if made is not None:
            self.written[made] = text
        return made


class Here:
    """One op of TTGIR that is read: its operands as values of ours, its types, its attributes, and makers of ops of ours."""

    def __init__(self, reader: Reader, node: Node):
        self.reader, self.node = reader, node

    @property
    def name(self) -> str:
        return self.node.name

    @property
    def text(self) -> str:
        return self.node.text

    @cached_property
    def operands(self) -> list[Value]:
        """The operands, in the order of the op's definition, without tokens."""
        found = [self.reader.values[number] for number in self.node.operands]
        return [value for value in found if value is not None]

    @cached_property
    def operand_texts(self) -> list[str]:
        """The types of `operands` as MLIR writes them."""
        return [self.reader.texts[number] for number in self.node.operands if self.reader.values[number] is not None]

    @cached_property
    def types(self) -> list[Type]:
        """The types of the results, without tokens."""
        found = [self.reader.type_in(text, self.node, number) for number, text in self.node.results]
        return [type_ for type_ in found if not isinstance(type_, Token)]

    @property
    def result_texts(self) -> list[str]:
        """The types of the results as MLIR writes them."""
        return [text for _, text in self.node.results]

    @cached_property
    def results(self) -> tuple[Value, ...]:
        """Values of ours for the results, without tokens."""
        name = name_in(self.node.location)
        made = [self.reader.new(number, text, self.node, name) for number, text in self.node.results]
        return tuple(value for value in made if value is not None)

    @cached_property
    def site(self) -> Site:
        base = self.reader.base
        return site_in(self.node.location, Site(base.file, base.line + self.node.line - 1, self.node.column - 1, base.function,
                                                base.caller))

    def op(self, name: str, *args: Any, results: tuple[Value, ...] | None = None, blocks: tuple[Block, ...] = (),
           **attrs: Any) -> Op:
        """An op of ours at this place; by default it gives the results."""
        operands = OPS[name].operands
        filled = args + (None, ) * len(operands)
        args = tuple(self._member(operand.text, arg) for operand, arg in zip(operands, filled, strict=False))
        given = self.results if results is None else results
        return Op(name, args, given, blocks, MappingProxyType(attrs), self.site)

    def _member(self, kind: str, arg: Any) -> Any:
        """The argument; for a word, where an op of ours takes one of Triton's enumerations, its member of that name."""
        if not kind.startswith("@") or not isinstance(arg, str):
            return arg
        enumeration = kind.strip("@?")
        names = [name for name in enumeration_names(enumeration) if name.lower() == arg.lower()]
        if not names:
            raise self.unreadable(f"{arg} has no meaning in the simulator")
        return enumeration_member(enumeration, names[0])

    def value(self, type_: Type, name: str = "") -> Value:
        """A value between two ops of ours that stand for one of TTGIR."""
        return Value(type_, name or name_in(self.node.location))

    def accesses(self, tile: str, buffer: str) -> None:
        """Note an access to shared memory, by the types of tile and buffer."""
        self.reader.accesses.append(SharedAccess(self.name, tile, buffer, self.site))

    def known(self, value: Value) -> int | float | None:
        """The number that a value is in every run; None for any other."""
        return self.reader.constants.get(value)

    def has(self, words: str) -> bool:
        """True if the text of the op has these words."""
        return words in self.text

    def only_if(self, condition: Value, op: Op) -> Op:
        """The op where a condition holds."""
        nothing = self.op("yield", (), results=())
        return self.op("if", condition, (), results=(), blocks=(Block((), (op, nothing)), Block((), (nothing, ))))

    def number(self, value: int, like: Type) -> tuple[Op, Value]:
        """A constant, and the value that it gives."""
        made = self.value(like)
        return self.op("constant", value, like, results=(made, )), made

    def stands_for(self, value: Value | None, result: int = 0) -> None:
        """Result number `result` is a value that is already there."""
        self.reader.values[self.node.results[result][0]] = value

    def word(self, attribute: str, default: str = "") -> str:
        """The word, or number as text, behind `attribute =`."""
        found = re.search(rf"\b{re.escape(attribute)} = ([-\w.]+)", self.text)
        return found[1] if found else default

    def integer(self, attribute: str, default: int | None = None) -> int:
        found = self.word(attribute)
        if not found and default is None:
            raise Unreadable(f"{self.name} without {attribute}", self.node)
        return int(found) if found else default

    def integers(self, attribute: str) -> tuple[int, ...]:
        """The numbers of `attribute = array<i32: 1, 0>`; () without."""
        found = re.search(rf"\b{re.escape(attribute)} = array<i\d+(?:: ([-\d, ]+))?>", self.text)
        return tuple(map(int, found[1].split(","))) if found and found[1] else ()

    def flag(self, attribute: str) -> bool:
        """True of a unit attribute that stands there, and of one that is true."""
        return re.search(rf"\b{attribute}\b(?! = false)", self.text) is not None

    def string(self, attribute: str = "") -> str:
        """The string behind `attribute =`; without a name the first one of the op."""
        found = re.search((rf"\b{attribute} = " if attribute else "") + _STRING, self.text)
        return found[1] if found else ""

    def listed(self) -> tuple[int, ...]:
        """The numbers in the first square brackets: `%tile[0, 64]`."""
        found = re.search(r"\[([-\d, ]*)\]", self.text)
        return tuple(int(one) for one in found[1].split(",") if one.strip()) if found else ()

    def unreadable(self, what: str) -> Unreadable:
        return Unreadable(what, self.node)
