"""Readers of cluster launch control: a kernel of mimw's as compiled, which takes over the work of CTAs that have not started."""

import numpy as np
import triton.language as tl

import mimw
from mimw import tlx
from mimw.runtime.ttgir import compiled_launch


@mimw.jit
def taken_over(x_ptr):
    answer = tlx._alloc_clc_responses(1)
    full = tlx.alloc_barriers(1)
    tile, phase = tl.program_id(0), 0
    while tile != -1:
        tl.store(x_ptr + tile * 16 + tl.arange(0, 16), tile)
        tlx.barrier_expect_bytes(full[0], 16)
        tlx._clc_issue(answer[0], full[0])
        tlx.barrier_wait(full[0], phase)
        tile, _, _ = tlx._clc_query(answer[0])
        tlx.fence("async_shared")
        phase ^= 1


def test_every_tile_is_worked_on_once():
    x = np.full(96, -1, np.int32)
    _, reading = compiled_launch(taken_over, (6, ), (x, ), {}, "sm_100a")
    assert "ttng.clc_try_cancel" in reading.text and "ttng.clc_load_result" in reading.text
    report = mimw.check_compiled(taken_over, (6, ), x, target="sm_100a", seeds=4, jobs=1, rounds=False,
                                 expected={"x_ptr": np.repeat(np.arange(6, dtype=np.int32), 16)})
    assert report.ok, report
