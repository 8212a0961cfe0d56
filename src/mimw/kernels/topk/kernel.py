"""Radix select: the K largest of each row, by counting digits in shared memory.

Input: x [rows, N]. Output: values and indices [rows, K], in any order. For example, for K = 2:

    x = 7 5 7 2         values 7 7, indices 0 2

A row is read once and stays in registers, as unsigned keys in the order of the row's values. The K-th largest key is
found digit by digit, the highest first: count the digits of all keys that share the digits found so far; the next digit
is the one at which the counts, summed from the highest digit down, reach K. Then all larger keys go out, and as many of
the equal keys as are missing. A row too long for one CTA is shared by the CTAs of a cluster, each of which reads the
counts of the others.
"""

from typing import Any

import triton.language as tl

import mimw
import mimw.tle as tle
import mimw.tlx as tlx


@tle.struct
class SelectForm:
    """The constants of a launch. BLOCK numbers are in the registers of a CTA: thread t of THREADS has EACH neighbours of every
    THREADS * EACH. Digits have DIGIT bits, each count has COPIES places, and LIST results are written together."""
    BLOCK: tl.constexpr
    THREADS: tl.constexpr
    EACH: tl.constexpr
    COPIES: tl.constexpr
    DIGIT: tl.constexpr
    LIST: tl.constexpr


@tle.struct
class Split:
    """The CTA number `rank` of those of `mesh` that share a row of numbers of BITS bits; None: one CTA has it all."""
    rank: Any
    mesh: tl.constexpr
    BITS: tl.constexpr


@mimw.jit
def keys_of(x, BITS: tl.constexpr, LARGEST: tl.constexpr, NAN: tl.constexpr):
    """Unsigned numbers in 32 bits that are ordered as the values are, or the other way round: -0.0 is below 0.0. With NAN all NaN
    are above all numbers, else where their bits put them."""
    SIGN: tl.constexpr = 1 << (BITS - 1)
    ONES: tl.constexpr = (1 << BITS) - 1
    bits = x.to(tl.uint16 if BITS == 16 else tl.uint32, bitcast=True).to(tl.uint32)
    keys = tl.where(bits >= SIGN, bits ^ ONES, bits ^ SIGN)
    if NAN:
        keys = tl.where(x != x, ONES, keys)
    if not LARGEST:
        keys = keys ^ ONES
    return keys


@mimw.jit
def everywhere(counts, sums, mesh: tl.constexpr):
    """Counts summed over the CTAs of the cluster, in each of them. `sums` must be used once only."""
    SIZE: tl.constexpr = mesh.size
    bins = tl.arange(0, counts.shape[0])
    tl.store(tle.gpu.local_ptr(sums), counts)
    tle.distributed_barrier(mesh)
    total = tl.zeros_like(counts)
    for cta in tl.static_range(SIZE):
        total += tl.load(tle.gpu.local_ptr(tle.remote(sums, cta, mesh), (bins, )))
    return total


@mimw.jit
def digit_of(counts, wanted):
    """(the digit of the wanted-th largest key, how many keys have larger ones), of the counts of all digits."""
    above, _ = tle.cumsum(counts, reverse=True)
    bins = tl.arange(0, counts.shape[0])
    found = tl.sum(tl.where((above < wanted) & (above + counts >= wanted), above * counts.shape[0] + bins, 0))
    return found % counts.shape[0], found // counts.shape[0]


