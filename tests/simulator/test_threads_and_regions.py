"""A reduction and a scan in a kernel that tells its threads apart: the region's arrays are elements, not threads."""

import numpy as np
import triton.language as tl

import mimw
import mimw.tlx as tlx


@mimw.jit
def sums(x, rows, running, mark):
    tile = tl.load(x + tl.arange(0, 16)[:, None] * 32 + tl.arange(0, 32)[None, :])
    if tlx.thread_id(0) == 0:
        tl.store(mark, 1)
    tl.store(rows + tl.arange(0, 16), tl.sum(tile, 1))
    tl.store(running + tl.arange(0, 16)[:, None] * 32 + tl.arange(0, 32)[None, :], tl.cumsum(tile, 0))


def test_equal_elements_are_no_equal_threads():
    x, mark = np.ones((16, 32), np.int32), np.zeros(1, np.int32)
    rows, running = np.zeros(16, np.int32), np.zeros_like(x)
    mimw.simulate(sums, (1, ), x, rows, running, mark)
    assert (rows == 32).all() and (running == np.arange(1, 17)[:, None]).all() and mark[0] == 1
