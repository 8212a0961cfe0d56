"""Collectives on symmetric tensors, which are read and written where they are, between two barriers of the ranks.

Input: symmetric x. Output: sums, or the parts of all ranks side by side. For example:

    reduce_direct, PARTS = False                every rank reads x of all ranks                     all-reduce in one hop
    reduce_direct, PARTS = True                 ... only its part of it                             reduce-scatter
    reduce_direct, PARTS = True, SPREAD = True  ... and writes the sum into out of all ranks        all-reduce in two, out may be x
    gather_direct                               every rank reads x of all ranks                     all-gather

A program of one rank takes the same numbers as its like at the others, so the barriers need be among programs of one number only,
but for SPREAD in place: there, too, nobody but the owner of a part reads it.
"""

from typing import Any

import triton.language as tl

import mimw
import mimw.tle as tle
import mimw.tlx as tlx

from .ring import Chunk, copy_chunk, write_chunk


@tle.struct
class Ranks:
    """SIZE ranks of a world, and the number of this one."""
    world: Any
    me: tl.tensor
    SIZE: tl.constexpr


@mimw.jit
def add_peers(sources, at, chunk, SIZE: tl.constexpr):
    """The sum of numbers `at`.. of all ranks in fp32, in the order of the ranks."""
    total = tl.zeros((chunk.lane.shape[0], ), tl.float32)
    for rank in tl.static_range(SIZE):
        if chunk.MASKED:
            total += tl.load(sources[rank] + at + chunk.lane, mask=chunk.inside, other=0).to(tl.float32)
        else:
            total += tl.load(sources[rank] + at + chunk.lane).to(tl.float32)
    return total


@mimw.jit
def write_sum(out, first, at, total, chunk, ranks, SPREAD: tl.constexpr):
    """A chunk of this rank's part, whose first number is `first`: here, or, SPREAD, into all of `out` at every rank."""
    if SPREAD:
        for step in tl.static_range(ranks.SIZE):
            there = tlx.peer_pointer(out, (ranks.me + step) % ranks.SIZE, ranks.world)
            write_chunk(there + first + at, total, chunk)
    else:
        write_chunk(out + at, total, chunk)


@mimw.jit
def reduce_direct(x, out, world, n, part, SIZE: tl.constexpr, PARTS: tl.constexpr, SPREAD: tl.constexpr, CHUNK: tl.constexpr):
    """A program takes chunks program_id, program_id + programs, .. of n numbers, or of this rank's part of them.

    args:      x       symmetric, n numbers
               out     n numbers; part of them where PARTS and not SPREAD; symmetric where SPREAD, and then it may be x
               part    numbers of a rank's part: SIZE of them hold n, the last may be shorter or empty
               world   the table
    grid:      any that runs at the same time, the same at all ranks
    """
    me, program, programs = tlx.world_rank(world), tl.program_id(0), tl.num_programs(0)
    sources = [tlx.peer_pointer(x, rank, world) for rank in range(SIZE)]
    first = me * part if PARTS else 0
    many = tl.maximum(tl.minimum(part, n - first), 0) if PARTS else n
    lane, ranks = tl.arange(0, CHUNK), Ranks(world, me, SIZE)
    tlx.world_barrier(world)
    for number in range(program, tl.cdiv(many, CHUNK), programs):
        at = number * CHUNK
        if at + CHUNK <= many:
            whole = Chunk(lane, lane < n, False)
            write_sum(out, first, at, add_peers(sources, first + at, whole, SIZE), whole, ranks, SPREAD)
        else:
            last = Chunk(lane, at + lane < many, True)
            write_sum(out, first, at, add_peers(sources, first + at, last, SIZE), last, ranks, SPREAD)
    tlx.world_barrier(world)


@mimw.jit
def gather_direct(x, out, world, part, SIZE: tl.constexpr, CHUNK: tl.constexpr):
    """A program takes chunks program_id, program_id + programs, .. of each rank's part.

    args:      x       symmetric, part numbers
               out     SIZE x part numbers
               world   the table
    grid:      any that runs at the same time, the same at all ranks
    """
    me, program, programs = tlx.world_rank(world), tl.program_id(0), tl.num_programs(0)
    lane = tl.arange(0, CHUNK)
    tlx.world_barrier(world)
    for step in tl.static_range(SIZE):
        rank = (me + step) % SIZE
        source = tlx.peer_pointer(x, rank, world)
        there = out + rank * part
        for number in range(program, tl.cdiv(part, CHUNK), programs):
            at = number * CHUNK
            if at + CHUNK <= part:
                copy_chunk(source + at, there + at, Chunk(lane, lane < part, False))
            else:
                copy_chunk(source + at, there + at, Chunk(lane, at + lane < part, True))
    tlx.world_barrier(world)
