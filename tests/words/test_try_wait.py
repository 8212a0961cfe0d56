"""`tlx.barrier_try_wait`: a flag instead of a wait. A kernel for the simulator, the GPU and the compiler."""

import re

import numpy as np
import pytest
import triton
import triton.language as tl

import mimw
import mimw.tlx as tlx
from mimw.errors import BarrierMisuse, TargetError
from mimw.runtime.compile_kernel import compile_kernel


@mimw.jit
def looking(x, y, seen, LATE: tl.constexpr):
    """One task hands a tile over, another does other work until the tile is there, and counts the times it looked in vain."""
    tile = tlx.local_alloc((128, ), tl.float32, 1)
    full = tlx.alloc_barriers(1)
    with tlx.async_tasks():
        with tlx.async_task("default"):
            at = tl.arange(0, 128)
            there = tlx.barrier_try_wait(full[0], 0)
            looks = 0
            while not there:
                looks += 1
                there = tlx.barrier_try_wait(full[0], 0)
            tl.store(y + at, tlx.local_load(tile[0]))
            tl.store(seen, tlx.barrier_try_wait(full[0], 0).to(tl.int32) + 2 * tlx.barrier_try_wait(full[0], 1).to(tl.int32))
            tl.store(seen + 1, looks)
        with tlx.async_task(num_warps=4):
            value = tl.load(x + tl.arange(0, 128))
            for _ in range(LATE):
                value = tl.sqrt(value * value)
            tlx.local_store(tile[0], value)
            tlx.barrier_arrive(full[0])


@pytest.mark.parametrize("warps", [4, 8])
def test_the_flag_is_true_once_the_phase_is_over(machine, warps):
    x, y, seen = np.arange(128, dtype=np.float32), np.zeros(128, np.float32), np.zeros(2, np.int32)
    machine.launch(looking, (1, ), x, y, seen, 50, num_warps=warps)
    assert (y == x).all() and seen[0] == 1 and seen[1] >= 0


def test_looks_in_vain_are_seen_in_some_interleaving():
    x, y, seen = np.arange(128, dtype=np.float32), np.zeros(128, np.float32), np.zeros(2, np.int32)
    looks = set()
    for seed in range(8):
        mimw.simulate(looking, (1, ), x, y, seen, 20, seed=seed)
        looks.add(int(seen[1]))
    assert len(looks) > 1 and (y == x).all()


def test_check_finds_nothing():
    x, y = np.arange(128, dtype=np.float32), np.zeros(128, np.float32)
    assert mimw.check(reading, (1, ), x, y, seeds=20).ok


@mimw.jit
def reading(x, y, LOOK: tl.constexpr = True, WAIT: tl.constexpr = True, ARRIVE: tl.constexpr = True):
    """Reads the tile once a look says that it is there; without LOOK it does not care what the look says."""
    tile = tlx.local_alloc((128, ), tl.float32, 1)
    full = tlx.alloc_barriers(1)
    with tlx.async_tasks():
        with tlx.async_task("default"):
            at = tl.arange(0, 128)
            there = tlx.barrier_try_wait(full[0], 0)
            while not there:
                there = tlx.barrier_try_wait(full[0], 0) if LOOK else there | True
            tl.store(y + at, tlx.local_load(tile[0]))
        with tlx.async_task(num_warps=4):
            tlx.local_store(tile[0], tl.load(x + tl.arange(0, 128)))
            tlx.barrier_arrive(full[0])


def test_a_read_without_a_true_flag_is_a_race():
    x, y = np.arange(128, dtype=np.float32), np.zeros(128, np.float32)
    report = mimw.check(reading, (1, ), x, y, False, seeds=20)
    assert {finding.kind for finding in report.findings} & {"RaceError", "UnwrittenRead", "DataRace", "Race"}, report.findings


@mimw.jit
def third_phase(y):
    full = tlx.alloc_barriers(1)
    tl.store(y, tlx.barrier_try_wait(full[0], tl.load(y)).to(tl.int32))


def test_phases_go_by_parity():
    with pytest.raises(BarrierMisuse, match="waits for phase 2"):
        mimw.simulate(third_phase, (1, ), np.full(1, 2, np.int32))


SIGNATURE = {"x": "*fp32", "y": "*fp32", "seen": "*i32"}


@pytest.mark.parametrize("target", ["sm_90a", "sm_100a"])
def test_ptx(target):
    compiled = compile_kernel(looking, SIGNATURE, {"LATE": 1}, target)
    assert compiled.stage("ptx").count("mbarrier.test_wait.parity") == 4 and compiled.stages["cubin"]


@pytest.mark.parametrize("target", ["gfx942", "gfx950", "gfx1250"])
def test_amd(target):
    compiled = compile_kernel(looking, SIGNATURE, {"LATE": 1}, target)
    assert len(set(re.findall(r"call i32 @mimw\.test\((i32 .*?)\)", compiled.stage("llir")))) >= 2
    assert compiled.stage("hsaco")[:4] == b"\x7fELF" and "s_swappc" not in compiled.stage("amdgcn")


def test_a_chip_without_barriers():
    with pytest.raises(triton.CompilationError) as caught:
        compile_kernel(looking, SIGNATURE, {"LATE": 1}, "sm_80")
    assert isinstance(caught.value.__cause__, TargetError)