@mimw.jit
def last_key(key, thread, wanted, split, DIGIT: tl.constexpr, COPIES: tl.constexpr):
    """(the wanted-th largest key of a row, how many of the keys equal to it are among the wanted ones).

    A count has COPIES places, neighbouring threads add to different ones: shared memory has 32 banks, and the high digits of
    numbers of one size are few.
    """
    BINS: tl.constexpr = 1 << DIGIT
    BITS: tl.constexpr = split.BITS
    table = tle.gpu.alloc([BINS, COPIES], tl.int32)
    prefix = tl.full((), 0, tl.uint32)
    for step in tl.static_range(BITS // DIGIT):
        shift = BITS - DIGIT * (step + 1)
        tl.store(tle.gpu.local_ptr(table), tl.zeros((BINS, COPIES), tl.int32))
        digits = (key >> shift & (BINS - 1)).to(tl.int32)
        counted = tle.gpu.local_ptr(table, (digits, thread % COPIES))
        if step == 0:
            tl.atomic_add(counted, 1, sem="relaxed")
        else:
            tl.atomic_add(counted, 1, mask=key >> (shift + DIGIT) == prefix, sem="relaxed")
        counts = tl.sum(tl.load(tle.gpu.local_ptr(table)), 1)
        if split.mesh is not None:
            counts = everywhere(counts, tle.gpu.alloc([BINS], tl.int32), split.mesh)
        digit, above = digit_of(counts, wanted)
        wanted -= above
        prefix = (prefix << DIGIT) | digit.to(tl.uint32)
    return prefix, wanted


@mimw.jit
def numbered(larger, found, thread, THREADS: tl.constexpr):
    """(the number of each larger key among these in the low half of a word, of each other one that is found in the high half; how
    many there are, likewise). Each thread numbers what it holds; the sums before it are where its own begin."""
    cursors = tle.gpu.alloc([THREADS], tl.int32)
    tl.store(tle.gpu.local_ptr(cursors), tl.zeros((THREADS, ), tl.int32))
    own = tle.gpu.local_ptr(cursors, (thread, ))
    place = tl.atomic_add(own, tl.where(larger, 1, 1 << 16), mask=found, sem="relaxed")
    before, total = tle.cumsum(tl.load(tle.gpu.local_ptr(cursors)))
    tl.store(tle.gpu.local_ptr(cursors), before)
    place += tl.load(own)
    return place, total


@mimw.jit
def totals_before(total, split):
    """(larger keys, equal keys) of the CTAs before this one, whose totals are words of two halves."""
    SIZE: tl.constexpr = split.mesh.size
    totals = tle.gpu.alloc([SIZE], tl.int32)
    for cta in tl.static_range(SIZE):
        tl.store(tle.gpu.local_ptr(tle.remote(totals, cta, split.mesh), [split.rank]), total)
    tle.distributed_barrier(split.mesh)
    earlier = tl.where(tl.arange(0, SIZE) < split.rank, tl.load(tle.gpu.local_ptr(totals)), 0)
    return tl.sum(earlier & 0xFFFF), tl.sum(earlier >> 16 & 0xFFFF)


@mimw.jit
def topk(x_ptr, values_ptr, indices_ptr, N, K, stride, mesh: tl.constexpr, layout: tl.constexpr, FORM: tl.constexpr,
         LARGEST: tl.constexpr = True, NAN: tl.constexpr = False):
    """values[row], indices[row] = the K largest (or smallest) of x[row, :N] and where they are, in any order. `layout` is that of
    the numbers of a CTA (`SelectForm`). With a mesh, a row is spread over a cluster."""
    TYPE: tl.constexpr = x_ptr.dtype.element_ty
    BITS: tl.constexpr = TYPE.primitive_bitwidth
    SIZE: tl.constexpr = 1 if mesh is None else mesh.size
    rank, row = 0, tl.program_id(0)
    if mesh is not None:
        rank = tle.shard_id(mesh, "cluster")
        row = tl.program_id(0) // SIZE
    split = Split(rank, mesh, BITS)
    element = tl.arange(0, FORM.BLOCK)
    column = rank * FORM.BLOCK + element
    x = tl.load(x_ptr + row.to(tl.int64) * stride + column, mask=column < N, other=0)
    # Nothing below moves keys between threads: each counts its own. The pin keeps the compiler from dealing them out anew.
    key = tl.maximum(keys_of(tlx.require_layout(x, layout), BITS, LARGEST, NAN), 1)
    key = tl.where(column < N, key, 0)  # below all that is there, -inf too: never among the K largest of N >= K
    thread = tlx.require_layout(element, layout, pin=False) // FORM.EACH % FORM.THREADS

    last, wanted = last_key(key, thread, K, split, FORM.DIGIT, FORM.COPIES)
    larger, found_here = key > last, key >= last
    place, total = numbered(larger, found_here, thread, FORM.THREADS)
    larger_before, equal_before = 0, 0
    if mesh is not None:
        larger_before, equal_before = totals_before(total, split)
    found = total & 0xFFFF
    ties = tl.minimum(total >> 16 & 0xFFFF, tl.maximum(wanted - equal_before, 0))

    # Where the taken ones are goes into a list in shared memory, LIST at a time, and from there in whole lines to global memory.
    tie = place >> 16 & 0xFFFF
    taken = found_here & (larger | (tie < ties))
    place = tl.where(larger, place & 0xFFFF, found + tie)
    columns = tle.gpu.alloc([FORM.LIST], tl.int32, init_value=tl.zeros((FORM.LIST, ), tl.int32))
    out, number = row.to(tl.int64) * K, tl.arange(0, FORM.LIST)
    for start in range(0, found + ties, FORM.LIST):
        now = taken & (place >= start) & (place < start + FORM.LIST)
        tl.atomic_xchg(tle.gpu.local_ptr(columns, (place - start, )), column, mask=now, sem="relaxed")
        entry = start + number
        to = out + tl.where(entry < found, larger_before + entry, K - wanted + equal_before + entry - found)
        filled = entry < found + ties
        where = tl.load(tle.gpu.local_ptr(columns))
        tl.store(values_ptr + to, tl.load(x_ptr + row.to(tl.int64) * stride + where, mask=filled), mask=filled)
        tl.store(indices_ptr + to, where, mask=filled)
