"""The task that computes: it waits for chunks, has the tensor core multiply them where they lie, and gives slots back.

Input: a plain program, the slice of all but its loads, the rings, and which rows of each tile are this task's. Output: the ops
of the task. For example, of one product a trip that only adds to what goes round:

    acc = dot(x, y, acc)        wait chunk; acc = async_dot(slot.x, slot.y, acc); async_dot_wait 1; release chunk - 1; chunk += 1

Products are issued in order, and waited for where their result is first used, with as many under way as were issued later. A
slot is given back behind the wait for the last product that reads it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from ...ir import I1, Block, Buffer, Descriptor, Op, Program, Tensor, Value
from ..analysis.shared_rows import shared
from ..analysis.slices import Slice
from ..passes.accumulate_dots import is_zero
from .box_rewrite import CACHED
from .rebuild import Rebuild
from .rings import Ring, Rings
from .tiles_read import flattens
from .turns import Turn, Turns


@dataclass(frozen=True)
class Share:
    """The rows of tiles that a consumer has: the axis of each tile that is shared out, in so many `parts`, and the number of the
    task among `count`, each of so many warps."""

    axes: Mapping[Value, int]
    me: int = 0
    parts: int = 1
    count: int = 1
    warps: int = 4


class Consumer(Rebuild):
    """Writes the task of all that is no load of a ring. `late` are products that run behind by a trip; `staged` the buffers of
    stores that run on; `turns` where it takes turns with the other consumers; `smaller` the
    types of descriptors whose blocks are this task's rows alone."""

    def __init__(self, program: Program, needs: Slice, rings: Rings, env: Mapping[Value, Value], share: Share,
                 late: Collection[Op] = (), staged: Mapping[Op, Value] | None = None, turns: Turns = Turns(),
                 smaller: Mapping[Value, Descriptor] | None = None, settled: Collection[Op] = ()):
        super().__init__(program, needs, rings, env)
        self.share, self.late, self.staged, self.turns, self.settled = share, late, staged or {}, turns, settled
        self.smaller = smaller or {}
        self.turn = Turn(self.writer, share.me, share.count, share.warps)
        self.reader = {"reader": f"compute{share.me}"} if share.count > 1 else {}
        self.trailing = rings.trailing
        self.flat = {load for ring in rings.rings if ring.direct for load in ring.loads}    # loads that products read as matrices
        self.given_back: dict[Op, list[Ring]] = {}
        self.held: dict[Ring, Value] = {}       # the chunk that is held for loops inside
        self.given_behind: dict[Op | Block, list[Ring]] = {}
        for ring in rings.rings:
            if ring.ends is not None:
                for end in (*ring.ends.behind, *ring.ends.beginning):
                    self.given_behind.setdefault(end, []).append(ring)
            elif ring.direct and not ring.trails and not ring.once:
                self.given_back.setdefault(ring.last, []).append(ring)
        self.pending: list[tuple[Op, list[tuple[Ring, Value]]]] = []    # products under way, and what each gives back
        self.added_to: set[Op] = set()          # products to which a later one adds: nothing else takes their result

    def type(self, value: Value):
        return shared(value.type, self.share.axes.get(value), self.share.parts)

    # ---- chunks ------------------------------------------------------------------------------------------------------------

    def place(self, ring: Ring) -> Op:
        """The first load: a tile may be turned or multiplied in front of the next one's."""
        return ring.loads[0]

    def chunk(self, ring: Ring) -> None:
        site, views = ring.loads[-1].site, self.views(ring)
        self.word("pipe_wait", (ring.root.pipe, self.counters[ring.root]), (*views, Value(I1)), site, **self.reader)
        for load, view in zip(ring.loads, views):
            view = self._rows_of(view, load)
            self.env[load.result] = view if ring.direct else self.writer.emit("local_load", (view, None), load.site,
                                                                            label=load.result.name, layout=None)
        if ring.ends is not None:
            self.held[ring] = self.counters[ring.root]
            self.next_chunk(ring, site)
        elif not ring.direct and not ring.once:
            self._release(ring, self.counters[ring.root], None, site)
            self.next_chunk(ring, site)

    def _rows_of(self, view: Value, load: Op) -> Value:
        """This task's rows of a slot; of one that is read where it lies without axes of one element in front."""
        axis, more = self.share.axes.get(load.result), len(view.type.shape) - 2
        if load in self.flat and more > 0:
            flat = replace(view.type, shape=view.type.shape[more:])
            view = self.writer.emit("buffer_reinterpret", (view, flat), load.site, label=load.result.name, layout=None)
            axis = axis if axis is None else axis - more
        if axis is None:
            return view
        shape = list(view.type.shape)
        shape[axis] //= self.share.parts
        offsets = tuple(self.share.me * shape[axis] if at == axis else 0 for at in range(len(shape)))
        return self.writer.emit("buffer_slice", (view, offsets, tuple(shape)), load.site, label=load.result.name)

    def _release(self, ring: Ring, number: Value, predicate: Value | None, site) -> None:
        self.word("pipe_release", (ring.root.pipe, number, predicate), (), site, **self.reader)

    def _release_before(self, ring: Ring, site) -> None:
        """The chunk before this one, if this loop had one, has been read."""
        number = self.counters[ring.root]
        some = self.writer.emit("icmpSGT", (number, self.entered[ring.root]), site)
        self._release(ring, self.writer.by_constant("sub", number, 1, site), some, site)

    # ---- products ----------------------------------------------------------------------------------------------------------

    def own(self, op: Op) -> bool:
        if op in self.rings.products:
            if op in self.trailing:
                self._trailing_product(op)
            else:
                self._product(op)
            return True
        if op in self.staged:
            self._store(op)
            return True
        if op.name == "make_tensor_descriptor":
            self._descriptor(op)
            return True
        if op.name == "trans" and isinstance(self.now(op.value).type, Buffer):
            turned = self.writer.emit("buffer_trans", (self.now(op.value), tuple(op.order)), op.site, label=op.result.name)
            self.env[op.result] = turned
            return True
        if flattens(op) and isinstance(self.now(op.value).type, Buffer):
            self.env[op.result] = self.now(op.value)
            return True
        return self.share.parts > 1 and self._shared_out(op)

    def _issue(self, op: Op) -> Value:
        acc = None if is_zero(op.acc, self.uses.definition) else self.now(op.acc)
        return self.writer.emit("async_dot", (self.now(op.a), self.now(op.b), acc, op.precision, op.max_imprecise), op.site,
                                label=op.result.name, type=self.type(op.result))

    def _wait(self, op: Op, pending: int, value: Value) -> Value:
        return self.writer.emit("async_dot_wait", (pending, value), op.site, label=op.result.name)

    def _product(self, op: Op) -> None:
        """Issued; waited for later (`before`)."""
        self.added_to.update(dot for dot, _ in self.pending if dot.result is op.acc)
        self.env[op.result] = self._issue(op)
        gives = [(ring, self.counters[ring.root]) for ring in self.given_back.get(op, ())]
        for ring, _ in gives:
            self.next_chunk(ring, op.site)
        held = [(ring, self.held[ring]) for ring in self.given_behind.get(op, ())]
        self.pending.append((op, [*gives, *held]))

    def _trailing_product(self, op: Op) -> None:
        """Issued; the product before it, which may be the last one of the trip before, is waited for, and gives back its slots."""
        mates = self._mates(self.uses.place[op].parent)
        at = mates.index(op)
        self.env[op.result] = self._wait(op, 1, self._issue(op))
        for ring in self.trailing[mates[at - 1]]:
            if at:
                self._release(ring, self.writer.by_constant("sub", self.counters[ring.root], 1, op.site), None, op.site)
            else:
                self._release_before(ring, op.site)
        for ring in self.trailing[op]:
            self.next_chunk(ring, op.site)

    def _mates(self, loop: Op) -> list[Op]:
        """The products of a loop that run on, in their order."""
        return sorted((op for op in self.trailing if self.uses.place[op].parent is loop), key=self.uses.position.get)

    def behind(self, loop: Op, results: dict[Value, Value]) -> None:
        """The last products of a loop whose products run on."""
        if loop in self.turns.ends:
            self.turn.end(loop.site)
        ended = self._mates(loop)
        for op in ended:
            if op.result in results:
                result = results[op.result]
                self.env[result] = self._wait(op, 0, self.env[result])
        for op in ended[-1:]:
            for ring in self.trailing[op]:
                self._release_before(ring, op.site)

    def enter(self, place: Op | Block) -> None:
        """The turn begins. Slots that are held, and that nothing reads in a branch, are given back where it begins."""
        if place in self.turns.begins:
            self.turn.begin(place.site)
        if isinstance(place, Block):
            self._give_back(place)

    def leave(self, op: Op) -> None:
        """Slots that are held till here are given back: all products of a loop or a branch are over at its end. The turn is passed
        on, behind a loop in front of the wait for a product that runs on (`behind`)."""
        if op not in self.rings.products:
            self._give_back(op)
        if op in self.settled and self.pending:     # beside the products under way, of which it is none
            for result in op.results:
                self.env[result] = self._wait(op, len(self.pending), self.env[result])
        if op in self.turns.ends and op.name != "for":
            self.turn.end(op.site)

    def _give_back(self, place: Op | Block) -> None:
        for ring in self.given_behind.get(place, ()):
            self._release(ring, self.held[ring], None, ring.last.site)

    def before(self, op: Op | None) -> None:
        """Waits for the products whose results an op takes; for all before a loop or a branch, and at the end of a block."""
        every = op is None or bool(op.blocks) and bool(op.row.hands_on)
        last = max((at for at, (dot, _) in enumerate(self.pending) if every or self._takes(op, dot)), default=-1)
        if last < 0:
            return
        done, self.pending = self.pending[:last + 1], self.pending[last + 1:]
        for dot, gives in done:
            if dot in self.late:
                self._anchor(dot, gives)
        for dot, _ in done:
            if dot not in self.added_to:
                self.env[dot.result] = self._wait(dot, len(self.pending), self.env[dot.result])
        for dot, gives in done:
            for ring, number in gives:
                self._release(ring, number, None, dot.site)

    def _takes(self, op: Op, dot: Op) -> bool:
        """True if an op takes the result of a product under way. A product that adds to it, and is its only use, may follow it."""
        if dot.result not in op.operands:
            return False
        adds = op in self.rings.products and op not in self.trailing and op.acc is dot.result
        return not (adds and dot.result not in (op.a, op.b) and len(self.uses.of(dot.result)) == 1)

    def _anchor(self, dot: Op, gives: list[tuple[Ring, Value]]) -> None:
        """The wait for the next chunk in front of the wait for a late product: a loop, over which ptxas moves nothing. Without
        it the wait for the product stood in front of the exponents beside which the product was to run."""
        for ring, number in gives[:1]:
            if ring.root.stages > 1 and self._goes_on(dot, ring):
                following = self.writer.by_constant("add", number, 1, dot.site)
                views = tuple(Value(slot) for slot in ring.root.pipe.type.slots)
                self.word("pipe_wait", (ring.root.pipe, following), (*views, Value(I1)), dot.site, **self.reader)

    def _goes_on(self, dot: Op, ring: Ring) -> bool:
        """True if another chunk follows each one of a late product: behind the loop the last product has one of the same pipe.
        And if the producer gets there a trip ahead: no pipe has more chunks in a trip, as one that a loop inside fills may have."""
        place = self.uses.place[dot]
        behind = any(one.root is ring.root and self.uses.place[one.loads[0]].block is self.uses.place[place.parent].block
                     and self.uses.position[one.loads[0]] > self.uses.position[place.parent] for one in self.rings.rings)
        return behind and all(self.uses.loops(load)[-1:] == (place.parent, ) for load in self.rings.loads if place.parent in
                              self.uses.loops(load))

    # ---- stores --------------------------------------------------------------------------------------------------------------

    def _offsets(self, op: Op, tile: Value) -> tuple[Value, ...]:
        """The place of this task's rows of a tile."""
        offsets, axis = list(self.now(tuple(op.offsets))), self.share.axes.get(tile)
        if axis is not None and self.share.me:
            first = self.share.me * tile.type.shape[axis] // self.share.parts
            offsets[axis] = self.writer.by_constant("add", offsets[axis], first, op.site)
        return tuple(offsets)

    def _store(self, op: Op) -> None:
        """A store that runs on: its buffer is free when the store before it has read it."""
        buffer, emit = self.staged[op], self.writer.emit
        emit("tma_store_wait", (0, ), op.site)
        emit("local_store", (buffer, self.now(op.value)), op.site)
        emit("fence", ("async_shared", ), op.site)
        emit("tma_store", (self.now(op.descriptor), self._offsets(op, op.value), buffer, CACHED, ""), op.site)

    def _descriptor(self, op: Op) -> None:
        """One that is made inside of a loop, for this task's rows. A store that runs on may still read the one before."""
        if self.staged:
            self.writer.emit("tma_store_wait", (0, ), op.site)
        type_ = self.smaller.get(op.result, op.result.type)
        base, shape, strides = (self.now(one) for one in (op.base, tuple(op.shape), tuple(op.strides)))
        given = base, shape, strides, tuple(type_.shape), op.signed, op.padding
        self.env[op.result] = self.writer.emit("make_tensor_descriptor", given, op.site, label=op.result.name, **op.attrs)

    def begin(self) -> None:
        if self.turns.begins:
            self.turn.open(self.writer.site)

    def end(self) -> None:
        if self.staged:
            self.writer.emit("tma_store_wait", (0, ))

    # ---- shares of rows ------------------------------------------------------------------------------------------------------

    def _shared_out(self, op: Op) -> bool:
        """Ops that say a shape or a place of their own, for this task's rows."""
        if op.name == "descriptor_store":
            if self.share.axes.get(op.value) is None:
                return False
            given = self.now(op.descriptor), self.now(op.value), self._offsets(op, op.value)
            self.writer.emit("descriptor_store", given, op.site)
            return True
        if op.name == "descriptor_load" and self.share.axes.get(op.result) is not None:
            made = self.fresh(op.results)
            self.writer.ops.append(Op(op.name, (self.now(op.descriptor), self._offsets(op, op.result), op.cache_policy), made,
                                      attrs=op.attrs, site=op.site))
            return True
        if not op.results or (axis := self.share.axes.get(op.results[0])) is None:
            return False
        type_ = self.type(op.results[0])
        if op.name == "make_range":
            plain = self.writer.emit("make_range", (type_, 0, type_.shape[0]), op.site)
            first = op.start + self.share.me * type_.shape[axis]
            self.env[op.result] = self.writer.by_constant("add", plain, first, op.site) if first else plain
            return True
        whole = op.results[0].type.shape
        args = tuple(replace(arg, shape=type_.shape) if isinstance(arg, Tensor) and arg.shape == whole else
                     type_.shape if arg == whole else arg for arg in op.args)
        if args == op.args:
            return False
        self.writer.ops.append(Op(op.name, self.now(args), self.fresh(op.results), (), op.attrs, op.site))
        return True
