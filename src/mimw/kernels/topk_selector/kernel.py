"""Top-k selector: the places of the K largest in a window of each row, for rows of any length, by digits of 11 bits.

Input: x [rows, N], and where each row's window begins and ends. Output: the places of the K largest [rows, K], in any order, -1
behind those of a window with fewer. For example, for K = 2 and a window from 1 to 4:

    x = 9 5 7 2         places 1 2

A row streams through its CTAs twice, and no number of it is kept: the first time its highest digits are counted, in shared memory.
The digit of the K-th largest is where the counts, summed from the highest digit down, reach K. The second time, numbers with
higher digits are results, and those with this digit are candidates, whose places go into lists in shared memory. One CTA then finds
the K-th largest among the candidates, digit by digit. Where they are more than the list has room for, the row streams through once
more for each further digit. A cluster shares a row tile by tile.
"""

from typing import Any

import triton.language as tl

import mimw
import mimw.tle as tle
import mimw.tlx as tlx

DIGIT = tl.constexpr(11)        # bits
BINS = tl.constexpr(1 << 11)
HIGHEST = tl.constexpr(21)      # where the first of three digits begins; the last one has 10 bits


@tle.struct
class SelectorForm:
    """The constants of a launch: BLOCK numbers at a time; places in shared memory for ROOM results, K or more, and for CANDIDATES,
    ROOM or more."""
    BLOCK: tl.constexpr
    ROOM: tl.constexpr
    CANDIDATES: tl.constexpr


@tle.struct
class Row:
    """A row's window of columns, which the CTAs of `mesh` share, this one of `rank`; None: one CTA has it all. It is read BLOCK
    numbers at a time, in `layout`; LARGEST: the largest of them are wanted."""
    pointer: tl.tensor
    begin: Any
    end: Any
    rank: Any
    mesh: tl.constexpr
    layout: tl.constexpr
    BLOCK: tl.constexpr
    LARGEST: tl.constexpr


@tle.struct
class Found:
    """Highest digits of the K-th largest key: the key's bits that are known, as a mask, and their values; and where the next digit
    begins."""
    shift: tl.tensor
    known: tl.tensor
    prefix: tl.tensor


@tle.struct
class Tables:
    """Counts of digits; of a cluster also the sums of this CTA's share of the digits, and those of all shares."""
    counts: tle.gpu.buffered_tensor
    sums: tle.gpu.buffered_tensor | None
    shares: tle.gpu.buffered_tensor | None


@tle.struct
class Lists:
    """Columns of results, and behind them as many, HALF, of candidates; and how many there are of either."""
    columns: tle.gpu.buffered_tensor
    counters: tle.gpu.buffered_tensor
    HALF: tl.constexpr


@tle.struct
class Results:
    """Places for the results of a row, from number `first` on; values may be None."""
    indices: tl.tensor
    values: tl.tensor | None
    first: tl.tensor


@mimw.jit
def keys_of(x, LARGEST: tl.constexpr):
    """Unsigned numbers that are ordered as fp32 numbers are, or the other way round. NaN is larger than all numbers."""
    bits = x.to(tl.uint32, bitcast=True)
    key = tl.where(x != x, 0xFFFFFFFF, tl.where(bits >= 0x80000000, bits ^ 0xFFFFFFFF, bits ^ 0x80000000)).to(tl.uint32)
    return key if LARGEST else ~key


@mimw.jit
def keys_at(row, column, inside):
    """Keys of a tile of columns, those `inside` or, for None, all of them; nothing below moves a key between threads where the
    layout is given."""
    if inside is None:
        x = tl.load(row.pointer + column)
    else:
        x = tl.load(row.pointer + column, mask=inside, other=0.0)
    if row.layout is not None:
        x = tlx.require_layout(x, row.layout)
    return keys_of(x.to(tl.float32), row.LARGEST)


@mimw.jit
def both(one, other):
    """The conjunction of two masks, each of which may be None: all."""
    if one is None:
        return other
    elif other is None:
        return one
    else:
        return one & other


