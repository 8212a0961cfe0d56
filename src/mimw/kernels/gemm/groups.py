"""Groups of rows, one behind the other, whose sizes only the device knows: their tiles, and a place for the rows of one that ends
where the group does.

Input: the row behind the last one of each group. Output: the roles of a GEMM over such groups. For example:

    groups = Groups(ends, count, N, tiles)
    load_groups(inputs.writer(), groups, operands, K)               in the producer
    compute_groups(inputs.reader(consumer(me)), groups, out, part, K)       in consumer `me`

Each role walks through the groups to find its tiles: `chunk = role.one(chunk, tile, group)` for one after the other.

A tile's last rows may be those of the next group. Loading them does no harm; storing would. So C is described as a tensor of four
dimensions that ends wherever a group does, with one map for all groups:

    element (x, end, r, n) lies at  x (2^34 - S) + end S + r S + n        S the stride of rows, all extents of x and r 2^30 or less

Of x = 2^30 and r = 2^30 - (end - m) the first two terms and r make 2^64 + m S: addresses have 64 bits, so that is row m. And r is
outside of the tensor from 2^30 on, which is row `end`: TMA drops what is behind it.
"""

from typing import Any

import triton.language as tl

import mimw
import mimw.tle as tle
import mimw.tlx as tlx

from ..consumers import open_turns
from .operands import GroupOperands, load_along
from .output import Output
from .product import multiply
from .tiles import Part, output_tiles, tile_origin

FAR = tl.constexpr(2**30)       # rows that a group has at most, and what makes addresses come round


@tle.struct
class PlaceInGroup:
    """An output tile whose rows end at row `end`, if not before."""
    group: Any
    m: Any
    end: Any
    n: Any

    @mimw.jit
    def moved(self, rows):
        return PlaceInGroup(self.group, self.m + rows, self.end, self.n)

    @mimw.jit
    def box(self, right):
        return [FAR, self.end, FAR - (self.end - self.m), self.n + right]


@tle.struct
class Group:
    """The rows `start` to `end`, with `before` tiles in front of them."""
    number: Any
    start: Any
    end: Any
    before: Any


@tle.struct
class Groups:
    """All groups, and the tiles of N columns that their rows are cut into."""
    ends: tl.tensor
    count: Any
    N: Any
    tiles: Any


@mimw.jit
def place_in(groups, group, tile):
    """The place of an output tile of a group."""
    m, n = tile_origin(tile - group.before, group.end - group.start, groups.N, groups.tiles)
    return PlaceInGroup(group.number, group.start + m, group.end, n)


@mimw.jit
def walk(role, groups, chunk, first, TURNS: tl.constexpr):
    """Every TURNS-th tile of this program from number `first` on, counted group by group."""
    start, before = 0, 0
    tile = first
    for number in range(groups.count):
        end = tl.load(groups.ends + number)
        behind = before + output_tiles(end - start, groups.N, groups.tiles)
        while tile < behind:
            chunk = role.one(chunk, tile, Group(number, start, end, before))
            tile += TURNS * tl.num_programs(0)
        start, before = end, behind


@tle.struct
class Producer:
    """Tiles of A and of the group's B along K, for one output tile after the other."""
    inputs: tle.pipe_writer
    operands: GroupOperands
    groups: Groups
    K: Any

    @mimw.jit
    def one(self, chunk, tile, group):
        return load_along(self.inputs, chunk, self.operands, place_in(self.groups, group, tile), self.K, self.groups.tiles.BK)


@tle.struct
class Consumer:
    """The consumer's part of each output tile."""
    inputs: tle.pipe_reader
    groups: Groups
    out: Output
    part: Part
    steps: Any

    @mimw.jit
    def one(self, chunk, tile, group):
        acc = multiply(self.inputs, chunk, self.steps, self.part)
        self.out.store(acc, place_in(self.groups, group, tile).moved(self.part.ROW), self.part)
        return chunk + self.part.TURNS * self.steps


@mimw.jit
def load_groups(inputs, groups, operands, K):
    """Tiles of A and of the group's B along K, for one output tile of this program after the other."""
    chunk = 0
    walk(Producer(inputs, operands, groups, K), groups, chunk, tl.program_id(0), 1)


@mimw.jit
def compute_groups(inputs, groups, out, part, K):
    """The output tiles of a consumer: all of its rows in ping-pong, its share of the rows of each tile otherwise."""
    steps = tl.cdiv(K, groups.tiles.BK)
    chunk = part.TURN * steps
    if part.PING_PONG:
        open_turns(part.me, part.CONSUMERS)
    first = tl.program_id(0) + part.TURN * tl.num_programs(0)
    walk(Consumer(inputs, groups, out, part, steps), groups, chunk, first, part.TURNS)
    tlx.async_descriptor_store_wait(0)
