"""The task that multiplies, one warp of chips with tensor memory: it starts products and computes nothing.

Input: a plain program, the loops and branches around its products, rings, sums and handovers. Output: the ops of the task. For
example, of a loop whose sum stays where it is:

    acc = dot(x, y, acc)    wait full[slot]; tcgen05_mma x[slot], y[slot], acc[0], k > 0, which commits to free[slot]
    behind the loop         commit done[0]

Products of a task run in the order in which they are issued, and a commit covers all before it. So a slot, an operand or a sum is
handed on by one commit behind the last product that reads or makes it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any

from ...ir import Op, Program, Value
from ...ir.flow import induction
from ..analysis.slices import Slice
from .handovers import Handover
from .phases import Phases, Slots
from .rebuild import Rebuild
from .rings import Ring, Rings
from .tensor_products import operand_of, within
from .tensor_sums import Sum


@dataclass(frozen=True)
class Products:
    """All that the multiplying task and those that compute have in common: `parts` tasks that share out rows, along `axes`."""

    sums: Collection[Sum]
    handed: Collection[Handover]
    slots: Mapping[Ring, Slots]
    axes: Mapping[Value, int]
    parts: int
    notes: dict[Op, str]


class Multiplier(Rebuild):
    """Writes the task of the products."""

    def __init__(self, program: Program, needs: Slice, rings: Rings, env: Mapping[Value, Value], products: Products):
        direct = Rings([ring for ring in rings.rings if ring.root in products.slots], rings.products)
        super().__init__(program, needs, direct, env)
        self.products, self.phases = products, Phases(self.writer, products.notes)
        self.sum_of = {op: sum_ for sum_ in products.sums for op in sum_.products}
        self.tile_of = {(tile.product, tile.side): tile for group in products.handed for tile in group.tiles}
        self.free: dict[Ring, Value] = {}                       # the barrier of the slot that a ring holds
        self.views: dict[tuple[object, int], Value] = {}        # the buffer of a sum or a tile, of each part
        self.ends: dict[Op, list[Ring]] = {}
        for ring in direct.rings:
            if not ring.once:
                self.ends.setdefault(within(self.uses, ring.last, self.uses.place[ring.loads[0]].block), []).append(ring)
        self.counting = [(one.root, one.head) for one in products.sums] + [(one.root, one.place) for one in products.handed]

    def numbered(self) -> list[Any]:
        return [*super().numbered(), *dict.fromkeys(one for one, _ in self.counting)]

    def inside(self, op: Op) -> list[Any]:
        inner = set(op.walk()) - {op}
        return [*super().inside(op), *dict.fromkeys(one for one, at in self.counting if at in inner)]

    # ---- slots -------------------------------------------------------------------------------------------------------------

    def place(self, ring: Ring) -> Op:
        return ring.loads[0]

    def chunk(self, ring: Ring) -> None:
        """Wait for the slot. It is given back behind the last product that reads it, by the barrier that is noted here."""
        slots, number, depth, site = self.products.slots[ring.root], self.counters[ring.root], ring.root.stages, ring.loads[0].site
        lines = sorted({load.site.line for load in ring.loads})
        self.phases.wait(slots.full, number, depth, site, f"until what {_lines(lines, 'load')} is here")
        for load, field in zip(ring.loads, slots.fields):
            self.env[load.result] = self.phases.of(field, number, depth, load.site)
        if slots.free is not None:
            self.free[ring] = self.phases.barrier(slots.free, number, depth, site)
            self.next_chunk(ring, site)

    # ---- sums and operands -----------------------------------------------------------------------------------------------------

    def before(self, op: Op | None) -> None:
        """In front of a loop: what stays the same, or where it is, for all its trips."""
        if op is not None and op.row.hands_on:
            for me in range(self.products.parts):
                self._begin(op, me)

    def _with_regions(self, op: Op) -> None:
        super()._with_regions(op)
        for me in range(self.products.parts):
            for barrier, note in self._finished(op, me):
                self.phases.emit("tcgen05_commit", (barrier, ), op.site, note)
        self._go_on(op)

    def _begin(self, op: Op, me: int) -> None:
        """Wait for what a task hands over at an op, and for the sums that begin there."""
        phases, site = self.phases, op.site
        for group in self.products.handed:
            if group.place is op:
                number, depth = self.counters[group.root], group.depth
                phases.wait(group.root.ready[me], number, depth, site, "until its operands are there, or what its sum begins with")
                for tile in group.operands:
                    self.views[tile, me] = phases.of(group.buffers(tile, me), number, depth, site)
        for sum_ in self.products.sums:
            if sum_.head is op:
                root = sum_.root
                number, depth = self.counters[root], root.depth
                if sum_.is_given_back:
                    phases.wait(root.taken[me], number, depth, site, "until the sum that was here is read", before=True)
                self.views[sum_, me] = phases.of(root.buffers[me], number, depth, site, f"{sum_.label}_sum")

    def _finished(self, op: Op, me: int) -> list[tuple[Value, str]]:
        """The barriers of what an op is the last one to read or to make, with what waits there."""
        phases, site, found = self.phases, op.site, []
        for group in self.products.handed:
            if group.place is op and group.is_given_back:
                found.append((phases.barrier(group.root.used[me], self.counters[group.root], group.depth, site),
                              "operands are read: the next ones may be stored"))
        if me == self.products.parts - 1:
            found += [(self.free[ring], f"{_lines(sorted({load.site.line for load in ring.loads}), 'may load')} there again")
                      for ring in self.ends.get(op, ())]
        for sum_ in self.products.sums:
            if sum_.end is op:
                root = sum_.root
                found.append((phases.barrier(root.done[me], self.counters[root], root.depth, site), "the sum is there"))
        return found

    def _go_on(self, op: Op) -> None:
        """The counters of what ends with an op."""
        for one in (*(group.root for group in self.products.handed if group.place is op),
                    *(sum_.root for sum_ in self.products.sums if sum_.end is op)):
            self.counters[one] = self.writer.by_constant("add", self.counters[one], 1, op.site)

    # ---- products --------------------------------------------------------------------------------------------------------------

    def own(self, op: Op) -> bool:
        if op not in self.sum_of:
            return False
        adds = self._adds(op)
        for me in range(self.products.parts):
            self._begin(op, me)
            args = self._operand(op, "a", me), self._operand(op, "b", me), self.views[self.sum_of[op], me], adds
            commits = self._finished(op, me)
            self.phases.emit("tcgen05_mma", args, op.site, "; ".join(note for _, note in commits))
            for barrier, _ in commits:
                self.writer.emit("tcgen05_commit", (barrier, ), op.site, of_dot=True)
        self._go_on(op)
        return True

    def _adds(self, op: Op) -> Value | bool:
        """The `use_acc` of a product: the first one of a sum from zeros adds to nothing."""
        sum_ = self.sum_of[op]
        if not sum_.from_zero or op is not sum_.products[0]:
            return True
        if sum_.loop is None:
            return False
        return self.writer.emit("icmpSGT", (self.now(induction(sum_.loop)), self.now(sum_.loop.start)), op.site)

    def _operand(self, op: Op, side: str, me: int) -> Value:
        """A part of a slot as it lies or turned, or a tile that was handed over."""
        tile = self.tile_of.get((op, side))
        if tile is not None:
            return self.views[tile, me]
        value = getattr(op, side)
        load, turned = operand_of(self.uses, value)
        view, axis = self.env[load.result], self.products.axes.get(load.result)
        more = len(view.type.shape) - 2
        if more > 0:        # axes of one element in front
            flat = replace(view.type, shape=view.type.shape[more:])
            view, axis = self.writer.emit("buffer_reinterpret", (view, flat), op.site, layout=None), axis and axis - more
        if axis is not None and self.products.parts > 1:
            shape = list(view.type.shape)
            shape[axis] //= self.products.parts
            offsets = tuple(me * shape[axis] if at == axis else 0 for at in range(len(shape)))
            view = self.writer.emit("buffer_slice", (view, offsets, tuple(shape)), op.site)
        return self.writer.emit("buffer_trans", (view, (1, 0)), op.site) if turned else view


def _lines(numbers: list[int], verb: str) -> str:
    """`line 12 loads`, `lines 12 and 13 load`."""
    *most, last = map(str, numbers)
    if most:
        return f"lines {', '.join(most)} and {last} {verb}"
    return f"line {last} {verb}" + ("s" if verb == "load" else "")
