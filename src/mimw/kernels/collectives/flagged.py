"""Few bytes to all ranks in one hop: every 8 bytes that cross the link carry 4 of data and a flag, the number of the call.

Input: x of this rank. Output: of `part` numbers of each rank their sum (SUM) or all of them; the same part goes to every peer, or
to each its own (SCATTER). So all-reduce is SUM, reduce-scatter SUM and SCATTER, all-gather neither. For example:

    grid, args, meta = arguments(...)                   mimw.kernels.collectives
    exchange_flagged[grid](*args, **meta)

Who receives looks until a word's flag is that of this call: no barrier, no fence, since word and flag are one access. Slots are
written in every second call only. A peer that sends call e has ended call e - 1, so it has taken what came in e - 1 and all before;
hearing from it in call e - 1 is thus leave to write over the slots of e - 2, which are those of e. The number of the call is
counted in the memory of the device, by each program for itself: launches in streams and replayed graphs go on counting.
"""

import triton.language as tl

import mimw
import mimw.tle as tle
import mimw.tlx as tlx

from .words import as_words, await_flagged, numbers_of, read_words, send_flagged, words_of, write_words


@tle.struct
class FlaggedForm:
    """The constants of a launch: SIZE ranks, whose parts are added (SUM) or put side by side, of parts of x (SCATTER) or of all of
    it. WHOLE as in words.py. A program takes BLOCK words, which have ROOM places in the slots of PROGRAMS."""
    SIZE: tl.constexpr
    SCATTER: tl.constexpr
    SUM: tl.constexpr
    WHOLE: tl.constexpr
    BLOCK: tl.constexpr
    ROOM: tl.constexpr
    PROGRAMS: tl.constexpr


@mimw.jit
def exchange_flagged(x, out, slots, calls, world, part, FORM: tl.constexpr):
    """A program takes BLOCK words of a part.

    args:      x       numbers of this rank: part of them, or SIZE x part where SCATTER
               out     part numbers, or SIZE x part where not SUM; may be x
               slots   symmetric int64 [2, PROGRAMS, SIZE, ROOM], zeros at first
               calls   int32 [PROGRAMS] of this rank, zeros at first
               world   the table
    grid:      cdiv(words of a part, BLOCK), at most PROGRAMS; BLOCK at most ROOM
    """
    TYPE: tl.constexpr = tlx.dtype_of(x)
    me, program = tlx.world_rank(world), tl.program_id(0)
    call = tl.load(calls + program) + 1
    lane = tl.arange(0, FORM.BLOCK)
    at = program * FORM.BLOCK + lane
    inside = at < words_of(x, part, FORM.WHOLE)
    slot = slots + (((call & 1) * FORM.PROGRAMS + program) * FORM.SIZE) * FORM.ROOM
    mine = read_words(x + me * part if FORM.SCATTER else x, at, part, FORM.WHOLE)
    for step in tl.static_range(1, FORM.SIZE):
        peer = (me + step) % FORM.SIZE
        words = read_words(x + peer * part, at, part, FORM.WHOLE) if FORM.SCATTER else mine
        send_flagged(tlx.peer_pointer(slot, peer, world) + me * FORM.ROOM + lane, words, call, inside)
    low, high = tl.zeros((FORM.BLOCK, ), tl.float32), tl.zeros((FORM.BLOCK, ), tl.float32)
    for rank in tl.static_range(FORM.SIZE):
        words = mine
        if rank != me:
            words = await_flagged(slot + rank * FORM.ROOM + lane, call, inside)
        if FORM.SUM:
            lower, higher = numbers_of(words, TYPE)
            low, high = low + lower, high + higher
        else:
            write_words(out + rank * part, at, part, words, FORM.WHOLE)
    if FORM.SUM:
        write_words(out, at, part, as_words(low, high, TYPE), FORM.WHOLE)
    tl.store(calls + program, call)
