"""Sums of a tile whose K is divided among the CTAs of a cluster: each CTA gets the others' sums of some columns of its own.

Input: a CTA's sums of all columns of a tile. Output: the tile's sums of the CTA's columns, added in the order of CTAs. For example:

    exchange = exchange_of(tiles, SPLIT)
    mine = exchange.sums(acc, me)               of 64 x 64 sums and four CTAs, 64 x 16

The sums go from shared memory to shared memory by bulk copies, whose bytes the receiver counts.
"""

import triton.language as tl

import mimw
import mimw.tle as tle
import mimw.tlx as tlx

from ..gemm.product import columns


@tle.struct
class Exchange:
    """For each consumer, SPLIT buffers of sums that leave, one for each CTA, and as many for what comes, which `arrived` counts."""
    leaving: tlx.buffered_tensor | None
    coming: tlx.buffered_tensor | None
    arrived: tlx.mbarrier | None
    SPLIT: tl.constexpr

    @mimw.jit
    def sums(self, acc, me: tl.constexpr):
        """Those of this CTA's columns."""
        rank = tlx.cluster_cta_rank()
        tlx.barrier_expect_bytes(self.arrived[me], acc.shape[0] * acc.shape[1] * 4)
        for cta in tl.static_range(self.SPLIT):
            tlx.local_store(self.leaving[me * self.SPLIT + cta], columns(acc, cta, self.SPLIT))
        tlx.fence("async_shared")
        for cta in tl.static_range(self.SPLIT):
            there, here = self.coming[me * self.SPLIT + rank], self.leaving[me * self.SPLIT + cta]
            tlx.async_remote_shmem_copy(there, here, cta, self.arrived[me])
        tlx.barrier_wait(self.arrived[me], 0)
        total = tlx.local_load(self.coming[me * self.SPLIT])
        for cta in tl.static_range(1, self.SPLIT):
            total += tlx.local_load(self.coming[me * self.SPLIT + cta])
        return total


@mimw.jit
def exchange_of(tiles, SPLIT: tl.constexpr):
    """The buffers of all consumers, if there is something to exchange."""
    exchange = Exchange(None, None, None, SPLIT)
    if SPLIT > 1:
        SHAPE: tl.constexpr = (tiles.rows(), tiles.BN // SPLIT)
        COUNT: tl.constexpr = SPLIT * tiles.CONSUMERS
        exchange = Exchange(tlx.local_alloc(SHAPE, tl.float32, COUNT), tlx.local_alloc(SHAPE, tl.float32, COUNT),
                            tlx.alloc_barriers(tiles.CONSUMERS), SPLIT)
    return exchange
