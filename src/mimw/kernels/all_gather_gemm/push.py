"""The rank's own rows of A on their way to the peers, by a warp of each program beside the product: bulk copies in and out.

Input: A of this rank, contiguous, and where the peers gather. Output: the rows lie there, and a signal for each band of rows:

    push(a, gathered, signals, lines, problem, BAND)

Bands are cut into pieces, which the programs have in turn: PIECE elements, a part of all bands without a rest. A slot is filled
by one copy and emptied by the next, LAG pieces later; so a few are always under way in both directions, which is what covers the
way over NVLink.
"""

from typing import Any

import triton.language as tl

import mimw
import mimw.tle as tle
import mimw.tlx as tlx

LAG = tl.constexpr(2)       # pieces that come in before the first goes out


@tle.struct
class Lines:
    """The buffers by which rows go out, SLOTS of them, and their barriers; a copy is PIECE elements."""
    rows: tlx.buffered_tensor
    full: tlx.mbarrier
    PIECE: tl.constexpr
    SLOTS: tl.constexpr


@tle.struct
class Signals:
    """Words of symmetric memory, and the number of this launch, to which the peers count them."""
    arrived: tl.tensor
    started: tl.tensor
    call: tl.tensor
    world: Any


@mimw.jit
def push_band(a, there, begin, end, base, lines):
    """Copy a's elements from `begin` to `end` to `there`, this program's share of them, by the slots from number `base` on; the
    number of slots used. At the end all has arrived."""
    program, programs = tl.program_id(0), tl.num_programs(0)
    PIECE: tl.constexpr = lines.PIECE
    SLOTS: tl.constexpr = lines.SLOTS
    BYTES: tl.constexpr = PIECE * a.dtype.element_ty.primitive_bitwidth // 8
    count = tl.cdiv(max((end - begin) // PIECE - program, 0), programs).to(tl.int32)
    for piece in range(count + LAG):
        if piece < count:
            slot = (base + piece) % SLOTS
            tlx.async_descriptor_store_wait(SLOTS - LAG - 1)
            tlx.barrier_expect_bytes(lines.full[slot], BYTES)
            at = begin + (piece * programs + program).to(tl.int64) * PIECE
            tlx.async_load(a + at, lines.rows[slot], bulk=True, bulk_size=BYTES, barrier=lines.full[slot])
        if piece >= LAG:
            number = base + piece - LAG
            tlx.barrier_wait(lines.full[number % SLOTS], (number // SLOTS) & 1)
            at = begin + ((piece - LAG) * programs + program).to(tl.int64) * PIECE
            tlx.async_store(there + at, lines.rows[number % SLOTS], BYTES)
    tlx.async_descriptor_store_wait(0)
    return base + count


@mimw.jit
def push(a, gathered, signals, lines, problem, BAND: tl.constexpr):
    """This rank's M rows of A into the place for them of each peer, the rank before this one first, which needs them next: BAND
    rows, then a signal, of each program."""
    world = signals.world
    me, size, program, programs = tlx.world_rank(world), tlx.world_size(world), tl.program_id(0), tl.num_programs(0)
    bands, base = tl.cdiv(problem.M, BAND), 0
    rows = tl.cast(problem.M, tl.int64) * problem.K     # of one row M is a constant, which has no `to`
    for step in range(1, size):
        tlx.signal(tlx.peer_pointer(signals.started, (me + step) % size, world) + me * programs + program)
    for step in range(1, size):
        peer = (me + size - step) % size
        tlx.wait_signal(signals.started + peer * programs + program, signals.call)
        there = tlx.peer_pointer(gathered, peer, world) + me * rows
        for band in range(bands):
            begin = band.to(tl.int64) * BAND * problem.K
            base = push_band(a, there, begin, min(begin + BAND * problem.K, rows), base, lines)
            tlx.signal(tlx.peer_pointer(signals.arrived, peer, world) + me * bands + band)
