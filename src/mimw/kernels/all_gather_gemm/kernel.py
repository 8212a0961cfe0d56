"""`C = A B` where each GPU has some rows of A and all want all of C: a GEMM that begins with its own rows while the others come.

Input: at each GPU descriptors of its rows of A, of symmetric memory for all rows, of B and C. Output: C is written. For example:

    grid, args, meta = arguments(a, b, c, workspace, world, programs)
    all_gather_gemm[grid](*args, **meta)                at every GPU

Nouns: the pipe `inputs`, as the GEMM has it; `gathered`, where the rows of the other GPUs arrive; STAGING tiles for each consumer's
stores; with PUSH `lines`, by which rows go out. Roles: `load`, CONSUMERS times `compute`, and with PUSH `push`.

Each GPU computes the tiles of its own rows first, from where they lie, then those of the next GPU's rows and so on. `load` waits
for the signal of a band of rows, GROUP_M tiles high, before it loads the first of them. Who brings the rows is one of two:

    PUSH        a warp of each program of the rank that has them, by bulk copies over NVLink (push.py)
    copy engine the host has put the copies and signals into another stream; `open_gather` comes before, and resets the signals

With PUSH signals count launches, so does each program for itself in `calls`: nothing is reset, and nothing comes from the host. A
peer's `gathered` is free when it has begun the launch, as then its last one has ended.
"""

from typing import Any

import triton.language as tl

import mimw
import mimw.tle as tle
import mimw.tlx as tlx

from ..consumers import consumer
from ..gemm.operands import RowsOfSeveral, load_along
from ..gemm.output import output
from ..gemm.roles import compute_tiles, input_pipe
from ..gemm.sources import PlaceInBatch
from ..gemm.tiles import Form, Problem, Tiles, output_tiles, part_of, tile_origin
from .push import Lines, Signals, push


@tle.struct
class RowsOfRanks:
    """The output tiles of all ranks' rows, M of each: those of this rank first, then the next one's."""
    problem: Problem
    tiles: Tiles
    program: Any
    programs: Any
    chunks: Any
    rank: Any
    size: Any
    each: Any

    @mimw.jit
    def first(self, turn):
        return self.program + turn * self.programs

    @mimw.jit
    def stride(self, turns):
        return turns * self.programs

    @mimw.jit
    def count(self):
        return self.each * self.size

    @mimw.jit
    def at(self, number):
        m, n = tile_origin(number % self.each, self.problem.M, self.problem.N, self.tiles)
        return PlaceInBatch((self.rank + number // self.each) % self.size, m, n)

    @mimw.jit
    def steps(self):
        return self.chunks


@mimw.jit
def load(inputs, own, gathered, problem, tiles, arrived, wanted, world):
    """The tiles of this rank's rows, then those of the others', each behind the signal of its band."""
    me, size, program, programs = tlx.world_rank(world), tlx.world_size(world), tl.program_id(0), tl.num_programs(0)
    BAND: tl.constexpr = tiles.BM * tiles.GROUP_M
    each, bands, chunk = output_tiles(problem.M, problem.N, tiles), tl.cdiv(problem.M, BAND), 0
    for number in range(program, each, programs):
        m, n = tile_origin(number, problem.M, problem.N, tiles)
        chunk = load_along(inputs, chunk, own, PlaceInBatch(0, m, n), problem.K, tiles.BK)
    first = program + tl.cdiv(max(each - program, 0), programs) * programs
    for number in range(first, each * size, programs):
        shard = (me + number // each) % size
        m, n = tile_origin(number % each, problem.M, problem.N, tiles)
        tlx.wait_signal(arrived + shard * bands + m // BAND, wanted)
        tlx.fence("gpu")
        chunk = load_along(inputs, chunk, gathered, PlaceInBatch(shard, m, n), problem.K, tiles.BK)


@mimw.jit
def compute(inputs, out, problem, tiles, world, me: tl.constexpr):
    """The output tiles of consumer `me`."""
    program, programs, steps = tl.program_id(0), tl.num_programs(0), tl.cdiv(problem.K, tiles.BK)
    rank, size = tlx.world_rank(world), tlx.world_size(world)
    each = output_tiles(problem.M, problem.N, tiles)
    compute_tiles(inputs, RowsOfRanks(problem, tiles, program, programs, steps, rank, size, each), out, part_of(tiles, me))


@mimw.jit
def open_gather(arrived, world, COUNT: tl.constexpr, BLOCK: tl.constexpr):
    """By one program, before the copy engines bring rows: the signals are 0, and no GPU reads what it gathered last."""
    at = tl.arange(0, BLOCK)
    tl.store(arrived + at, tl.zeros((BLOCK, ), tl.int64), mask=at < COUNT)
    tlx.world_barrier(world)


@tle.struct
class GatherForm(Form):
    """PUSH: this rank's rows go to the peers by pieces of PIECE elements, SLOTS buffers of LINE a program."""
    PUSH: tl.constexpr
    PIECE: tl.constexpr
    LINE: tl.constexpr
    SLOTS: tl.constexpr


@mimw.jit
def all_gather_gemm(a_desc, gathered_desc, b_desc, c_desc, a, gathered, arrived, started, calls, world, sizes, FORM: tl.constexpr):
    """C = A B: C is (ranks, M, N), A's rows of this rank (1, M, K), of the others (ranks, M, K) in symmetric memory `gathered`. B
    is (K, N), or (N, K) where B_IS_NK. FORM is a `GatherForm`; without PUSH `a`, `gathered`, `started` and `calls` are None.

    arrived     symmetric, int64, a word for each rank and band of GROUP_M tiles' rows
    started     symmetric, int64, a word for each rank and program
    calls       int64, a word for each program, of this rank alone. With PUSH all words are 0 before the first launch, and are
                left to launches of the same sizes, grid and configuration, which follow each other
    """
    problem, tiles = Problem(sizes.M, sizes.N, sizes.K), FORM.tiles
    own, others = RowsOfSeveral(a_desc, b_desc, tiles.B_IS_NK), RowsOfSeveral(gathered_desc, b_desc, tiles.B_IS_NK)
    inputs = input_pipe(own, tiles, FORM.STAGES)
    out = output(c_desc, tiles)
    if FORM.PUSH:
        buffers, filled = tlx.local_alloc((FORM.LINE, ), tlx.dtype_of(a_desc), FORM.SLOTS), tlx.alloc_barriers(FORM.SLOTS)
        lines = Lines(buffers, filled, FORM.PIECE, FORM.SLOTS)
        call = tl.load(calls + tl.program_id(0)) + 1
        wanted = call * tl.num_programs(0)
    else:
        wanted = 1

    with tlx.async_tasks():
        with tlx.async_task("default", num_regs=232 if FORM.PUSH else 240, replicate=tiles.CONSUMERS):  # consumer
            me: tl.constexpr = tlx.async_task_replica_id()
            compute(inputs.reader(consumer(me)), out, problem, tiles, world, me)
        with tlx.async_task(num_warps=1, num_regs=40 if FORM.PUSH else 24):  # producer
            load(inputs.writer(), own, others, problem, tiles, arrived, wanted, world)
        if FORM.PUSH:
            with tlx.async_task(num_warps=1, num_regs=40):  # pusher
                push(a, gathered, Signals(arrived, started, call, world), lines, problem, tiles.BM * tiles.GROUP_M)
    if FORM.PUSH:
        tl.store(calls + tl.program_id(0), call)
