"""The task that computes, on chips with tensor memory: it hands over operands, and reads sums that the tensor core has made.

Input: as of `consumer.py`, and the products' sums and handovers. Output: the ops of the task. For example:

    s = dot(q, k);  o = dot(p, v, o * fade)
        wait s_done; s = load of tensor memory; arrive s_taken;  ..  store p, o * fade; arrive ready;  wait o_done; o = load

A sum is read where its result is first used, at the latest at the end of the block or in front of a loop that runs here. What
another one of this task's sums begins with is stored behind that.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...ir import Block, Op, Program, Value
from ...ir.flow import bounds
from ..analysis.slices import Slice
from .consumer import Consumer, Share
from .handovers import Handover
from .multiplier import Products
from .phases import Phases
from .rings import Rings
from .tensor_sums import Sum, may_be_empty


class Epilogue(Consumer):
    """Writes the task of all that is no load of a ring and no product."""

    def __init__(self, program: Program, needs: Slice, rings: Rings, env: Mapping[Value, Value], share: Share, products: Products,
                 staged: Mapping[Op, Value] | None = None):
        own = Rings([ring for ring in rings.rings if ring.root not in products.slots], set())
        super().__init__(program, needs, own, env, share, (), staged)
        self.products, self.phases = products, Phases(self.writer, products.notes)
        self.running = frozenset(needs.ops)         # ops of this task itself; others are only places
        self.multiplied = frozenset(op for sum_ in products.sums for op in sum_.products)
        self.visited = self.running | self.multiplied | {sum_.head for sum_ in products.sums} | \
            {group.place for group in products.handed}
        self.unread: dict[Value, tuple[Sum, Value]] = {}    # results of sums, and the turn in which each is made
        self.counting = [(one.root, one.head) for one in products.sums] + [(one.root, one.place) for one in products.handed]

    def takes(self, op: Op) -> bool:
        return op in self.visited

    def numbered(self) -> list[Any]:
        return [*super().numbered(), *dict.fromkeys(one for one, _ in self.counting)]

    def inside(self, op: Op) -> list[Any]:
        inner = set(op.walk()) - {op}
        return [*super().inside(op), *dict.fromkeys(one for one, at in self.counting if at in inner)]

    # ---- sums --------------------------------------------------------------------------------------------------------------

    def before(self, op: Op | None) -> None:
        every = op is None or bool(op.row.hands_on) and op in self.running
        again = {sum_.root for sum_ in self.products.sums if sum_.head is op}       # whose place is wanted for the next sum
        for value, (sum_, _) in list(self.unread.items()):
            if every or sum_.root in again or value in op.operands and self._reads(op, value):
                self._read(value)
        super().before(op)
        for group in self.products.handed:
            if group.place is op:
                self._hand_over(group)

    def _reads(self, op: Op, value: Value) -> bool:
        """True if an op takes a sum in this task: what runs in another one alone does not."""
        return op in self.running or any(tile.value is value for group in self.products.handed if group.place is op
                                         for tile in group.tiles)

    def _read(self, value: Value) -> None:
        """Wait for a sum, load it, and give its place back."""
        (sum_, number), phases, me = self.unread.pop(value), self.phases, self.share.me
        root, depth, site = sum_.root, sum_.root.depth, sum_.end.site
        phases.wait(root.done[me], number, depth, site, f"until the products of line {sum_.products[-1].site.line} are added up")
        view = phases.of(root.buffers[me], number, depth, site)
        self.env[value] = self._loaded_if_any(sum_, view) if may_be_empty(self.uses, sum_) else self._loaded(sum_, view)
        if sum_.is_given_back:
            phases.arrive(root.taken[me], number, depth, site, "read: the next sum may be made here")

    def _loaded(self, sum_: Sum, view: Value) -> Value:
        return self.writer.emit("tmem_load", (view, ), sum_.end.site, label=sum_.label, layout=None)

    def _loaded_if_any(self, sum_: Sum, view: Value) -> Value:
        """The sum of a loop; without a trip, what the loop begins with."""
        start, end, _ = self.now(bounds(sum_.loop))
        writer, site = self.writer, sum_.loop.site
        some = writer.emit("icmpSLT", (start, end), site)
        blocks = []
        for make in (lambda: self._loaded(sum_, view), lambda: self.now(sum_.first)):
            outside = writer.open()
            writer.emit("yield", ((make(), ), ), site)
            blocks.append(Block((), writer.close(outside)))
        result = Value(self.type(sum_.result), sum_.label)
        writer.ops.append(Op("if", (some, (result.type, )), (result, ), tuple(blocks), site=site))
        return result

    def own(self, op: Op) -> bool:
        if op in self.multiplied:
            self._made(op)
            return True
        return super().own(op)

    def _with_regions(self, op: Op) -> None:
        if op in self.running:
            super()._with_regions(op)
        self._made(op)

    def _made(self, op: Op) -> None:
        """Sums that are complete behind an op are to be read."""
        for sum_ in self.products.sums:
            if sum_.end is op:
                if sum_.result in self.needs.taken:
                    self.unread[sum_.result] = sum_, self.counters[sum_.root]
                self.counters[sum_.root] = self.writer.by_constant("add", self.counters[sum_.root], 1, op.site)

    # ---- operands ----------------------------------------------------------------------------------------------------------

    def _hand_over(self, group: Handover) -> None:
        """Store tiles where the tensor core takes them, when it has read those before."""
        root, me, site, phases = group.root, self.share.me, group.place.site, self.phases
        number, depth = self.counters[root], group.depth
        if group.is_given_back:
            phases.wait(root.used[me], number, depth, site, "until the operands that were here are read", before=True)
        for tile in group.tiles:
            sum_ = next(one.root for one in self.products.sums if tile.product in one.products)
            at = (sum_.buffers[me], self.counters[sum_], sum_.depth) if tile.side == "acc" else \
                (group.buffers(tile, me), number, depth)
            name = "tmem_store" if tile.space == "tmem" else "local_store"
            phases.emit(name, (phases.of(*at, site), self.now(tile.value)), site)
        if any(tile.space == "smem" for tile in group.tiles):
            phases.emit("fence", ("async_shared", ), site)
        phases.arrive(root.ready[me], number, depth, site, f"line {group.tiles[-1].product.site.line} may multiply")
        self.counters[root] = self.writer.by_constant("add", number, 1, site)
