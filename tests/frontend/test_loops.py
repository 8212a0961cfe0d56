"""What `tl.range` and `while` say about a loop reaches the TTGIR, in the kernel and in tasks."""

import re

import numpy as np
import pytest
import triton.language as tl

import mimw
import mimw.tlx as tlx
from mimw.runtime.compile_kernel import compile_kernel


@mimw.jit
def loops(x, n, IN_TASK: tl.constexpr, STAGES: tl.constexpr, UNROLL: tl.constexpr, FLATTEN: tl.constexpr,
          SINGLE: tl.constexpr, AUTO: tl.constexpr, NO_LICM: tl.constexpr):
    tlx.fence("gpu")
    with tlx.async_tasks():
        with tlx.async_task("default"):
            if not IN_TASK:
                options_of_a_loop(x, n, STAGES, UNROLL, FLATTEN, SINGLE, AUTO, NO_LICM)
        with tlx.async_task(num_warps=1):
            if IN_TASK:
                options_of_a_loop(x, n, STAGES, UNROLL, FLATTEN, SINGLE, AUTO, NO_LICM)


@mimw.jit
def options_of_a_loop(x, n, STAGES: tl.constexpr, UNROLL: tl.constexpr, FLATTEN: tl.constexpr, SINGLE: tl.constexpr,
                      AUTO: tl.constexpr, NO_LICM: tl.constexpr):
    for i in tl.range(0, n, 1, num_stages=STAGES, loop_unroll_factor=UNROLL, flatten=FLATTEN,
                      disallow_acc_multi_buffer=SINGLE, warp_specialize=AUTO, disable_licm=NO_LICM):
        tl.store(x + i, i)


NAMES = ("STAGES", "UNROLL", "FLATTEN", "SINGLE", "AUTO", "NO_LICM")
DEFAULTS = dict(zip(NAMES, (None, None, False, False, False, False)))


def compiled_loop(in_task=False, **options):
    return compile_kernel(loops, dict(x="*i32", n="i32"), {**DEFAULTS, "IN_TASK": in_task, **options}, dump=True)


def lowered(compiled) -> str:
    """The module before any pass of Triton's."""
    return next(text for name, text in compiled.after.items() if name.endswith("-lower"))


@pytest.mark.parametrize("in_task", [False, True])
@pytest.mark.parametrize("option, attribute", [
    (dict(STAGES=4), "tt.num_stages = 4 : i32"),
    (dict(UNROLL=2), "tt.loop_unroll_factor = 2 : i32"),
    (dict(FLATTEN=True), "tt.flatten"),
    (dict(SINGLE=True), "tt.disallow_acc_multi_buffer"),
    (dict(AUTO=True), "tt.warp_specialize"),
    (dict(NO_LICM=True), "llvm.loop_annotation = #"),
])
def test_options_reach_the_loop(in_task, option, attribute):
    compiled = compiled_loop(in_task, **option)
    assert attribute in lowered(compiled) and attribute not in lowered(compiled_loop(in_task))
    assert compiled.stage("cubin")


@pytest.mark.parametrize("in_task", [False, True])
def test_unrolling_happens(in_task):
    once, four_times = (compiled_loop(in_task, UNROLL=factor).stage("ttgir").count("tt.store") for factor in (None, 4))
    assert once == 1 and four_times == 5  # four in the loop, one in the loop over the rest


@mimw.jit
def directions(y, n, STEP: tl.constexpr):
    tlx.fence("gpu")
    at = 0
    for i in range(n, 0, -STEP):
        tl.store(y + at, i)
        at += 1
    for i in tl.static_range(6, 0, -3):
        tl.store(y + at, i)
        at += 1
    for i in range(5, 5):
        tl.store(y, 1000)
    if at > 100:
        at = 0
    tl.store(y + at, at)


def test_ranges():
    y = np.full(12, -1, np.int32)
    mimw.simulate(directions, (1, ), y, 7, 2)
    assert y.tolist() == [7, 5, 3, 1, 6, 3, 6, -1, -1, -1, -1, -1]
    assert compile_kernel(directions, dict(y="*i32", n="i32"), dict(STEP=2)).stage("cubin")


@mimw.jit
def conditions(y, n):
    tlx.fence("gpu")
    i = 0
    while tl.condition(i < n, disable_licm=True):
        j = 0
        while j < i and i < 4:
            j += 1
        tl.store(y + i, j if i < 4 else -j - 5)
        i += 1


def test_whiles():
    y = np.zeros(6, np.int32)
    mimw.simulate(conditions, (1, ), y, 6)
    assert y.tolist() == [0, 1, 2, 3, -5, -5]
    compiled = compile_kernel(conditions, dict(y="*i32", n="i32"), dump=True)
    assert "llvm.loop_annotation" in lowered(compiled) and compiled.stage("cubin")


@mimw.jit
def wide_counters(y, start, end):
    tlx.fence("gpu")
    total = start * 0
    for i in range(start, end):
        total += i
    tl.store(y, total)


def test_64_bit_counters():
    y = np.zeros(1, np.int64)
    mimw.simulate(wide_counters, (1, ), y, 1 << 40, (1 << 40) + 3)
    assert y[0] == 3 * (1 << 40) + 3
    compiled = compile_kernel(wide_counters, dict(y="*i64", start="i64", end="i64"), dump=True)
    assert re.search(r"scf\.for .*: i64", lowered(compiled))


@mimw.jit
def loops_in_both_branches(out_ptr, which):
    total = 0
    if which == 0:
        for i in range(3):
            total += i
    else:
        for i in range(5):
            total += i
    tl.store(out_ptr, total)


@pytest.mark.parametrize("which, total", [(0, 3), (1, 10)])
def test_counters_of_one_name_in_both_branches(which, total):
    out = np.zeros(1, np.int32)
    mimw.simulate(loops_in_both_branches, (1, ), out, which)
    assert out[0] == total


@mimw.jit
def ring(x, y, n):
    """A later loop, and an `if`, assign the name that an earlier loop counted with."""
    tlx.fence("gpu")
    total = 0
    for i in tl.range(0, 3, loop_unroll_factor=3):
        total += tl.load(x + i)
    for k in range(n):
        if k > 1:
            total += i  # what the round before left
        i = 2 * k
    if n > 100:
        i = 7
    for i in range(2):
        total += 1000 * i
    tl.store(y, total)


def test_a_counters_name_is_free_after_its_loop():
    """1 + 2 + 3, then 2, 4 and 6 of the rounds before, then 1000."""
    x, y = np.array([1, 2, 3], np.int32), np.zeros(1, np.int32)
    mimw.simulate(ring, (1, ), x, y, 5)
    assert y[0] == 6 + 2 + 4 + 6 + 1000
    assert compile_kernel(ring, {"x": "*i32", "y": "*i32", "n": "i32"}).stages["cubin"]
