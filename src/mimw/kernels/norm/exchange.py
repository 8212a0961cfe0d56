"""Numbers of a row that the CTAs of a cluster send to each other, since each has a part of the row.

Input: two numbers, or a few sums, of each CTA. Output: those of all CTAs, in each of them. For example:

    exchange = exchange_of(2 * CONSUMERS, rank, CLUSTER)
    place = me * 2 + turn % 2
    send_pair(exchange.at(place), largest, total)
    largests, totals = received_pairs(exchange.at(place), turn // 2 % 2)    [CLUSTER] each

Each consumer has two buffers, which it takes in turn: who has sent for its row i + 1 has read what came for row i - 1, not for
row i.
"""

from typing import Any

import triton.language as tl

import mimw
import mimw.tle as tle
import mimw.tlx as tlx


@tle.struct
class Exchange:
    """Buffers with a row of numbers for each of CLUSTER CTAs, of which `rank` is this one, and barriers that count the bytes; None
    without a cluster."""
    numbers: tlx.buffered_tensor | None
    arrived: tlx.mbarrier | None
    rank: Any
    CLUSTER: tl.constexpr

    @mimw.jit
    def at(self, place):
        """One buffer and its barrier."""
        return Exchange(self.numbers[place], self.arrived[place], self.rank, self.CLUSTER)


@mimw.jit
def exchange_of(PLACES: tl.constexpr, rank, CLUSTER: tl.constexpr, COUNT: tl.constexpr = 2):
    """So many buffers with COUNT numbers of each CTA."""
    exchange = Exchange(None, None, rank, CLUSTER)
    if CLUSTER > 1:
        exchange = Exchange(tlx.local_alloc((CLUSTER, COUNT), tl.float32, PLACES), tlx.alloc_barriers(PLACES), rank, CLUSTER)
    return exchange


@mimw.jit
def send(place, numbers, COUNT: tl.constexpr):
    """Write a tile of COUNT numbers of this CTA to every CTA of the cluster. The bytes of an early sender may come before they are
    expected: a phase ends when arrivals and bytes both add up."""
    tlx.barrier_expect_bytes(place.arrived, 4 * COUNT * place.CLUSTER)
    for cta in tl.static_range(place.CLUSTER):
        tlx.async_remote_shmem_store(place.numbers[place.rank], numbers, cta, place.arrived)


@mimw.jit
def send_pair(place, first, second):
    """Send two numbers of this CTA to every CTA of the cluster."""
    send(place, tl.where(tl.arange(0, 2) == 0, first, second), 2)


@mimw.jit
def received_pairs(place, phase):
    """The two numbers of each CTA, once they are all there."""
    tlx.barrier_wait(place.arrived, phase)
    return tlx.local_load(place.numbers).split()


@mimw.jit
def send_sums(place, sums):
    """Send these numbers of this CTA to every CTA of the cluster; buffers are as wide as they are many, 2 at least."""
    COUNT: tl.constexpr = max(2, len(sums))
    columns = tl.arange(0, COUNT)
    numbers = tl.zeros((COUNT, ), tl.float32)
    for i in tl.static_range(len(sums)):
        numbers = tl.where(columns == i, sums[i], numbers)
    send(place, numbers, COUNT)


@mimw.jit
def received_sums(place, phase, COUNT: tl.constexpr):
    """The first COUNT numbers of each CTA, added up over all of them."""
    tlx.barrier_wait(place.arrived, phase)
    columns = tl.arange(0, max(2, COUNT))
    totals, found = tl.sum(tlx.local_load(place.numbers), 0), ()
    for i in tl.static_range(COUNT):
        found = found + (tl.sum(tl.where(columns == i, totals, 0.0)), )
    return found
