"""Many bytes to all ranks: chunks go into slots of the peers by wide stores, a signal behind each.

Input: x of this rank. Output: of `part` numbers of each rank their sum (SUM) or all of them, as flagged.py. For example, an
all-reduce of two ranks, each program with every `programs`th chunk:

    k = 0: put chunk 0 into slot 0 of the peer, signal
    k = 1: put chunk 1 into slot 1, signal; wait for the peer's chunk 0, add, write          (LAG = 1)

Nobody tells that a slot is free again. With LAG chunks under way, who has the peer's chunk k - 1 - LAG knows that the peer has
taken all before k - 1 - 2 LAG, so 2 + 2 LAG slots go round. Signals count up in 64 bits, and so do the programs, in the memory of
the device: the next launch goes on where this one ended.
"""

from typing import Any

import triton.language as tl

import mimw
import mimw.tle as tle
import mimw.tlx as tlx

SLOTS: tl.constexpr = tl.constexpr(4)


@tle.struct
class Chunk:
    """Some numbers side by side; MASKED: only those that are inside."""
    lane: tl.tensor
    inside: tl.tensor
    MASKED: tl.constexpr


@tle.struct
class Exchange:
    """`part` numbers of each of SIZE ranks, CHUNK at a time: added (SUM) or put side by side, of parts of x (SCATTER) or of all of
    it. The slots of the ranks are APART."""
    part: Any
    SIZE: tl.constexpr
    SCATTER: tl.constexpr
    SUM: tl.constexpr
    CHUNK: tl.constexpr
    APART: tl.constexpr


@mimw.jit
def copy_chunk(source, there, chunk):
    """The numbers of one chunk."""
    if chunk.MASKED:
        tl.store(there + chunk.lane, tl.load(source + chunk.lane, mask=chunk.inside, other=0), mask=chunk.inside)
    else:
        tl.store(there + chunk.lane, tl.load(source + chunk.lane))


@mimw.jit
def add_chunks(own, here, me, chunk, SIZE: tl.constexpr, APART: tl.constexpr):
    """The sum of a chunk in fp32, in the order of the ranks: this one's at `own`, the others' APART from each other at `here`."""
    total = tl.zeros((chunk.lane.shape[0], ), tl.float32)
    for rank in tl.static_range(SIZE):
        source = own if rank == me else here + rank * APART
        if chunk.MASKED:
            total += tl.load(source + chunk.lane, mask=chunk.inside, other=0).to(tl.float32)
        else:
            total += tl.load(source + chunk.lane).to(tl.float32)
    return total


@mimw.jit
def write_chunk(there, value, chunk):
    """A chunk, rounded to the type there."""
    if chunk.MASKED:
        tl.store(there + chunk.lane, value.to(tlx.dtype_of(there)), mask=chunk.inside)
    else:
        tl.store(there + chunk.lane, value.to(tlx.dtype_of(there)))


@mimw.jit
def take_chunk(x, out, here, me, at, exchange, MASKED: tl.constexpr):
    """The chunks of all ranks, added or put side by side."""
    lane = tl.arange(0, exchange.CHUNK)
    chunk = Chunk(lane, at + lane < exchange.part, MASKED)
    own = (x + me * exchange.part if exchange.SCATTER else x) + at
    if exchange.SUM:
        write_chunk(out + at, add_chunks(own, here, me, chunk, exchange.SIZE, exchange.APART), chunk)
    else:
        for rank in tl.static_range(exchange.SIZE):
            copy_chunk(own if rank == me else here + rank * exchange.APART, out + rank * exchange.part + at, chunk)


@tle.struct
class RingForm:
    """The constants of a launch: SIZE ranks, whose parts are added (SUM) or put side by side, of parts of x (SCATTER) or of all of
    it. CHUNK numbers, a power of two, go at a time, at most ROOM bytes; LAG chunks are sent before the first is awaited: 0 or 1."""
    SIZE: tl.constexpr
    SCATTER: tl.constexpr
    SUM: tl.constexpr
    CHUNK: tl.constexpr
    ROOM: tl.constexpr
    LAG: tl.constexpr


@mimw.jit
def exchange_ring(x, out, slots, received, taken, world, part, FORM: tl.constexpr):
    """A program takes chunks program_id, program_id + programs, .. of a part.

    args:      x         numbers of this rank: part of them, or SIZE x part where SCATTER
               out       part numbers, or SIZE x part where not SUM; may be x where SUM and not SCATTER
               slots     symmetric int8 [PROGRAMS, SIZE, SLOTS, ROOM]
               received  symmetric int64 [PROGRAMS, SIZE], zeros at first: chunks that have come, by sender
               taken     int64 [PROGRAMS] of this rank, zeros at first: chunks of each program so far
               world     the table
    grid:      at most cdiv(part, CHUNK) programs and PROGRAMS
    """
    TYPE: tl.constexpr = tlx.dtype_of(x)
    APART: tl.constexpr = SLOTS * FORM.ROOM // (TYPE.primitive_bitwidth // 8)
    me, program, programs = tlx.world_rank(world), tl.program_id(0), tl.num_programs(0)
    slots = slots.to(tl.pointer_type(TYPE)) + program * (FORM.SIZE * APART)
    received += program * FORM.SIZE
    there = [tlx.peer_pointer(slots, (me + step) % FORM.SIZE, world) + me * APART for step in range(1, FORM.SIZE)]
    received_there = [tlx.peer_pointer(received, (me + step) % FORM.SIZE, world) + me for step in range(1, FORM.SIZE)]
    before = tl.load(taken + program)
    mine = (tl.cdiv(part, FORM.CHUNK) - program + programs - 1) // programs
    lane, exchange = tl.arange(0, FORM.CHUNK), Exchange(part, FORM.SIZE, FORM.SCATTER, FORM.SUM, FORM.CHUNK, APART)
    for k in range(mine + FORM.LAG):
        if k < mine:
            at = (program + k * programs) * FORM.CHUNK
            slot = ((before + k) % SLOTS).to(tl.int32) * (APART // SLOTS)
            for step in tl.static_range(1, FORM.SIZE):
                source = (x + (me + step) % FORM.SIZE * part if FORM.SCATTER else x) + at
                if at + FORM.CHUNK <= part:
                    copy_chunk(source, there[step - 1] + slot, Chunk(lane, lane < part, False))
                else:
                    copy_chunk(source, there[step - 1] + slot, Chunk(lane, at + lane < part, True))
                tlx.signal(received_there[step - 1])
        if k >= FORM.LAG:
            at = (program + (k - FORM.LAG) * programs) * FORM.CHUNK
            for step in tl.static_range(1, FORM.SIZE):
                tlx.wait_signal(received + (me + step) % FORM.SIZE, before + (k - FORM.LAG) + 1)
            here = slots + ((before + (k - FORM.LAG)) % SLOTS).to(tl.int32) * (APART // SLOTS)
            if at + FORM.CHUNK <= part:
                take_chunk(x, out, here, me, at, exchange, False)
            else:
                take_chunk(x, out, here, me, at, exchange, True)
    tl.store(taken + program, before + mine)
