"""All-reduce in two hops: every rank adds one part of all ranks' numbers, and sends the sum to all; for more than two ranks.

Input: x of this rank. Output: the sum over the ranks, the same bits at each. For example, of 4 ranks and `part` = n / 4, by chunks:

    put chunk k of part r into rank r's slot, signal;   wait for all, add chunk k of the own part
    put the sum into every rank's second slot, signal;  wait for all, write chunk k of every part

2 (SIZE - 1) / SIZE of the bytes cross the link, of one hop SIZE - 1. One slot a sender is enough: the second signal of chunk k says
that the peer has added it, the first of chunk k + 1 that it has written the sum of chunk k.
"""

import triton.language as tl

import mimw
import mimw.tlx as tlx

from .ring import Chunk, add_chunks, copy_chunk, write_chunk


@mimw.jit
def reduce_two_shot(x, out, slots, received, taken, world, n, part, SIZE: tl.constexpr, CHUNK: tl.constexpr, ROOM: tl.constexpr):
    """A program takes chunks program_id, program_id + programs, .. of every part.

    args:      x, out    n numbers; may be the same
               part      numbers of a rank's part: SIZE of them hold n, the last may be shorter or empty
               slots     symmetric int8 [PROGRAMS, 2, SIZE, ROOM]
               received  symmetric int64 [PROGRAMS, 2, SIZE], zeros at first: what has come, by sender
               taken     int64 [PROGRAMS] of this rank, zeros at first: chunks of each program so far
               world     the table
               CHUNK     numbers, a power of two; at most ROOM bytes
    grid:      at most cdiv(part, CHUNK) programs and PROGRAMS
    """
    TYPE: tl.constexpr = tlx.dtype_of(x)
    APART: tl.constexpr = ROOM // (TYPE.primitive_bitwidth // 8)
    me, program, programs = tlx.world_rank(world), tl.program_id(0), tl.num_programs(0)
    slots = slots.to(tl.pointer_type(TYPE)) + program * (2 * SIZE * APART)
    received += program * (2 * SIZE)
    there = [tlx.peer_pointer(slots, (me + step) % SIZE, world) + me * APART for step in range(1, SIZE)]
    received_there = [tlx.peer_pointer(received, (me + step) % SIZE, world) + me for step in range(1, SIZE)]
    before = tl.load(taken + program)
    mine = (tl.cdiv(part, CHUNK) - program + programs - 1) // programs
    lane = tl.arange(0, CHUNK)
    for k in range(mine):
        at = (program + k * programs) * CHUNK
        for step in tl.static_range(1, SIZE):
            start = (me + step) % SIZE * part
            copy_chunk(x + start + at, there[step - 1], Chunk(lane, (at + lane < part) & (start + at + lane < n), True))
            tlx.signal(received_there[step - 1])
        for step in tl.static_range(1, SIZE):
            tlx.wait_signal(received + (me + step) % SIZE, before + k + 1)
        chunk = Chunk(lane, (at + lane < part) & (me * part + at + lane < n), True)
        own = me * part + at
        total = add_chunks(x + own, slots, me, chunk, SIZE, APART).to(TYPE)
        write_chunk(out + own, total, chunk)
        for step in tl.static_range(1, SIZE):
            write_chunk(there[step - 1] + SIZE * APART, total, chunk)
            tlx.signal(received_there[step - 1] + SIZE)
        for step in tl.static_range(1, SIZE):
            rank = (me + step) % SIZE
            start = rank * part
            tlx.wait_signal(received + SIZE + rank, before + k + 1)
            copy_chunk(slots + (SIZE + rank) * APART, out + start + at,
                       Chunk(lane, (at + lane < part) & (start + at + lane < n), True))
    tl.store(taken + program, before + mine)
