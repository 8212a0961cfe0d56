"""Native code that arrives on a barrier, as its author declares: right iff somebody waits for what it has written."""

from typing import Literal as L

import numpy as np
import triton.language as tl

import mimw
import mimw.tle as tle
import mimw.tlx as tlx

from .tables import found, right, states

Output, ptx = tle.raw.Output, dict(name="ptx", source=".func f() { ret; }")


def filled(tile, full):
    tile[:] = 7


@tle.raw.dialect(**ptx, reference=filled, effects={"full": "arrive"})
def fill(tile: Output[L["memref<64xf32, 3>"]], full: L["barrier"]): ...


@tle.raw.dialect(**ptx, reference=filled)
def fill_quietly(tile: Output[L["memref<64xf32, 3>"]], full: L["barrier"]): ...


@mimw.jit
def handing_over(y, F: tl.constexpr, WAIT: tl.constexpr):
    tile, full = tle.gpu.alloc([64], tl.float32), tlx.alloc_barriers(1)
    with tlx.async_tasks():
        with tlx.async_task("default"):
            if WAIT:
                tlx.barrier_wait(full[0], 0)
            tl.store(y + tl.arange(0, 64), tl.load(tle.gpu.local_ptr(tile)))
        with tlx.async_task(num_warps=1):
            tle.raw.call_smem(F, [tile, full[0]])


@states("raw_arrives")
def raw_handed_over(wait=True, fn=fill):
    return handing_over, 1, (np.zeros(64, np.float32), fn, wait), {}


def test_a_declared_arrival():
    """Right iff the code arrives, and is waited for: what the code is declared to have written is then there."""
    assert right(raw_handed_over())
    found(raw_handed_over(wait=False), "DataRace", "UnwrittenRead")
    assert "nothing ever arrives there" in found(raw_handed_over(fn=fill_quietly), "TooFewArrivals").message