@mimw.jit
def count(keys, mask, table, found, FIRST: tl.constexpr):
    """Add the digits of keys to the table: of those that begin with what is found, which of a FIRST digit is nothing."""
    if not FIRST:
        mask = both(mask, (keys & found.known) == found.prefix)
        keys = keys & ~found.known
    tl.atomic_add(tle.gpu.local_ptr(table, ((keys >> found.shift).to(tl.int32), )), 1, mask=mask, sem="relaxed")


@mimw.jit
def collect(keys, column, mask, found, lists):
    """Columns of larger keys go into the first half of the list, those of candidates into the second one, while there is room."""
    high = keys & found.known
    larger = high > found.prefix
    mask = both(mask, high >= found.prefix)
    place = tl.atomic_add(tle.gpu.local_ptr(lists.counters, (tl.where(larger, 0, 1), )), 1, mask=mask, sem="relaxed")
    fits = mask & (place < lists.HALF)
    # An exchange, and not a store, since a store would first move the tile between threads.
    at = tle.gpu.local_ptr(lists.columns, (tl.where(larger, place, lists.HALF + place), ))
    tl.atomic_xchg(at, column, mask=fits, sem="relaxed")


@mimw.jit
def next_digit(counts, first, beyond, found, wanted):
    """(what is found with the digit of the wanted-th largest key, how many of its keys are wanted, how many there are), of counts
    of the digits from `first` on, among which it is; `beyond` keys have digits behind these."""
    shift = found.shift
    above, _ = tle.cumsum(counts, reverse=True)
    above += beyond
    digits = first + tl.arange(0, counts.shape[0])
    word = (above.to(tl.int64) << (25 + DIGIT)) | (counts.to(tl.int64) << DIGIT) | digits      # 25 bits each for the counts
    word = tl.sum(tl.where((above < wanted) & (above + counts >= wanted), word, 0))
    prefix = found.prefix | ((word & (BINS - 1)).to(tl.uint32) << shift)
    known = (tl.full((), 0xFFFFFFFF, tl.uint32) >> shift) << shift
    found = Found(tl.where(shift == HIGHEST, HIGHEST - DIGIT, 0).to(tl.uint32), known, prefix)
    return found, wanted - (word >> (25 + DIGIT)).to(tl.int32), ((word >> DIGIT) & ((1 << 25) - 1)).to(tl.int32)


@mimw.jit
def digit_of_row(tables, row, found, wanted):
    """`next_digit` of the counts of all CTAs of a row: each sums up its share of the digits, and all look into the one share in
    which the sums, from the highest share down, reach what is wanted."""
    mesh: tl.constexpr = row.mesh
    if mesh is None:
        return next_digit(tl.load(tle.gpu.local_ptr(tables.counts)), 0, 0, found, wanted)
    else:
        SIZE: tl.constexpr = mesh.size
        SHARE: tl.constexpr = BINS // SIZE
        rank, number, ranks = row.rank, tl.arange(0, SHARE), tl.arange(0, SIZE)
        tle.distributed_barrier(mesh)       # all have counted
        counts = tl.zeros((SHARE, ), tl.int32)
        for cta in tl.static_range(SIZE):
            counts += tl.load(tle.gpu.local_ptr(tle.remote(tables.counts, cta, mesh), (rank * SHARE + number, )))
        tl.store(tle.gpu.local_ptr(tables.sums), counts)
        total = tl.sum(counts)
        for cta in tl.static_range(SIZE):
            tl.store(tle.gpu.local_ptr(tle.remote(tables.shares, cta, mesh), [rank]), total)
        tle.distributed_barrier(mesh)       # tables may be cleared; the next sums are behind the next barrier
        totals = tl.load(tle.gpu.local_ptr(tables.shares))
        beyond, _ = tle.cumsum(totals, reverse=True)
        there = (beyond < wanted) & (beyond + totals >= wanted)
        owner = tl.sum(tl.where(there, ranks, 0))
        counts = tl.load(tle.gpu.local_ptr(tle.remote(tables.sums, owner, mesh), (number, )))
        return next_digit(counts, owner * SHARE, tl.sum(tl.where(there, beyond, 0)), found, wanted)


