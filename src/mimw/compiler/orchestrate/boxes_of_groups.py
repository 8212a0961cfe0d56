"""Loads by pointers whose sizes, strides or places the kernel loads become ones by descriptors that it makes: plain to plain.

Input: a program, as `boxes` leaves it, and its target. Output: `Grouped`: the program, and a remark for each load. For example, of
grouped products, where M, N, K and the places of matrices are loaded for each group:

    for g: ..; while tile < end: ..; for k: x = tl.load(x_at, ..)           becomes

    for g:
        ..
        if tile < end:                          a group without a tile makes no descriptor
            fits = (K % 8 == 0) & (at_a % 8 == 0) & ..
            x_desc = tl.make_tensor_descriptor(a + at_a, [M, K], [K, 1], ..)
            while tile < end:
                if fits & ..:  for k: x = x_desc.load([m, k])
                else:          for k: x = tl.load(x_at, ..)

The host cannot know these numbers without waiting for the device. So the kernel asks itself all that a descriptor takes for granted
(`asked_in_kernel`), and keeps the loop as it was beside the one by descriptors: a group with an odd stride is slower, and right.
Where numbers do not fit the descriptor is made of others, since one that is wrong is an error even if nobody uses it.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

from ...ir import I32, Block, Builder, Op, Program, Value
from ...ir.flow import terminator
from ...target import Target
from ..analysis.address_forms import NoForm
from ..analysis.made_boxes import MadeBox, made_box
from ..analysis.pointer_boxes import ranges_of
from ..analysis.remarks import Remark
from ..analysis.uses import Uses, uses_of
from .asked_in_kernel import WORD, Asked, begins_word, word_of
from .box_rewrite import Rewrite
from .boxes import candidates, why_none
from .clones import cloned, cloned_ops
from .memory_order import out_of_order
from .writing.signs import argument_signs


@dataclass(frozen=True)
class Grouped:
    """The result of `grouped`; its program is the same object if it makes no descriptor."""

    program: Program
    remarks: tuple[Remark, ...] = ()


def grouped(program: Program, target: Target, padding: Any, unsigned: Collection[str] = (), beside: Collection[Op] = ()) -> Grouped:
    """The program with descriptors of its own; its parameters say which arrays begin at multiples of 16 bytes. `padding` is
    Triton's word for zeros, of which this room does not know; `unsigned` as for `boxes.lifted`. `beside` are loads that cp.async
    can copy (`gathers.py`): where there are any, only loops that have one of them and a box."""
    if why_none(program, target) is not None:
        return Grouped(program)
    uses, boxes, others = uses_of(program), {}, set()
    for op in candidates(program, "products", False):
        if not uses.loops(op):
            continue
        found = made_box(program, op)
        if isinstance(found, MadeBox) and out_of_order(program, op, found.box) is None and _can_be_asked(found):
            boxes[op] = found
        elif op not in beside:
            others.add(uses.loops(op)[-1])
    if beside:
        mixed = {uses.loops(op)[-1] for op in beside if op not in boxes and uses.loops(op)}
        boxes = {op: made for op, made in boxes.items() if made.loop in mixed}
    # A loop with loads of another kind keeps all of them; so does one of which the host can ask all, and refuses this launch.
    boxes = {op: made for op, made in boxes.items() if made.loop not in others and any(
        _is_of_the_kernel(program, one) for one in boxes.values() if one.loop is made.loop)}
    if not boxes:
        return Grouped(program)
    signs = argument_signs(program) | {param.value: False for param in program.params if param.name in unsigned}
    made = _Rewrite(program, boxes, padding, signs)
    return Grouped(replace(program, body=made.block(program.body)), tuple(_said(program, op, one) for op, one in boxes.items()))


def _is_of_the_kernel(program: Program, made: MadeBox) -> bool:
    """True if the kernel computes what a box is of, from numbers that the host does not have."""
    ranges, box = ranges_of(program), made.box
    every = (*box.shape, *box.strides, *box.offsets, made.base, *(one.poly for one in box.assumed))
    return made.loaded or any(ranges.unbounded(poly) is not None for poly in every)


def _can_be_asked(made: MadeBox) -> bool:
    """True if the kernel can ask all that the box takes for granted."""
    try:
        Asked(Builder(), made.ranges, made.loop, made.loop.site).all(made.box.assumed)
    except NoForm:
        return False
    return True


def _said(program: Program, op: Op, made: MadeBox) -> Remark:
    shown, box = ranges_of(program).shown, made.box
    place = box.base.name or f"an address of line {uses_of(program).site(box.base).line}"
    place += f" + {shown(made.base)}" if made.base else ""
    block, offsets = " x ".join(map(str, box.block)), ", ".join(map(shown, box.offsets))
    return Remark(f"the load is a block of {place}: {block} at [{offsets}], by a descriptor that is made in front of line "
                  f"{made.around.site.line}, where the numbers that the kernel computes fit; else by pointers, without a producer.",
                  op.site)


def has_a_round(uses: Uses, loop: Op) -> bool:
    """True if the branch around a `while` has asked already whether it has a round."""
    parent, block = uses.place[loop].parent, uses.place[loop].block
    if loop.name != "while" or parent is None or parent.name != "if" or block is not parent.blocks[0]:
        return False
    first = loop.blocks[0]
    entering = dict(zip(first.args, loop.inits))

    def same(value: Value, other: Value) -> bool:
        value, other = entering.get(value, value), entering.get(other, other)
        if value is other:
            return True
        one, two = uses.definition.get(value), uses.definition.get(other)
        if one is None or two is None or one.name != two.name or one.result.type != two.result.type:
            return False
        if one.name == "constant":
            return one.value == two.value
        binary = set(one.row.places) == {"lhs", "rhs"} and "pure" in one.row.effects
        return binary and all(map(same, one.operands, two.operands))
    return same(terminator(first).condition, parent.condition)


class _Rewrite:
    """The program anew."""

    def __init__(self, program: Program, boxes: dict[Op, MadeBox], padding: Any, signs: dict[Value, bool]):
        self.program, self.boxes, self.padding, self.signs = program, boxes, padding, signs
        self.uses, self.b = uses_of(program), Builder(program.site)
        self.of: dict[Op, Value] = {}           # the descriptor of each load
        self.fits: dict[Op, Value] = {}         # by the loop in front of which descriptors are made: whether they are right ..
        self.known: dict[Op, dict] = {}         # .. and the ranges of numbers of which this asks
        self.access = Rewrite(program, {op: made.box for op, made in boxes.items()}, self, {})

    def block(self, block: Block) -> Block:
        outside = self.b.open()
        for op in block.ops:
            if any(op is made.around for made in self.boxes.values()):
                self._around(op)
            else:
                self._inside(op)
        return block.with_ops(self.b.close(outside))

    def _inside(self, op: Op) -> None:
        loads = [load for load, made in self.boxes.items() if made.loop is op]
        if loads:
            self._both(op, loads)
        else:
            self.b.ops.append(op.with_blocks(self.block))

    # ---- descriptors -----------------------------------------------------------------------------------------------------

    def _around(self, op: Op) -> None:
        """A loop with the descriptors in front of it: inside of a loop or branch only if it has a round."""
        asks = self.uses.place[op].parent is not None and not self._is_own(op) and not has_a_round(self.uses, op)
        runs = self._runs(op) if asks else None
        if runs is None:
            self._made(op)
            self._inside(op)
            return
        condition, without = runs
        outside = self.b.open()
        self._made(op)
        kept = replace(op, results=tuple(Value(one.type, one.name) for one in op.results))
        self._inside(kept)
        self.b.emit("yield", (kept.results, ), op.site)
        then, outside_too = self.b.close(outside), self.b.open()
        self.b.emit("yield", (without, ), op.site)
        blocks = Block((), then), Block((), self.b.close(outside_too))
        self.b.ops.append(Op("if", (condition, tuple(one.type for one in op.results)), op.results, blocks, site=op.site))

    def _is_own(self, op: Op) -> bool:
        return any(made.loop is op for made in self.boxes.values())

    def _runs(self, op: Op) -> tuple[Value, tuple[Value, ...]] | None:
        """(whether a loop has a round, what it gives if it has none); None where that is not asked."""
        if op.name == "for":
            return self.b.emit("icmpSLT", (op.start, op.end), op.site), tuple(op.inits)
        first = op.blocks[0]
        if not all("pure" in inner.row.effects or inner is terminator(first) for inner in first.ops):
            return None
        env = dict(zip(first.args, op.inits))
        cloned_ops(self.b, first.ops[:-1], env)
        last = terminator(first)
        return env.get(last.condition, last.condition), tuple(env.get(value, value) for value in last.values)

    def _made(self, around: Op) -> None:
        """The descriptors of all loads whose numbers are known in front of a loop, each tensor's once."""
        loads = [load for load, made in self.boxes.items() if made.around is around]
        some = self.boxes[loads[0]]
        asked = Asked(self.b, some.ranges, None, around.site)
        fits = asked.all(one for load in loads for one in self._group(load))
        for address in dict.fromkeys(self.boxes[load].box.base for load in loads if self.boxes[load].loaded):
            fits = self.b.emit("and", (fits, begins_word(self.b, address, around.site)), around.site)
        self.fits[around] = fits
        self.known[around] = asked.spans
        known: dict[tuple, Value] = {}
        for load in loads:
            made = self.boxes[load]
            key = made.box.base, made.base, made.box.shape, made.box.strides, made.box.block
            if key not in known:
                known[key] = self._descriptor(load, made, asked, fits)
            self.of[load] = known[key]

    def _group(self, load: Op):
        """The conditions that are asked in front of the descriptors: those that do not differ from tile to tile."""
        made = self.boxes[load]
        return [one for one in made.box.assumed if made.ranges.forms.invariant(one.poly, made.around)]

    def _descriptor(self, load: Op, made: MadeBox, asked: Asked, fits: Value) -> Value:
        box, b, site = made.box, self.b, load.site
        base = box.base
        if made.base:
            base = b.emit("addptr", (base, self._safe(asked.sum(made.base), 0, fits)), site)
        if made.loaded:     # where it begins elsewhere, `fits` is false, and any other base will do
            base = word_of(b, base, site)
        shape = tuple(self._extent(poly, load, fits) for poly in box.shape)
        least = WORD // box.element.bytes
        strides = tuple(asked.sum(poly) if poly.constant is not None else self._safe(asked.sum(poly), least, fits)
                        for poly in box.strides)
        signed = not box.element.is_float and self.signs.get(box.base, True)
        given = base, shape, strides, tuple(box.block), signed, self.padding
        return b.emit("make_tensor_descriptor", given, site, label=f"{box.base.name}_desc")

    def _extent(self, poly, load: Op, fits: Value) -> Value:
        self.access.b = self.b
        if poly.constant is not None:
            return self.b.constant(poly.constant, I32, load.site)
        return self._safe(self.access.number(poly, load), 1, fits)

    def _safe(self, value: Value, otherwise: int, fits: Value) -> Value:
        """A number, or another one where numbers do not fit."""
        return self.b.emit("select", (fits, value, self.b.constant(otherwise, value.type, self.b.site)), self.b.site)

    # ---- the loop twice ----------------------------------------------------------------------------------------------------

    def _both(self, op: Op, loads: list[Op]) -> None:
        """The loop by descriptors where all numbers fit, else as it was."""
        arounds = dict.fromkeys(self.boxes[load].around for load in loads)
        known = {symbol: span for around in arounds for symbol, span in self.known[around].items()}
        asked = Asked(self.b, self.boxes[loads[0]].ranges, op, op.site, known)
        group = {load: self._group(load) for load in loads}
        rest = [one for load in loads for one in self.boxes[load].box.assumed if one not in group[load]]
        fits = [self.fits[around] for around in arounds]
        fits += [asked.all(rest)] if rest else []
        condition = fits[0]
        for other in fits[1:]:
            condition = self.b.emit("and", (condition, other), op.site)
        taken = [place for place, result in enumerate(op.results) if self.uses.of(result)]
        outside = self.b.open()
        self.access.b = self.b
        quick = cloned(self.b, op.with_blocks(self.access.block), {})
        self.b.emit("yield", (tuple(quick[place] for place in taken), ), op.site)
        then, outside_too = self.b.close(outside), self.b.open()
        in_order = MappingProxyType({**op.attrs, "tt.num_stages": 1})      # it leaves shared memory for the pipe
        slow = cloned(self.b, replace(op, attrs=in_order), {})
        self.b.emit("yield", (tuple(slow[place] for place in taken), ), op.site)
        blocks = Block((), then), Block((), self.b.close(outside_too))
        results = tuple(op.results[place] for place in taken)
        self.b.ops.append(Op("if", (condition, tuple(one.type for one in results)), results, blocks, site=op.site))
