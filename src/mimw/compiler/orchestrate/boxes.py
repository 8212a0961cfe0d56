"""Loads and stores by pointers become loads and stores by descriptors that the host makes: plain program to plain program.

Input: a program that a recorder made, and its target. Output: `Lifted`: the program with a parameter for each descriptor behind its
own, what the host makes of the arguments, and a remark for each access. For example:

    x = tl.load(a + rows[:, None] * K + ks[None, :], mask=ks[None, :] < K - k * 64, other=0.0)
    becomes     x = a_desc.load([128 * pid, 64 * k])        a_desc = TensorDescriptor(a, [2^31 - 16, K], [K, 1], [128, 64])

The arithmetic that made the pointers stays where a loop carries it, and nothing uses it: tasks take what they need. `box_host` writes
the host's part as Python.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from ...ir import I32, I64, Block, Builder, Descriptor, Op, Param, Program, Scalar, Site, Value
from ...ir.flow import induction
from ...target import Target
from ..analysis.pointer_boxes import box_of, is_tile_access, ranges_of
from ..analysis.pointer_forms import Within
from ..analysis.polynomials import Poly, Symbol, Trip
from ..analysis.remarks import Remark
from ..analysis.tensor_boxes import Box, Multiple, Refused
from ..analysis.uses import Uses, uses_of
from ..passes.drop_unused import drop_unused
from .memory_order import apart, out_of_order

# What `desc.load` records: it takes no hints, so none are kept.
CACHED = ("cache", "none", "evict_normal")


@dataclass(frozen=True)
class HostDescriptor:
    """A descriptor that the host makes for the parameter `name`: of the argument `base`, with `shape` and `strides` in elements, made of
    arguments alone, seen in blocks of `block`. `assumed` is what has to hold for the boxes that go by it."""

    name: str
    base: str
    shape: tuple[Poly, ...]
    strides: tuple[Poly, ...]
    block: tuple[int, ...]
    element: Scalar
    assumed: tuple[Within | Multiple, ...]


@dataclass(frozen=True)
class Lifted:
    """The result of `lifted`. `plain` is the program that went in, to whose values the polynomials refer; `apart` are pairs of arguments
    that may share no byte, with the line of the box."""

    program: Program
    plain: Program
    descriptors: tuple[HostDescriptor, ...]
    apart: tuple[tuple[str, str, Site], ...]
    remarks: tuple[Remark, ...]


def lifted(program: Program, target: Target, loads: str = "products", stores: bool = True) -> Lifted:
    """The program with boxes as accesses by descriptor.

    args:      program   as recorded, before any pass
               loads     "products": those in loops that a product takes; "all"; or "none"
               stores    whether stores are lifted, too
    returns:   `Lifted`; its program is the same object if nothing is lifted, and a remark says why
    """
    boxes, remarks, pairs = {}, [], {}
    for op in _candidates(program, loads, stores):
        found: Box | Refused = _why_none(program, target) or box_of(program, op)
        if isinstance(found, Box):
            found = out_of_order(program, op, found) or found
        if isinstance(found, Refused):
            remarks.append(Remark(f"the {_word(op)} stays one by pointers: {found.reason}.", op.site))
            continue
        boxes[op] = found
        pairs |= {pair: op.site for pair in apart(program, op, found) if pair not in pairs and pair[::-1] not in pairs}
        remarks.append(Remark(_said(program, op, found), op.site))
    if not boxes:
        return Lifted(program, program, (), (), tuple(remarks))
    made = _Descriptors(program, boxes)
    now = drop_unused(_Rewrite(program, boxes, made).program())
    return Lifted(now, program, made.all(), tuple((*pair, site) for pair, site in pairs.items()), tuple(remarks))


def _candidates(program: Program, loads: str, stores: bool) -> Iterator[Op]:
    """Loads and stores of tiles of two axes that are asked for, in program order."""
    uses, wanted = uses_of(program), _for_products(program) if loads == "products" else None
    for op in program.where(lambda row: row.loads or row.stores):
        if not is_tile_access(op) or len(op.pointer.type.shape) != 2:
            continue
        if op.row.stores and stores or op.row.loads and (loads == "all" or wanted is not None and op in wanted and uses.loops(op)):
            yield op


def _for_products(program: Program) -> set[Op]:
    """The ops whose results reach a product, through arithmetic and within the rounds of loops."""
    uses, found = uses_of(program), set()
    todo = [value for op in program.where(lambda row: row.cost == "dot") for value in (op.a, op.b)]
    while todo:
        op = uses.definition.get(todo.pop())
        if op is not None and op not in found:
            found.add(op)
            todo += op.operands if not op.blocks else ()
    return found


def _why_none(program: Program, target: Target) -> Refused | None:
    """Why nothing in a program is lifted."""
    if not target.has("tma"):
        return Refused(f"{target} has no TMA", program.site)
    ours = next((op for op in program.where(lambda row: row.ours) if "observer" not in op.row.traits), None)
    return Refused(f"the kernel calls functions of mimw, as on line {ours.site.line}", ours.site) if ours is not None else None


def _word(op: Op) -> str:
    return "load" if op.row.loads else "store"


def _said(program: Program, op: Op, box: Box) -> str:
    """What a box is, in a sentence."""
    shown = ranges_of(program).shown
    extents = ["any" if bound is None else shown(extent) for extent, bound in zip(box.shape, box.bounds)]
    proofs = sorted({bound.site.line for bound in box.bounds if bound is not None})
    mask = f", by the mask on line{'s' * (len(proofs) > 1)} {', '.join(map(str, proofs))}" if proofs else ", without a mask"
    hint = "; its cache hint is dropped" if tuple(map(str, op.cache_policy or CACHED)) != CACHED else ""
    return (f"the {_word(op)} is a block of {box.base.name}: {' x '.join(map(str, box.block))} at [{', '.join(map(shown, box.offsets))}] of "
            f"[{', '.join(extents)}]{mask}{', turned' if box.turned else ''}{hint}.")


class _Descriptors:
    """The descriptors of the boxes, one for all boxes of the same tensor in the same blocks."""

    def __init__(self, program: Program, boxes: dict[Op, Box]):
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
                made = host, self._params(host)
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

    def _params(self, host: HostDescriptor) -> tuple[Param, ...]:
        """The run-time arguments that one descriptor is, as a recorder has them: itself, extents, strides."""
        types = (Descriptor(host.element, host.block), *(I32 for _ in host.shape), *(I64 for _ in host.strides))
        names = (host.name, *(f"{host.name}_{number}" for number in range(1, len(types))))
        self.place += 1
        return tuple(Param(Value(type_, name), name, (self.place - 1, )) for name, type_ in zip(names, types))


class _Rewrite:
    """The program anew, with accesses by descriptor."""

    def __init__(self, program: Program, boxes: dict[Op, Box], made: _Descriptors):
        self.old, self.boxes, self.made = program, boxes, made
        self.uses: Uses = uses_of(program)
        self.forms = ranges_of(program).forms
        self.b = Builder(program.site)

    def program(self) -> Program:
        return replace(self.old, params=(*self.old.params, *self.made.params()), body=self._block(self.old.body))

    def _block(self, block: Block) -> Block:
        outside = self.b.open()
        for op in block.ops:
            if op in self.boxes:
                self._access(op, self.boxes[op])
            else:
                self.b.ops.append(op.with_blocks(self._block))
        return block.with_ops(self.b.close(outside))

    def _access(self, op: Op, box: Box) -> None:
        descriptor, b = self.made.of[op], self.b
        offsets = tuple(self._number(offset, op) for offset in box.offsets)
        if op.row.loads and not box.turned:
            b.emit("descriptor_load", (descriptor, offsets, CACHED), op.site, results=op.results)
        elif op.row.loads:
            tile = b.emit("descriptor_load", (descriptor, offsets, CACHED), op.site, label=op.result.name)
            b.emit("trans", (tile, box.order), op.site, results=op.results)
        else:
            tile = b.emit("trans", (op.value, box.order), op.site) if box.turned else op.value
            b.emit("descriptor_store", (descriptor, tile, offsets), op.site)

    # ---- offsets ----------------------------------------------------------------------------------------------------

    def _number(self, poly: Poly, op: Op) -> Value:
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
        """The polynomial with loops' counters in place of their trips, where the loops' steps divide what trips are multiplied with."""
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