@mimw.jit
def count_all(row, table, found, FIRST: tl.constexpr):
    """Count each digit in this CTA's tiles of the row."""
    SIZE: tl.constexpr = 1 if row.mesh is None else row.mesh.size
    BLOCK: tl.constexpr = row.BLOCK
    begin, end = row.begin, row.end
    tl.store(tle.gpu.local_ptr(table), tl.zeros((BINS, ), tl.int32))
    for tile in range(begin // BLOCK + row.rank, tl.cdiv(end, BLOCK), SIZE):
        column = tile * BLOCK + tl.arange(0, BLOCK)
        if (tile * BLOCK >= begin) & (tile * BLOCK + BLOCK <= end):
            count(keys_at(row, column, None), None, table, found, FIRST)
        else:
            inside = (column >= begin) & (column < end)
            count(keys_at(row, column, inside), inside, table, found, FIRST)


@mimw.jit
def collect_all(row, found, lists):
    """The columns of this CTA's tiles of the row, as `collect` says."""
    SIZE: tl.constexpr = 1 if row.mesh is None else row.mesh.size
    BLOCK: tl.constexpr = row.BLOCK
    begin, end = row.begin, row.end
    tl.store(tle.gpu.local_ptr(lists.counters), tl.zeros((2, ), tl.int32))
    for tile in range(begin // BLOCK + row.rank, tl.cdiv(end, BLOCK), SIZE):
        column = tile * BLOCK + tl.arange(0, BLOCK)
        if (tile * BLOCK >= begin) & (tile * BLOCK + BLOCK <= end):
            collect(keys_at(row, column, None), column, None, found, lists)
        else:
            inside = (column >= begin) & (column < end)
            collect(keys_at(row, column, inside), column, inside, found, lists)


@mimw.jit
def emit(row, results, to, columns, mask):
    """Results number `to` of the row: where they are and, if that is wanted, what."""
    to = results.first + to
    tl.store(results.indices + to, columns, mask=mask)
    if results.values is not None:
        tl.store(results.values + to, tl.load(row.pointer + columns, mask=mask), mask=mask)


@mimw.jit
def choose(row, results, table, counters, columns, candidates, found, wanted, start):
    """The `wanted` largest of the first `candidates` of a list of columns become results from number `start` on."""
    number = tl.arange(0, columns.shape[0])
    there = number < candidates
    column = tl.load(columns, mask=there, other=0)
    keys = keys_of(tl.load(row.pointer + column, mask=there, other=0.0).to(tl.float32), row.LARGEST)
    left, rest = candidates, wanted
    while (left > rest) & (found.known != 0xFFFFFFFF):
        tl.store(tle.gpu.local_ptr(table), tl.zeros((BINS, ), tl.int32))
        count(keys, there, table, found, False)
        found, rest, left = next_digit(tl.load(tle.gpu.local_ptr(table)), 0, 0, found, rest)
    # Now `rest` of the `left` keys that begin with what is found are wanted: all, or any of equal ones.
    high = keys & found.known
    tl.store(tle.gpu.local_ptr(counters), tl.zeros((2, ), tl.int32))
    larger = high > found.prefix
    taken = there & (high >= found.prefix)
    place = tl.atomic_add(tle.gpu.local_ptr(counters, (tl.where(larger, 0, 1), )), 1, mask=taken, sem="relaxed")
    taken = taken & (larger | (place < rest))
    emit(row, results, start + tl.where(larger, place, wanted - rest + place), column, taken)


@mimw.jit
def topk_selector(x, starts, ends, indices, values, N, K, stride, mesh: tl.constexpr, layout: tl.constexpr, FORM: tl.constexpr,
                  LARGEST: tl.constexpr = True):
    """indices[row] = where the K largest (or smallest) of x[row, starts[row]:ends[row]] are, in any order, then -1.

    args:      starts, ends   int32; None for whole rows
               values         (rows, K) of x's type: what is there; None where nobody asks
               layout         of the numbers that are read at a time (`SelectorForm`), or None
    """
    SIZE: tl.constexpr = 1 if mesh is None else mesh.size
    CANDIDATES: tl.constexpr = FORM.CANDIDATES
    rank, row = 0, tl.program_id(0)
    if mesh is not None:
        rank, row = tle.shard_id(mesh, "cluster"), tl.program_id(0) // SIZE
    begin, end = 0, N
    if starts is not None:
        begin = tl.minimum(tl.maximum(tl.load(starts + row), 0), N)
        end = tl.minimum(tl.maximum(tl.load(ends + row), begin), N)
    of_row = Row(x + row.to(tl.int64) * stride, begin, end, rank, mesh, layout, FORM.BLOCK, LARGEST)
    results = Results(indices, values, row.to(tl.int64) * K)
    number = tl.arange(0, FORM.ROOM)
    table, counters = tle.gpu.alloc([BINS], tl.int32), tle.gpu.alloc([2], tl.int32)
    room = tle.gpu.alloc([2 * CANDIDATES], tl.int32, init_value=tl.zeros((2 * CANDIDATES, ), tl.int32))
    lists = Lists(room, counters, CANDIDATES)
    sums = None if mesh is None else tle.gpu.alloc([BINS // SIZE], tl.int32)
    shares = None if mesh is None else tle.gpu.alloc([SIZE], tl.int32)
    tables = Tables(table, sums, shares)
    merged = None if mesh is None else tle.gpu.alloc([CANDIDATES], tl.int32)
    totals = None if mesh is None else tle.gpu.alloc([SIZE], tl.int32)
    if end - begin <= K:
        if rank == 0:
            emit(of_row, results, number, begin + number, number < end - begin)
            tl.store(indices + results.first + number, -1, mask=(number >= end - begin) & (number < K))
    else:
        found = Found(tl.full((), HIGHEST, tl.uint32), tl.full((), 0, tl.uint32), tl.full((), 0, tl.uint32))
        wanted, left = K, end - begin
        if left > CANDIDATES:
            count_all(of_row, table, found, True)
            found, wanted, left = digit_of_row(tables, of_row, found, wanted)
        while (left > CANDIDATES) & (found.known != 0xFFFFFFFF):
            count_all(of_row, table, found, False)
            found, wanted, left = digit_of_row(tables, of_row, found, wanted)
        collect_all(of_row, found, lists)
        larger = tl.load(tle.gpu.local_ptr(counters, [0]))
        candidates = tl.minimum(tl.load(tle.gpu.local_ptr(counters, [1])), CANDIDATES)
        before, all_candidates = 0, candidates
        entry = tl.arange(0, CANDIDATES)
        if mesh is not None:
            for cta in tl.static_range(SIZE):
                tl.store(tle.gpu.local_ptr(tle.remote(totals, cta, mesh), [rank]), larger | (candidates << 16))
            tle.distributed_barrier(mesh)
            ranks, words = tl.arange(0, SIZE), tl.load(tle.gpu.local_ptr(totals))
            before = tl.sum(tl.where(ranks < rank, words & 0xFFFF, 0))
            earlier = tl.sum(tl.where(ranks < rank, words >> 16, 0))
            all_candidates = tl.minimum(tl.sum(words >> 16), CANDIDATES)
            fits = (entry < candidates) & (earlier + entry < CANDIDATES)
            column = tl.load(tle.gpu.local_ptr(lists.columns, (CANDIDATES + entry, )), mask=fits, other=0)
            to = tl.where(fits, earlier + entry, 0)
            tl.store(tle.gpu.local_ptr(tle.remote(merged, 0, mesh), (to, )), column, mask=fits)
            tle.distributed_barrier(mesh)
        mine = number < larger
        emit(of_row, results, before + number, tl.load(tle.gpu.local_ptr(lists.columns, (number, )), mask=mine, other=0), mine)
        if rank == 0:
            if mesh is None:
                columns = tle.gpu.local_ptr(lists.columns, (CANDIDATES + entry, ))
            else:
                columns = tle.gpu.local_ptr(merged, (entry, ))
            choose(of_row, results, table, counters, columns, all_candidates, found, wanted, K - wanted)
