"""Consumers that have tiles of their own: of the tiles that a program takes in turn, each has every `count`-th one, whole.

Input: as of `consumer.py`, and the loop over tiles, of `persist.py` or the author's. Output: the ops of the task. For example, of
the second of two:

    for tile in range(first, tiles, programs): for k in range(0, K, BK): ..         becomes

    [count the chunks of tile `first`]
    for tile in range(first + programs, tiles, 2 * programs):
        [begin the turn]  for k in range(0, K, BK): ..  [pass it on]  the rest of the tile
        [count the chunks of tile + programs, which the other one has]

While one consumer does what is behind the products of its tile, its stores among it, the other one multiplies. Chunks come in the
order of tiles through one pipe, each for one consumer, so a consumer counts those of the others, too. It waits for chunks in its
turn alone: then all chunks of the tile before have come, so that the phase of a barrier tells a chunk from the one a round before.
"""

from __future__ import annotations

from typing import Any

from ...ir import Op, Program, Value
from ..analysis.remarks import Remark
from ..analysis.slices import Slice
from .consumer import Consumer
from .rebuild import Rebuild
from .rings import Ring, Rings
from .turns import Turns


def counting(program: Program, rings: Rings) -> Slice | Remark:
    """The ops that decide how many chunks a tile has, or a reason for which a consumer cannot count those of another one's tile."""
    if any(ring.once for ring in rings.rings):
        return Remark("consumers have no tiles of their own: they share what is loaded once, in front of all tiles", program.site)
    found = Slice(program, cut=rings.loads)
    for load in rings.loads:
        found.add(load)
    for op in found.ops - rings.loads:
        if op.name == "while":
            return Remark("consumers have no tiles of their own: a `while` decides how many chunks a tile has", op.site)
        if not op.row.hands_on and "pure" not in op.row.effects and op.name != "make_tensor_descriptor":
            return Remark(f"consumers have no tiles of their own: how many chunks a tile has follows from `{op.row.word}`", op.site)
    return found


def turns_at_tiles(tiles: Op, rings: Rings) -> Turns:
    """A turn for each tile: from its first chunk to its last one."""
    chunk = {load: ring.loads[0] for ring in rings.rings for load in ring.loads}     # at which the chunk of both is waited for
    found = [chunk.get(op, op) for op in tiles.blocks[0].ops if not rings.loads.isdisjoint(op.walk())]
    return Turns(frozenset(found[:1]), frozenset(found[-1:]))


class ConsumerInTurn(Consumer):
    """Writes the task of one consumer that has whole tiles of its own; `counted` is what `counting` found."""

    def __init__(self, program: Program, tiles: Op, counted: Slice, *given: Any):
        super().__init__(program, *given)
        self.plain, self.tiles, self.counted = program, tiles, counted

    def bounds(self, loop: Op) -> tuple[Value, ...]:
        start, end, step = super().bounds(loop)
        if loop is not self.tiles:
            return start, end, step
        for _ in range(self.share.me):
            self._skip(start)
            start = self.writer.emit("add", (start, step), loop.site)
        return start, end, self.writer.by_constant("mul", step, self.share.count, loop.site)

    def last(self, loop: Op) -> None:
        if loop is self.tiles:
            tile, step = self.env[loop.blocks[0].args[0]], self.now(loop.step)
            for _ in range(1, self.share.count):
                tile = self.writer.emit("add", (tile, step), loop.site)
                self._skip(tile)

    def _skip(self, tile: Value) -> None:
        """Count the chunks of a tile that another consumer has."""
        other = _Skipped(self.plain, self.counted, self.rings, self.env)
        other.counters = dict(self.counters)
        self.writer.ops += other.of(self.tiles, tile)
        self.counters.update(other.counters)


class _Skipped(Rebuild):
    """Counts chunks, and does nothing else."""

    def of(self, tiles: Op, tile: Value) -> tuple[Op, ...]:
        """The ops that count a tile's chunks."""
        outside = self.writer.open()
        self.env[tiles.blocks[0].args[0]] = tile
        self._ops(tiles.blocks[0])
        return self.writer.close(outside)

    def chunk(self, ring: Ring) -> None:
        self.next_chunk(ring, ring.loads[-1].site)
