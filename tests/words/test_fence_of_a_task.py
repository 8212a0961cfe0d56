"""A fence is its task's: what all threads stored comes before a relaxed signal behind it, and what they load behind a relaxed wait
and a fence is what came before the signal.

One program stores tiles and says so by one relaxed word a round, another one reads them.
"""

import re

import numpy as np
import pytest
import triton.language as tl

import mimw
import mimw.tlx as tlx
from mimw.testing.machines import Gpu
from tests.compiling import to_assembly

TYPES = {"tiles": "*i32", "word": "*i32", "sums": "*i32", "rounds": "i32"}


@mimw.jit
def told(tiles, word, sums, rounds, N: tl.constexpr, SCOPE: tl.constexpr = "gpu"):
    at = tl.arange(0, N)
    for round in range(rounds):
        if tl.program_id(0) == 0:
            tl.store(tiles + round * N + at, at + round)
            tlx.fence(SCOPE)
            tlx.signal(word, round + 1, op="set", sem="relaxed", scope=SCOPE)
        else:
            tlx.wait_signal(word, round + 1, sem="relaxed", scope=SCOPE)
            tlx.fence(SCOPE)
            tl.store(sums + round, tl.sum(tl.load(tiles + round * N + at)))


def arguments(rounds: int, size: int) -> tuple:
    return np.zeros(rounds * size, np.int32), np.zeros(1, np.int32), np.zeros(rounds, np.int32), rounds


@pytest.mark.parametrize("warps", (1, 8))
def test_all_threads_stores_come_first(machine, warps):
    rounds, size = (2000, 4096) if isinstance(machine, Gpu) else (3, 256)
    given = arguments(rounds, size)
    machine.launch(told, (2, ), *given, N=size, num_warps=warps)
    np.testing.assert_array_equal(given[2], size * (size - 1) // 2 + size * np.arange(rounds))


def test_the_rule_of_the_checker_is_the_same():
    assert mimw.check(told, (2, ), *arguments(3, 256), N=256, seeds=3).ok


@pytest.mark.parametrize("scope", ("gpu", "sys"))
def test_threads_come_together_on_either_side(scope):
    """A fence orders its own thread's accesses alone (PTX ISA, Release and acquire patterns)."""
    ptx = to_assembly(told, TYPES, {"N": 1024, "SCOPE": scope}, target="sm_90a").stages["ptx"]
    between = re.findall(rf"bar\.sync[^;]*;[^;]*?fence\.acq_rel\.{scope};[^;]*?bar\.sync", ptx)
    assert len(between) == ptx.count(f"fence.acq_rel.{scope}") == 2
    isa = to_assembly(told, TYPES, {"N": 1024, "SCOPE": scope}, target="gfx942").stages["amdgcn"]
    assert len(re.findall(r"s_barrier(?:(?!s_barrier).)*?buffer_wbl2(?:(?!s_barrier).)*?s_barrier", isa, re.S)) == 2
