"""Keys and values of all ranks, put into every rank's memory while attention already computes: puts, signals, and who may go on.

Input: this rank's k and v, symmetric arrays `whole` for those of all ranks, and signals. Output: at every rank, `whole` holds
the keys and values of all other ranks (its own ones it reads where they are). For example, in a kernel:

    base = enter(state, PUTTERS)                                every program, first of all: how many signals there were before
    put(own, whole, flags, ..., program, D, PUTTERS)            the first PUTTERS programs, before they compute
    arrived(Arrivals(flags, ...), source, unit)                 before the first look at what rank `source` has put

A unit is one head of keys and values of one batch. They are put in the order in which tiles want them, and the PIECES signals
of a source say how far it is, a power of two of units each. So the first tiles wait for one head, not for all of them.

Signals are counted up and never reset. A call begins with `enter`: whoever begins reads how many signals of a piece came in the
calls before, and the last program to do so puts that number up by those of this call. Nobody puts anything before the same
program of all ranks has begun: a rank's last call is over then, since its launches follow each other, and its arrays may be
overwritten.
"""

from typing import Any

import triton.language as tl

import mimw
import mimw.tle as tle
import mimw.tlx as tlx

# Signals of a source. Whose unit is in which is a shift: a division by a number that the compiler does not know is begun in front
# of all roles, and takes registers of each.
PIECES = tl.constexpr(8)
ROWS = tl.constexpr(64)         # of keys and of values that a program copies at a time: 16 bytes a thread, eight times, of each


def piece_shift(units: int) -> int:
    """The logarithm of how many of so many units a piece has, so that PIECES are enough."""
    return max(0, (-(-units // PIECES.value) - 1).bit_length())


@tle.struct
class KeysAndValues:
    """Keys and values, of one rank or of all: descriptors, pointers, or their strides."""

    k: Any
    v: Any


@tle.struct
class Strides:
    """The steps, in elements, from one batch, head and row to the next."""

    batch: Any
    head: Any
    row: Any


@tle.struct
class Arrivals:
    """Signals of what other ranks have put: `flags` of this rank, 2^piece_shift units a piece, `base` signals of the calls before,
    and PUTTERS more in this one."""

    flags: Any
    piece_shift: Any
    base: Any
    world: Any
    PUTTERS: tl.constexpr


@mimw.jit
def enter(state, SIGNALS: tl.constexpr):
    """The number of signals that each piece of each source had got before this call; SIGNALS are those of
    this call. `state` is two int64."""
    base = tl.load(state)
    programs = tl.num_programs(0) * tl.num_programs(1) * tl.num_programs(2)
    if tl.atomic_add(state + 1, 1, sem="acq_rel", scope="gpu") == programs - 1:
        tl.store(state, base + SIGNALS)
        tl.atomic_xchg(state + 1, 0, sem="relaxed", scope="gpu")
    return base


@mimw.jit
def put(own, whole, flags, piece_shift, steps, batches, kv_heads, rows, world, program, D: tl.constexpr, PUTTERS: tl.constexpr):
    """Every PUTTERS-th block of ROWS rows of each unit, to all other ranks; one signal to each of them behind every piece.

    args:      own     of k and v, pointers to this rank's (batches, kv_heads, rows, D)
               whole   of k and v, pointers to this rank's symmetric arrays (batches, kv_heads, rows of rank 0, of rank 1, ..., D)
               flags   pointer to this rank's symmetric int64, (size, PIECES)
               steps   of k and v: strides
               program number of this program, less than PUTTERS
    """
    me, size = tlx.world_rank(world), tlx.world_size(world)
    units = batches * kv_heads
    at = tl.arange(0, ROWS).to(tl.int64)[:, None]
    columns = tl.arange(0, D)[None, :]
    tlx.world_barrier(world)
    for piece in range(PIECES):
        for unit in range(min(piece << piece_shift, units), min(piece + 1 << piece_shift, units)):
            batch, head = (unit // kv_heads).to(tl.int64), (unit % kv_heads).to(tl.int64)
            for block in range(program, rows // ROWS, PUTTERS):
                from_row, to_row = block * ROWS + at, (unit.to(tl.int64) * size + me) * rows + block * ROWS + at
                k = tl.load(own.k + batch * steps.k.batch + head * steps.k.head + from_row * steps.k.row + columns)
                v = tl.load(own.v + batch * steps.v.batch + head * steps.v.head + from_row * steps.v.row + columns)
                for step in range(1, size):
                    peer = (me + step) % size
                    tl.store(tlx.peer_pointer(whole.k, peer, world) + to_row * D + columns, k)
                    tl.store(tlx.peer_pointer(whole.v, peer, world) + to_row * D + columns, v)
        for step in range(1, size):
            tlx.signal(tlx.peer_pointer(flags, (me + step) % size, world) + me * PIECES + piece)


@mimw.jit
def arrived(arrivals, source, unit):
    """Hold this task until a unit of rank `source` is there, for TMA to read."""
    tlx.wait_signal(arrivals.flags + source * PIECES + (unit >> arrivals.piece_shift), arrivals.base + arrivals.PUTTERS)
    tlx.fence("sys")    # written by ordinary stores of a peer, read by TMA
