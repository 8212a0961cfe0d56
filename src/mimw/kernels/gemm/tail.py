"""The output tiles of the last round, fewer than programs, cut along K so that more programs have work.

Input: numbers of tiles, programs and chunks of a tile, and of programs that share the last round. Output: a program's items:

    split = split_of(problem, tiles, sharers)       of 1024 tiles and 132 programs, 7 whole ones and 0.76 of a tile
    for number in range(items(split)):
        one = item(split, number)                   chunks one.begin to one.end along K of tile one.tile

A share of the last round is the end of one tile, the beginning of the next, or both. Who has only begun a tile leaves its sums in
`room` and sets a flag; who ends a tile adds them, the nearest program's first, and stores. Beginnings come before ends; who waits,
waits for programs before it: however few run at a time, one goes on. The order of all sums is settled by sizes and numbers of
programs, so results are the same each time, to the bit. Flags are 0 before and after a launch. Without sharers (None) the tiles of
the last round are whole, too.
"""

from typing import Any

import triton.language as tl

import mimw
import mimw.tle as tle

from .pieces import begin, count, piece_of
from .tiles import output_tiles


@tle.struct
class Split:
    """A program's share of all tiles: `whole` ones, then the chunks `first` to `end` of the `chunks` of the last round, where `cut`
    is the first chunk of the tile in which the share ends. Without sharers it is whole tiles alone."""
    program: Any
    programs: Any
    steps: Any
    tiles: Any
    sharers: Any
    whole: Any
    chunks: Any = None
    first: Any = None
    cut: Any = None
    end: Any = None


@tle.struct
class Item:
    """The chunks `begin` to `end` of a tile; `before` is how many chunks of all the program has had."""
    tile: Any
    begin: Any
    end: Any
    before: Any


@tle.struct
class Room:
    """Memory by which programs leave sums to each other: fp32 numbers and flags, the place of one consumer of one program among
    them, and the distance between the places of two programs."""
    sums: tl.tensor | None
    flags: tl.tensor | None
    place: Any
    APART: tl.constexpr


@tle.struct
class Others:
    """The programs in front of this one in its tile, which has the chunks of the last round from `first` on and this program those
    from `begin` on, counted from there."""
    room: Room
    split: Split
    first: Any
    begin: Any


@mimw.jit
def first_chunk(program, sharers, chunks):
    """The first of the last round's chunks that is the program's."""
    return min(program, sharers) * chunks // sharers


@mimw.jit
def split_of(problem, tiles, sharers):
    """This program's share."""
    program, programs, steps = tl.program_id(0), tl.num_programs(0), tl.cdiv(problem.K, tiles.BK)
    count = output_tiles(problem.M, problem.N, tiles)
    if sharers is None:
        return Split(program, programs, steps, count, None, tl.cdiv(count - program, programs))
    chunks = count % programs * steps
    first, end, whole = first_chunk(program, sharers, chunks), first_chunk(program + 1, sharers, chunks), count // programs
    return Split(program, programs, steps, count, sharers, whole, chunks, first, max(first, (end - 1) // steps * steps), end)


@mimw.jit
def items(split):
    """How many tiles and parts of tiles a program has."""
    if split.end is None:
        return split.whole
    return split.whole + tl.where(split.end > split.first, 1, 0) + tl.where(split.cut > split.first, 1, 0)


@mimw.jit
def item(split, number):
    """Whole tiles, then the end of the share, then what is in front of it."""
    whole, steps = split.whole, split.steps
    tile, before = number * split.programs + split.program, number * steps
    if split.end is None:
        return Item(tile, 0, steps, before)
    begin = tl.where(number < whole, 0, tl.where(number == whole, split.cut, split.first))
    stop = tl.where(number < whole, steps, tl.where(number == whole, split.end, split.cut))
    nth = (stop - 1) // steps       # of the last round's tiles
    tile = tl.where(number < whole, tile, whole * split.programs + nth)
    return Item(tile, begin - nth * steps, stop - nth * steps,
                tl.where(number > whole, whole * steps + split.end - split.cut, before))


@mimw.jit
def others_in(room, split, one):
    """The programs that have the chunks in front of an item."""
    return Others(room, split, (one.tile - split.tiles // split.programs * split.programs) * split.steps, one.begin)


# ---- sums on their way from one program to another ------------------------------------------------------------------------


@mimw.jit
def as_held(sums):
    """Sums with an axis for each digit of where an element lies in a warpgroup: blocks of 64 rows, halves of 16 rows, blocks of 8
    columns, 4 warps, 8 rows, 4 lanes, 2 neighbours. No element changes its thread."""
    ROWS: tl.constexpr = sums.shape[0] // 64
    COLUMNS: tl.constexpr = sums.shape[1] // 8
    return sums.reshape(ROWS, 4, 2, 8, COLUMNS, 4, 2).permute(0, 2, 4, 1, 3, 5, 6)


@mimw.jit
def as_tile(held, like):
    """The opposite, for sums like these."""
    return held.permute(0, 3, 1, 4, 2, 5, 6).reshape(like.shape[0], like.shape[1])


@mimw.jit
def places(held):
    """Where the elements of `as_held(sums)` lie in a room: row by row, so that a warp's lanes have neighbours. Written as a sum of
    digits, from which Triton sees that each thread reads and writes what it holds, and two at a time."""
    at = tl.arange(0, 2)[None, None, None, None, None, None, :] + 2 * tl.arange(0, 4)[None, None, None, None, None, :, None]
    at += 8 * tl.arange(0, 8)[None, None, None, None, :, None, None] + 64 * tl.arange(0, 4)[None, None, None, :, None, None, None]
    at += 256 * tl.arange(0, held.shape[2])[None, None, :, None, None, None, None]
    at += 256 * held.shape[2] * tl.arange(0, 2)[None, :, None, None, None, None, None]
    return at + 512 * held.shape[2] * tl.arange(0, held.shape[0])[:, None, None, None, None, None, None]


@mimw.jit
def hand_on(acc, room, PIECES: tl.constexpr):
    """Leave the sums of a tile to the program that ends it."""
    ROWS: tl.constexpr = acc.shape[0]
    for piece in tl.static_range(count(PIECES)):
        there = room.sums + (room.place * acc.shape[1] + begin(PIECES, piece, acc.shape[1])) * ROWS
        held = as_held(piece_of(acc, piece, PIECES))
        tl.store(there + places(held), held)
    tl.atomic_store(room.flags + room.place, 1, sem="release", scope="gpu")


@mimw.jit
def plus_others(sums, others, right: tl.constexpr, COLUMNS: tl.constexpr, FIRST: tl.constexpr, LAST: tl.constexpr):
    """A piece of sums, from column `right` on of COLUMNS, and those of the programs in front. With the first piece flags are waited
    for, with the last one they are cleared."""
    room, split, begin = others.room, others.split, others.begin
    place, program = room.place, split.program
    held = as_held(sums)
    while begin > 0:
        program -= 1
        place -= room.APART
        if FIRST:
            tl.atomic_poll(room.flags + place, 1, sem="acquire", scope="gpu")
        held += tl.load(room.sums + (place * COLUMNS + right) * sums.shape[0] + places(held), cache_modifier=".cg")
        if LAST:
            tl.atomic_store(room.flags + place, 0, sem="relaxed", scope="gpu")
        begin = first_chunk(program, split.sharers, split.chunks) - others.first
    return as_tile(held, sums)
