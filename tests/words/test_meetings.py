"""Ops at which all threads of a task meet by their memory order, or to hand a number round: in the code, and refused."""

import re

import numpy as np
import pytest
import triton.language as tl

import mimw
import mimw.tlx as tlx
from mimw.errors import KernelError, SimulatorMisuse

CHIPS = {"gfx950": r"^\ts_barrier", "sm_90a": r"\bbar\.sync\b"}


@mimw.jit
def for_some(x_ptr, y_ptr, WHAT: tl.constexpr, SEM: tl.constexpr, USED: tl.constexpr):
    """An op under a condition that half of the threads meet."""
    at = tl.arange(0, 512)
    if tlx.thread_id(0) < 128:
        if WHAT == "number":
            old = tl.atomic_add(x_ptr, 1, sem=SEM)
            if USED:
                tl.store(y_ptr, old)
        if WHAT == "swap":
            old = tl.atomic_cas(x_ptr, 0, 1, sem=SEM)
            if USED:
                tl.store(y_ptr, old)
        if WHAT == "tile":
            tl.atomic_add(x_ptr + at, 1, sem=SEM)
        if WHAT == "volatile":
            tl.store(y_ptr, tl.load(x_ptr, volatile=True))
        if WHAT == "fence":
            tlx.fence(SEM)


CASES = [("number", "relaxed", False), ("number", "relaxed", True), ("number", "acquire", False), ("number", "acq_rel", False),
         ("swap", "relaxed", False), ("swap", "relaxed", True), ("swap", "release", False), ("tile", "relaxed", False),
         ("tile", "acquire", False), ("volatile", None, True), ("fence", "gpu", False)]


@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize("what, sem, used", CASES)
def test_it_is_refused_iff_there_is_a_barrier_in_the_code(what, sem, used, chip):
    """All other threads would never come to that barrier."""
    args = np.zeros(512, np.int32), np.zeros(512, np.int32), what, sem, used
    code = mimw.compile(for_some, (1, ), *args, num_warps=4 if chip == "gfx950" else 8, target=chip)
    meets = bool(re.search(CHIPS[chip], code.amdgcn if chip == "gfx950" else code.ptx, re.MULTILINE))
    assert meets == (sem not in ("relaxed", None) or used and what in ("number", "swap"))
    if not meets:
        mimw.simulate(for_some, (1, ), *args, num_warps=4 if chip == "gfx950" else 8, target=chip)
        return
    with pytest.raises(SimulatorMisuse, match="needs all threads of the task, but stands under an `if`") as caught:
        mimw.simulate(for_some, (1, ), *args, num_warps=8, target=chip)
    assert "one thread hands its result to all" in str(caught.value) or "is one of all threads" in str(caught.value)


@mimw.jit
def in_a_stage(x_ptr, y_ptr, trips, WHAT: tl.constexpr, SEM: tl.constexpr):
    at = tl.arange(0, 512)
    for i in range(trips):
        with tlx.warp_pipeline_stage():
            if WHAT == "tile":
                tl.atomic_add(x_ptr + at, 1, sem=SEM)
            if WHAT == "buffer":
                tlx.buffer_atomic_add(x_ptr, at, at, sem=SEM)
            if WHAT == "fence":
                tlx.fence(SEM)
        with tlx.warp_pipeline_stage():
            tl.store(y_ptr + i * 512 + at, at)


@pytest.mark.parametrize("what, sem, refused", [("tile", "relaxed", False), ("tile", "acq_rel", True), ("buffer", "relaxed", False),
                                                ("buffer", "release", True), ("fence", "gpu", True)])
def test_in_a_stage_it_would_meet_the_border_of_the_other_half(what, sem, refused):
    """A wave's barriers are counted: two before the loop and one behind it for the borders to be one apart, and two a trip."""
    x, y = np.zeros(512, np.int32), np.zeros(4 * 512, np.int32)
    if refused:
        with pytest.raises(KernelError, match="waits for all waves of the work-group, of which half are in another stage"):
            mimw.simulate(in_a_stage, (1, ), x, y, 4, what, sem, num_warps=8, target="gfx950")
        return
    code = mimw.compile(in_a_stage, (1, ), x, y, 4, what, sem, num_warps=8, target="gfx950")
    barriers, trips = len(re.findall(r"^\ts_barrier", code.amdgcn, re.MULTILINE)), code.amdgcn.count("global_store_dword")
    assert barriers == 3 + 2 * trips
