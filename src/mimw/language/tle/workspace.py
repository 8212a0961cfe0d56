"""A tile that all GPUs of a world reach for a while: each program's part of the workspace that lies in every symmetric heap.

Input: a tile of a kernel, and the places of a bound mesh. Output: ops that put the tile there, and pointers to what other programs
have put there. For example:

    workspace = Workspace(tile, places, semantic)
    workspace.put(tile)                           %p, %s = world_scratch %world bytes; store %p + program * %s + ..
    workspace.pointer(coordinates, positions, False)      peer_pointer %p ..; add_ptr

Between the two all have to meet, and again before anybody puts something else there. Where the workspace is, tables of ranks say
(docs/DISTRIBUTED.md); how much each program has is the most that the kernel asks for anywhere.
"""

from __future__ import annotations

from math import prod

import triton.language.core as tl

from ...ir.workspace import ALIGNED
from ..tlx.world import peer_pointer
from .places import Places


class Workspace:
    """A place for one tile of `tile`'s shape and dtype in each program."""

    def __init__(self, tile: tl.tensor, places: Places, semantic):
        self.places, self.semantic, self.world = places, semantic, places.bound.world
        self.shape = tuple(tile.type.shape) if tile.type.is_block() else ()
        self.kept = tl.int8 if tile.dtype == tl.int1 else tile.dtype
        size = self.kept.primitive_bitwidth // 8
        start, stride = semantic.builder.record("world_scratch", self.world.handle, prod(self.shape) * size).results
        start = tl.tensor(start, tl.pointer_type(tl.int8))
        self.start = semantic.bitcast(start, tl.pointer_type(self.kept))
        self.step = semantic.floordiv(tl.tensor(stride, tl.int32), semantic.to_tensor(size))      # elements

    def put(self, tile: tl.tensor) -> None:
        """Store the tile, row-major, in this program's part."""
        semantic = self.semantic
        place = semantic.add(self.start, self._part(_program(semantic)), False)
        if self.shape:
            place = semantic.add(place, row_major(self.shape, semantic), False)
        tl.store(place, semantic.cast(tile, self.kept), _semantic=semantic)

    def pointer(self, coordinates: dict, positions, inside: bool):
        """Pointers to the elements at `positions`, row-major numbers or None for the only one, of the tile of the program at those
        coordinates of the mesh; `inside` says whether that may be another CTA than this program's like."""
        semantic, program = self.semantic, _program(self.semantic)
        if inside:
            mine, there = self.places.cta(self.places.own), self.places.cta(coordinates)
            program = semantic.add(semantic.sub(program, mine, False), semantic.to_tensor(there), False)
        place = semantic.add(self._at(self.places.gpu(coordinates)), self._part(program), False)
        return place if positions is None else semantic.add(place, positions, False)

    def _part(self, program: tl.tensor) -> tl.tensor:
        return self.semantic.mul(program, self.step, False)

    def _at(self, gpu) -> tl.tensor:
        """Where the workspace of a GPU begins. Of a tile of ranks it is picked from those that there are, not loaded: so Triton
        sees which neighbours have one GPU, and makes one access of them."""
        def start_of(rank):
            return peer_pointer(self.start, rank, self.world, _semantic=self.semantic)

        if isinstance(gpu, int) or not gpu.type.is_block():
            return start_of(gpu)
        first, *rest = sorted(set(self.places.gpus))
        found = start_of(first)
        for rank in rest:
            found = self.semantic.where(self.semantic.equal(gpu, self.semantic.to_tensor(rank)), start_of(rank), found)
        # What Triton makes of a choice between pointers is one of no alignment.
        return self.semantic.multiple_of(found, [tl.constexpr(ALIGNED)] * len(found.type.shape))


def row_major(shape: tuple[int, ...], semantic) -> tl.tensor:
    """The row-major number of each element of a tile."""
    number = None
    for axis, extent in enumerate(shape):
        at = tl.arange(0, extent, _semantic=semantic)
        for other in range(len(shape)):
            at = at if other == axis else semantic.expand_dims(at, other)
        at = semantic.mul(at, semantic.to_tensor(prod(shape[axis + 1:])), False)
        number = at if number is None else semantic.add(number, at, False)
    return number


def _program(semantic) -> tl.tensor:
    """This program's number in its launch: x first."""
    x, y, z = (tl.program_id(axis, _semantic=semantic) for axis in range(3))
    nx, ny = (tl.num_programs(axis, _semantic=semantic) for axis in range(2))
    row = semantic.add(semantic.mul(z, ny, False), y, False)
    return semantic.add(semantic.mul(row, nx, False), x, False)
