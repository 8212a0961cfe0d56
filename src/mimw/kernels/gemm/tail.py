"""The output tiles of the last round, fewer than programs, cut along K so that more programs have work.

Input: numbers of tiles, programs and chunks of a tile, and of programs that share the last round. Output: a program's items:

    share = share_of(program, programs, tiles, steps, sharers)      of 1024 tiles and 132 programs, 7 whole ones and 0.76 of a tile
    for number in range(items(share)):
        tile, begin, end, before = item(number, share, program, programs, steps)    chunks `begin` to `end` along K of tile `tile`

A share of the last round is the end of one tile, the beginning of the next, or both. Who has only begun a tile leaves its sums in
`room` and sets a flag; who ends a tile adds them, the nearest program's first, and stores. Beginnings come before ends; who waits,
waits for programs before it: however few run at a time, one goes on. The order of all sums is settled by sizes and numbers of
programs, so results are the same each time, to the bit. Flags are 0 before and after a launch. Without sharers (None) the tiles of
the last round are whole, too.
"""

import triton.language as tl

import mimw


@mimw.jit
def first_chunk(program, sharers, chunks):
    """The first of the last round's chunks that is the program's."""
    return min(program, sharers) * chunks // sharers


@mimw.jit
def share_of(program, programs, tiles, steps, sharers):
    """(whole tiles, first chunk of the last round's, the first of the tile in which the share ends, where it ends)."""
    if sharers is None:
        return tl.cdiv(tiles - program, programs), None, None, None
    chunks = tiles % programs * steps
    first, end = first_chunk(program, sharers, chunks), first_chunk(program + 1, sharers, chunks)
    return tiles // programs, first, max(first, (end - 1) // steps * steps), end


@mimw.jit
def items(share):
    """How many tiles and parts of tiles a program has."""
    whole, first, cut, end = share
    if end is None:
        return whole
    return whole + tl.where(end > first, 1, 0) + tl.where(cut > first, 1, 0)


@mimw.jit
def item(number, share, program, programs, steps):
    """(tile, its first chunk, where its chunks end, how many chunks come before): whole tiles, then the end of the share, then what
    is in front of it."""
    whole, first, cut, end = share
    tile, before = number * programs + program, number * steps
    if end is None:
        return tile, 0, steps, before
    begin = tl.where(number < whole, 0, tl.where(number == whole, cut, first))
    stop = tl.where(number < whole, steps, tl.where(number == whole, end, cut))
    nth = (stop - 1) // steps       # of the last round's tiles
    tile = tl.where(number < whole, tile, whole * programs + nth)
    return tile, begin - nth * steps, stop - nth * steps, tl.where(number > whole, whole * steps + end - cut, before)


@mimw.jit
def tile_chunk(tile, programs, tiles, steps):
    """The first chunk of a tile, among those of the last round."""
    return (tile - tiles // programs * programs) * steps


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
def hand_on(sums, room):
    """Leave sums to the program that ends their tile."""
    held = as_held(sums)
    tl.store(room + places(held), held)


@mimw.jit
def plus_others(sums, tail, begin, piece: tl.constexpr, PIECES: tl.constexpr):
    """A piece of sums, which begin at chunk `begin` of their tile, and that of the programs in front. With the first piece flags
    are waited for, with the last one they are cleared.

    tail: (room, flags, this program's place among them, how far apart places are, program, sharers, chunks of the last round, the
    first of them in this tile)
    """
    room, flags, place, apart, program, sharers, chunks, first = tail
    SIZE: tl.constexpr = sums.shape[0] * sums.shape[1]
    held = as_held(sums)
    while begin > 0:
        program -= 1
        place -= apart
        if piece == 0:
            tl.atomic_poll(flags + place, 1, sem="acquire", scope="gpu")
        held += tl.load(room + (place * PIECES + piece) * SIZE + places(held), cache_modifier=".cg")
        if piece == PIECES - 1:
            tl.atomic_store(flags + place, 0, sem="relaxed", scope="gpu")
        begin = first_chunk(program, sharers, chunks) - first
    return as_tile(held, sums)
