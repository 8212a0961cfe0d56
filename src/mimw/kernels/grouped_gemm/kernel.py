"""A product for each group of rows on Hopper: `C[rows of g] = A[rows of g] B[g]`, whose sizes only the device knows.

Input: descriptors of A, B and C, the row behind the last one of each group, and sizes. Output: C is written. For example:

    grid, args, meta = arguments(a, b, c, ends, programs)
    grouped_gemm[grid](*args, **meta)

Nouns and roles are the GEMM's, and so are both schedules. The grid is persistent: tile t of all tiles, counted group by group,
belongs to program t modulo their number, and every role walks through the groups to find where its tiles lie (gemm/groups.py).
"""

from typing import Any

import triton.language as tl

import mimw
import mimw.tle as tle
import mimw.tlx as tlx

from ..consumers import consumer, open_turns
from ..gemm.groups import Groups, place_in, walk
from ..gemm.operands import GroupOperands, load_along
from ..gemm.output import Output, output
from ..gemm.product import multiply
from ..gemm.roles import input_pipe
from ..gemm.tiles import Part, Tiles, part_of


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
def load(inputs, groups, operands, K):
    """Tiles of A and of the group's B along K, for one output tile of this program after the other."""
    chunk = 0
    walk(Producer(inputs, operands, groups, K), groups, chunk, tl.program_id(0), 1)


@mimw.jit
def compute(inputs, groups, out, part, K):
    """The output tiles of a consumer: all of its rows in ping-pong, its share of the rows of each tile otherwise."""
    steps = tl.cdiv(K, groups.tiles.BK)
    chunk = part.TURN * steps
    if part.PING_PONG:
        open_turns(part.me, part.CONSUMERS)
    first = tl.program_id(0) + part.TURN * tl.num_programs(0)
    walk(Consumer(inputs, groups, out, part, steps), groups, chunk, first, part.TURNS)
    tlx.async_descriptor_store_wait(0)


@mimw.jit
def grouped_gemm(a_desc, b_desc, c_desc, ends, groups, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
                 GROUP_M: tl.constexpr, STAGES: tl.constexpr, CONSUMERS: tl.constexpr, PIECES: tl.constexpr, STAGING: tl.constexpr,
                 PING_PONG: tl.constexpr, B_IS_NK: tl.constexpr):
    """C = A B[group] of rows in groups, with B as (groups, K, N), or as (groups, N, K) where B_IS_NK; `ends` is (groups, )."""
    tiles = Tiles(BM, BN, GROUP_M, BK, CONSUMERS, PIECES, STAGING, PING_PONG, B_IS_NK)
    operands, rows = GroupOperands(a_desc, b_desc, B_IS_NK), Groups(ends, groups, N, tiles)
    inputs = input_pipe(operands, tiles, STAGES)
    out = output(c_desc, tiles)
    with tlx.async_tasks():
        with tlx.async_task("default", num_regs=240, replicate=CONSUMERS):  # consumer
            me: tl.constexpr = tlx.async_task_replica_id()
            compute(inputs.reader(consumer(me)), rows, out, part_of(tiles, me), K)
        with tlx.async_task(num_warps=1, num_regs=24):  # producer
            load(inputs.writer(), rows, operands, K)
