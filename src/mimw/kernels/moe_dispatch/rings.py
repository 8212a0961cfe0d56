"""Rows of tokens in memory, and rings of slots for them in shared memory: what every form of the dispatch is made of.

Input: rows, and a slot's number. Output: copies on their way. For example:

    fill(ring, slot, Rows(x, x_scales, WORDS, SCALES).at(token))        signalled by ring.full[slot]
    drain(ring, slot, found.at(place))                                  the task's own to wait for
    tell(signals, number, 2)                                            peers may read what has arrived there
"""

import triton.language as tl

import mimw
import mimw.tle as tle
import mimw.tlx as tlx


@tle.struct
class Rows:
    """Rows of WORDS words of 32 bits, and of SCALES words beside each, if any."""
    words: tl.tensor
    scales: tl.tensor
    WORDS: tl.constexpr
    SCALES: tl.constexpr

    @mimw.jit
    def at(self, number):
        """The rows from one on."""
        return Rows(self.words + number * self.WORDS, self.scales + number * self.SCALES, self.WORDS, self.SCALES)


@tle.struct
class Ring:
    """STAGES slots for rows and their scales in shared memory, and their barriers."""
    words: tlx.buffered_tensor
    scales: tlx.buffered_tensor
    full: tlx.mbarrier
    free: tlx.mbarrier
    STAGES: tl.constexpr


@tle.struct
class Home:
    """The places of rows here, by rank, round and choice, in shared memory; and the barrier that says when they are known."""
    places: tle.gpu.buffered_tensor
    placed: tlx.mbarrier


@mimw.jit
def number(table, index):
    """One number of an array in shared memory."""
    return tl.load(tle.gpu.local_ptr(table, (index, )))


@mimw.jit
def fill(ring, slot, row):
    """Start copying a row, and its scales, into a slot of a ring."""
    tlx.barrier_expect_bytes(ring.full[slot], 4 * (row.WORDS + row.SCALES))
    tlx.async_load(row.words, ring.words[slot], bulk=True, bulk_size=4 * row.WORDS, barrier=ring.full[slot])
    if row.SCALES:
        tlx.async_load(row.scales, ring.scales[slot], bulk=True, bulk_size=4 * row.SCALES, barrier=ring.full[slot])


@mimw.jit
def drain(ring, slot, row):
    """Start copying a slot of a ring to a row and its scales."""
    tlx.async_store(row.words, ring.words[slot], 4 * row.WORDS)
    if row.SCALES:
        tlx.async_store(row.scales, ring.scales[slot], 4 * row.SCALES)


@mimw.jit
def tell(signals, value, STEPS: tl.constexpr):
    """Set the words of STEPS ranks, behind one fence for all: what this task has put there has arrived."""
    tlx.fence("sys")
    for step in tl.static_range(STEPS):
        tlx.signal(signals[step], value, op="set", sem="relaxed")
