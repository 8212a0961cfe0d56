"""The rank's own rows of A on their way to the peers, by a warp of each program beside the product: bulk copies in and out.

Input: A of this rank, contiguous, and where the peers gather. Output: the rows lie there, and a signal for each band of rows:

    push(a, gathered, arrived, started, call, lines, full, world, rows, K, BAND, PIECE, SLOTS)

Bands are cut into pieces, which the programs have in turn: PIECE elements, a part of all bands without a rest. A slot is filled
by one copy and emptied by the next, LAG pieces later; so a few are always under way in both directions, which is what covers the
way over NVLink.
"""

import triton.language as tl

import mimw
import mimw.tlx as tlx

LAG = tl.constexpr(2)       # pieces that come in before the first goes out


@mimw.jit
def push_band(a, there, begin, end, base, lines, full, PIECE: tl.constexpr, SLOTS: tl.constexpr):
    """Copy a's elements from `begin` to `end` to `there`, this program's share of them, by the slots from number `base` on; the
    number of slots used. At the end all has arrived."""
    program, programs = tl.program_id(0), tl.num_programs(0)
    BYTES: tl.constexpr = PIECE * a.dtype.element_ty.primitive_bitwidth // 8
    count = tl.cdiv(max((end - begin) // PIECE - program, 0), programs).to(tl.int32)
    for piece in range(count + LAG):
        if piece < count:
            slot = (base + piece) % SLOTS
            tlx.async_descriptor_store_wait(SLOTS - LAG - 1)
            tlx.barrier_expect_bytes(full[slot], BYTES)
            at = begin + (piece * programs + program).to(tl.int64) * PIECE
            tlx.async_load(a + at, lines[slot], bulk=True, bulk_size=BYTES, barrier=full[slot])
        if piece >= LAG:
            number = base + piece - LAG
            tlx.barrier_wait(full[number % SLOTS], (number // SLOTS) & 1)
            at = begin + ((piece - LAG) * programs + program).to(tl.int64) * PIECE
            tlx.async_store(there + at, lines[number % SLOTS], BYTES)
    tlx.async_descriptor_store_wait(0)
    return base + count


@mimw.jit
def push(a, gathered, arrived, started, call, lines, full, world, M, K, BAND: tl.constexpr, PIECE: tl.constexpr,
         SLOTS: tl.constexpr):
    """This rank's M rows of A into the place for them of each peer, the rank before this one first, which needs them next: BAND
    rows, then a signal, of each program."""
    me, size, program, programs = tlx.world_rank(world), tlx.world_size(world), tl.program_id(0), tl.num_programs(0)
    bands, rows, base = tl.cdiv(M, BAND), tl.cast(M, tl.int64) * K, 0      # of one row M is a constant, which has no `to`
    for step in range(1, size):
        tlx.signal(tlx.peer_pointer(started, (me + step) % size, world) + me * programs + program)
    for step in range(1, size):
        peer = (me + size - step) % size
        tlx.wait_signal(started + peer * programs + program, call)
        there = tlx.peer_pointer(gathered, peer, world) + me * rows
        for band in range(bands):
            begin = band.to(tl.int64) * BAND * K
            base = push_band(a, there, begin, min(begin + BAND * K, rows), base, lines, full, PIECE, SLOTS)
            tlx.signal(tlx.peer_pointer(arrived, peer, world) + me * bands + band)
