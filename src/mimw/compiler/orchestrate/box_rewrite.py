"""The rewrite behind `boxes`: parameters for descriptors, and accesses by them with offsets that are computed in front of them.

Input: a program and the boxes of some of its loads and stores. Output: `Descriptors`, and the program anew. For example:

    made = Descriptors(program, {load: box})
    rewritten(program, {load: box}, made)       %x = descriptor_load %a_desc [%128_pid, %64_k]

The offset of a trip is the loop's counter where the loop's step divides what the trip is multiplied with.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

from ...ir import I32, I64, Block, Builder, Descriptor, Op, Param, Program, Scalar, Value
from ...ir.flow import induction
from ..analysis.address_forms import Within
from ..analysis.pointer_boxes import ranges_of
from ..analysis.polynomials import Poly, Symbol, Trip
from ..analysis.tensor_boxes import Box, Multiple
from .one_address import OneAddress
from .writing.signs import argument_signs

# What `desc.load` records: it takes no hints, so none are kept.
CACHED = ("cache", "none", "evict_normal")


@dataclass(frozen=True)
class HostDescriptor:
    """A descriptor that the host makes for the parameter `name`: of the argument `base`, with `shape` and `strides` in elements,
    made of arguments alone, seen in blocks of `block`. `assumed` is what has to hold for the boxes that go by it."""

    name: str
    base: str
    shape: tuple[Poly, ...]
    strides: tuple[Poly, ...]
    block: tuple[int, ...]
    element: Scalar
    assumed: tuple[Within | Multiple, ...]


def rewritten(program: Program, boxes: Mapping[Op, Box], made: Descriptors,
              single: Mapping[Op, OneAddress] = MappingProxyType({})) -> Program:
    """The program with the accesses of `boxes` by the descriptors that are made for them, and these as parameters behind its
    own; and with one load in place of each of `single`."""
    return Rewrite(program, boxes, made, single).program()


class Descriptors:
    """The descriptors of the boxes, one for all boxes of the same tensor in the same blocks."""

    def __init__(self, program: Program, boxes: Mapping[Op, Box], unsigned: Collection[str] = ()):
        self.signs = argument_signs(program) | {param.value: False for param in program.params if param.name in unsigned}
        self.names = {param.name for param in program.params}
        self.place = 1 + max((param.path[0] for param in program.params), default=-1)
        self.found: dict[tuple, tuple[HostDescriptor, tuple[Param, ...]]] = {}
        self.of: dict[Op, Value] = {}
        bases = {param.value: param.name for param in program.params}
        for op, box in boxes.items():
            key = box.base, box.shape, box.strides, box.block
            if key in self.found:
                known, params = self.found[key]
                made = replace(known, assumed=tuple(dict.fromkeys((*known.assumed, *box.assumed)))), params
            else:
                name = self._name(bases[box.base])
                host = HostDescriptor(name, bases[box.base], box.shape, box.strides, box.block, box.element, box.assumed)
                made = host, self._params(host, self.signs.get(box.base, True))
            self.found[key] = made
            self.of[op] = made[1][0].value

    def all(self) -> tuple[HostDescriptor, ...]:
        return tuple(host for host, _ in self.found.values())

    def params(self) -> tuple[Param, ...]:
        return tuple(param for _, params in self.found.values() for param in params)

    def _name(self, base: str) -> str:
        count = 1
        while (name := f"{base}_desc{count if count > 1 else ''}") in self.names:
            count += 1
        self.names.add(name)
        return name

    def _params(self, host: HostDescriptor, signed: bool) -> tuple[Param, ...]:
        """The run-time arguments that one descriptor is, as a recorder has them: itself, extents, strides."""
        types = (Descriptor(host.element, host.block, signed), *(I32 for _ in host.shape), *(I64 for _ in host.strides))
        names = (host.name, *(f"{host.name}_{number}" for number in range(1, len(types))))
        self.place += 1
        return tuple(Param(Value(type_, name), name, (self.place - 1, )) for name, type_ in zip(names, types))


class Rewrite:
    """The program anew, with accesses by descriptor."""

    def __init__(self, program: Program, boxes: Mapping[Op, Box], made: Descriptors, single: Mapping[Op, OneAddress]):
        self.old, self.boxes, self.made, self.single = program, boxes, made, single
        self.forms = ranges_of(program).forms
        self.b = Builder(program.site)

    def program(self) -> Program:
        return replace(self.old, params=(*self.old.params, *self.made.params()), body=self.block(self.old.body))

    def block(self, block: Block) -> Block:
        outside = self.b.open()
        for op in block.ops:
            if op in self.boxes:
                self._access(op, self.boxes[op])
            elif op in self.single:
                self._one(op, self.single[op])
            else:
                self.b.ops.append(op.with_blocks(self.block))
        return block.with_ops(self.b.close(outside))

    def _one(self, op: Op, found: OneAddress) -> None:
        b, name = self.b, op.result.name
        at = b.emit("addptr", (found.base, self.number(found.offset, op)), op.site)
        number = b.emit("load", (at, op.cache_policy, op.is_volatile), op.site, label=name)
        b.emit("splat", (op.result.type, number), op.site, results=op.results)

    def _access(self, op: Op, box: Box) -> None:
        descriptor, b = self.made.of[op], self.b
        offsets = tuple(self.number(offset, op) for offset in box.offsets)
        if op.row.loads and not box.turned:
            b.emit("descriptor_load", (descriptor, offsets, CACHED), op.site, results=op.results)
        elif op.row.loads:
            tile = b.emit("descriptor_load", (descriptor, offsets, CACHED), op.site, label=op.result.name)
            b.emit("trans", (tile, box.order), op.site, results=op.results)
        else:
            tile = b.emit("trans", (op.value, box.order), op.site) if box.turned else op.value
            b.emit("descriptor_store", (descriptor, tile, offsets), op.site)

    # ---- offsets ----------------------------------------------------------------------------------------------------

    def number(self, poly: Poly, op: Op) -> Value:
        """A polynomial as a number of 32 bits, computed in front of `op`."""
        total, b = None, self.b
        for monomial, factor in self._by_counters(poly).terms.items():
            values = [self._symbol(symbol, op) for symbol in monomial]
            if abs(factor) != 1 or not values:
                values.append(b.constant(abs(factor), I32, op.site))
            term = values[0]
            for value in values[1:]:
                term = b.emit("mul", (term, value), op.site)
            if total is None:
                total = term if factor > 0 else b.emit("sub", (b.constant(0, I32, op.site), term), op.site)
            else:
                total = b.emit("add" if factor > 0 else "sub", (total, term), op.site)
        return b.constant(0, I32, op.site) if total is None else total

    def _by_counters(self, poly: Poly) -> Poly:
        """The polynomial with loops' counters in place of their trips, where the loops' steps divide what trips are multiplied
        with."""
        for trip in [symbol for symbol in poly.symbols if isinstance(symbol, Trip)]:
            step = self.forms.of(trip.loop.step).poly.constant
            moving = poly.part(lambda monomial: trip in monomial)
            if all(monomial.count(trip) == 1 and factor % step == 0 for monomial, factor in moving.terms.items()):
                rounds = Poly.of(induction(trip.loop)) - self.forms.of(trip.loop.start).poly
                whole = Poly({monomial: factor // step for monomial, factor in moving.terms.items()})
                poly = poly - moving + whole.substituted({trip: rounds})
        return poly

    def _symbol(self, symbol: Symbol, op: Op) -> Value:
        if not isinstance(symbol, Trip):
            return self.b.cast_i32(symbol, op.site)
        loop, b = symbol.loop, self.b
        counted = b.emit("sub", (induction(loop), loop.start), op.site)
        step = self.forms.of(loop.step).poly.constant
        return b.cast_i32(counted if step == 1 else b.by_constant("sdiv", counted, step, op.site), op.site)
