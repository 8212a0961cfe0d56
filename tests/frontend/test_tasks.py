"""What tasks see of the kernel around them, what they leave behind, and what a region may hold (spec/tlx.md 1 and 2)."""

import numpy as np
import pytest
import triton
import triton.language as tl

import mimw
import mimw.tlx as tlx
from mimw.runtime.compile_kernel import compile_kernel

ONE = tl.constexpr(1)


@tl.core._aggregate
class Channel:
    tile: tlx.buffered_tensor
    full: tlx.mbarrier
    scale: tl.tensor

    @triton.constexpr_function
    def __init__(self, tile, full, scale):
        self.tile = tile
        self.full = full
        self.scale = scale


@mimw.jit
def captures(x, y, n, factor, pair, desc, FLAG: tl.constexpr):
    """Scalars, pointers, tuples, aggregates, buffers, barriers and descriptors, read in both tasks."""
    tile = tlx.local_alloc((32, ), tl.int32, 1)
    staged = tlx.local_alloc((8, 32), tl.int32, 1)
    full = tlx.alloc_barriers(2)
    channel = Channel(tile[0], full[0], n * 2)
    both = (n + 1, (x, channel))
    here = tl.program_id(0) + 3
    with tlx.async_tasks():
        with tlx.async_task("default"):
            at = tl.arange(0, 32)
            tlx.barrier_wait(channel.full, 0)
            value = tlx.local_load(channel.tile) + here + desc.shape[1]
            tlx.barrier_wait(full[1], 0)
            tl.store(y + at, value + tl.sum(tlx.local_load(staged[0]), 0))
        with tlx.async_task(num_warps=2):
            at = tl.arange(0, 32)
            if FLAG:
                value = tl.load(both[1][0] + at) * both[1][1].scale + both[0] + pair[0] * factor.to(tl.int32) + here
            tlx.local_store(both[1][1].tile, value + pair[1])
            tlx.barrier_arrive(full[0])
            tlx.barrier_expect_bytes(full[1], 8 * 32 * 4)
            tlx.async_descriptor_load(desc, staged[0], [0, 0], full[1])


def test_captures(seeds=3):
    x = np.arange(32, dtype=np.int32)
    matrix = np.arange(8 * 32, dtype=np.int32).reshape(8, 32)
    wanted = x * 10 + 6 + 7 * 2 + 3 + 9 + 3 + 32 + matrix.sum(0)
    for seed in range(seeds):
        y = np.zeros_like(x)
        mimw.simulate(captures, (1, ), x, y, 5, 2.0, (7, 9), mimw.TensorDescriptor.from_tensor(matrix, [8, 32]), True, seed=seed)
        assert (y == wanted).all()


def test_captures_compile():
    signature = dict(x="*i32", y="*i32", n="i32", factor="fp32", pair=("i32", "i32"), desc="tensordesc<i32[8,32]>")
    assert compile_kernel(captures, signature, dict(FLAG=True)).stage("cubin")


@mimw.jit
def private_copies(y, n):
    it = n
    pair = (n, n + 1)
    with tlx.async_tasks():
        with tlx.async_task("default"):
            it += 10
            pair = (it, it)
            tl.store(y, it + pair[0])
        with tlx.async_task(num_warps=1, replicate=2):
            for _ in range(3):
                it += 1
            tl.store(y + 1 + tlx.async_task_replica_id(), it)
            it = 100
    tl.store(y + 3, it)
    tl.store(y + 4, pair[0] + pair[1])


def test_assignments_stay_in_their_task():
    y = np.zeros(5, np.int32)
    mimw.simulate(private_copies, (1, ), y, 4)
    assert y.tolist() == [28, 7, 7, 4, 9]
    assert compile_kernel(private_copies, dict(y="*i32", n="i32")).stage("cubin")


@mimw.jit
def several_regions(y, n):
    full = tlx.alloc_barriers(1)
    tile = tlx.local_alloc((1, 32), tl.int32, 1)
    at = tl.arange(0, 32)
    total = 0
    for i in range(n):
        if i % 2 == 0:
            with tlx.async_tasks():
                with tlx.async_task("default"):
                    tlx.barrier_wait(full[0], (i // 2) & 1)
                with tlx.async_task(num_warps=4):
                    tlx.local_store(tile[0], tl.zeros((1, 32), tl.int32) + i + 5)
                    tlx.barrier_arrive(full[0])
            total += tl.sum(tl.sum(tlx.local_load(tile[0]), 1), 0)
    between = total * 2
    with tlx.async_tasks():
        with tlx.async_task("default"):
            tl.store(y + at, between + at)
        with tlx.async_task(num_warps=1):
            tl.store(y + 32, between + 1)


def test_several_regions_in_control_flow():
    y = np.zeros(33, np.int32)
    mimw.simulate(several_regions, (1, ), y, 5)
    total = 32 * (5 + 7 + 9)
    assert y.tolist() == [*(2 * total + np.arange(32)), 2 * total + 1]
    compiled = compile_kernel(several_regions, dict(y="*i32", n="i32"))
    assert compiled.stage("ttgir").count("ttg.warp_specialize(") == 2 and compiled.stage("cubin")


@mimw.jit
def replicas(y):
    left = tlx.local_alloc((32, ), tl.int32, 1)
    right = tlx.local_alloc((32, ), tl.int32, 1)
    with tlx.async_tasks():
        with tlx.async_task("default", replicate=2):
            me: tl.constexpr = tlx.async_task_replica_id()
            if me == 0:
                mine = left
                factor: tl.constexpr = 10
            else:
                mine = right
                factor: tl.constexpr = 100
            write_own(mine, y, factor)


@mimw.jit
def write_own(tiles, y, factor: tl.constexpr):
    at = tl.arange(0, 32)
    tlx.local_store(tiles[0], at * factor)
    tl.store(y + tlx.async_task_replica_id() * 32 + at, tlx.local_load(tiles[0]))


def test_replicas_are_independent():
    y = np.zeros(64, np.int32)
    mimw.simulate(replicas, (1, ), y)
    assert y.tolist() == [*np.arange(32) * 10, *np.arange(32) * 100]
    compiled = compile_kernel(replicas, dict(y="*i32"), options=dict(num_warps=8))
    (region, ) = [op for op in compiled.program.walk() if op.name == "warp_specialize"]
    assert [(task.num_warps, task.replica, task.is_default) for task in region.attrs["tasks"]] == [(8, 0, True), (8, 1, False)]
    assert compiled.stage("cubin")


@mimw.jit
def constexpr_choice(y, SPLIT: tl.constexpr, ON: tl.constexpr):
    value = 1
    with tlx.async_tasks(warp_specialize=True):
        with tlx.async_task("default"):
            value = 2
            only_here = 3
            tl.store(y, value + only_here)
        if SPLIT:
            if ON > 1:
                with tlx.async_task(num_warps=ON):
                    tl.store(y + 1, value)
            else:
                with tlx.async_task(num_warps=ON):
                    undefined_if_taken(y)  # noqa: F821
        else:
            pass
    tl.store(y + 2, value)


def test_constexpr_conditions_choose_tasks():
    y = np.zeros(3, np.int32)
    mimw.simulate(constexpr_choice, (1, ), y, True, 2)
    assert y.tolist() == [5, 1, 1]


def test_a_default_task_alone_runs_inline():
    compiled = compile_kernel(constexpr_choice, dict(y="*i32"), dict(SPLIT=False, ON=2))
    assert "warp_specialize" not in compiled.stage("ttgir")
    assert ".reqntid 128" in compiled.stage("ptx")
    y = np.zeros(3, np.int32)
    mimw.simulate(constexpr_choice, (1, ), y, False, 2)
    assert y.tolist() == [5, 0, 1]


@mimw.jit
def outer_tile_in_default(x, y):
    at = tl.arange(0, 64)
    value = tl.load(x + at)
    with tlx.async_tasks():
        with tlx.async_task("default"):
            tl.store(y + at, value + 1)
        with tlx.async_task(num_warps=1):
            pass


def test_the_default_task_reads_outer_tiles():
    x, y = np.arange(64, dtype=np.int32), np.zeros(64, np.int32)
    mimw.simulate(outer_tile_in_default, (1, ), x, y)
    assert (y == x + 1).all()
    assert compile_kernel(outer_tile_in_default, dict(x="*i32", y="*i32")).stage("cubin")


@mimw.jit
def allocates_inside(y):
    with tlx.async_tasks():
        with tlx.async_task("default"):
            use_scratch(y, 1)
        with tlx.async_task(num_warps=2):
            use_scratch(y + 32, 2)
        with tlx.async_task(num_warps=1):
            use_scratch(y + 64, 3)


@mimw.jit
def use_scratch(y, value):
    """A helper with buffers and a barrier of its own, initialised by the calling task only."""
    tile = tlx.local_alloc((32, ), tl.int32, 1)
    done = tlx.alloc_barriers(1)
    at = tl.arange(0, 32)
    tlx.local_store(tile[0], at * value)
    tlx.barrier_arrive(done[0])
    tlx.barrier_wait(done[0], 0)
    tl.store(y + at, tlx.local_load(tile[0]) + tl.sum(at, 0))


def test_helpers_allocate_inside_tasks():
    y = np.zeros(96, np.int32)
    mimw.simulate(allocates_inside, (1, ), y)
    assert (y.reshape(3, 32) == np.arange(32) * np.array([[1], [2], [3]]) + 496).all()
    assert compile_kernel(allocates_inside, dict(y="*i32")).stage("cubin")


@mimw.jit
def requests(y, R0: tl.constexpr, R1: tl.constexpr, S0: tl.constexpr, S1: tl.constexpr, COPIES: tl.constexpr):
    with tlx.async_tasks():
        with tlx.async_task("default"):
            tl.store(y, 0)
        with tlx.async_task(num_warps=4, num_regs=R0, warp_group_start_id=S0, replicate=COPIES):
            tl.store(y + 1, 0)
        with tlx.async_task(num_warps=1, registers=R1, warp_group_start_id=S1):
            tl.store(y + 2, 0)


@pytest.mark.parametrize("values", [(None, None, None, None, 1), (120, 24, None, None, 2), (None, None, 4, 8, 1),
                                    (None, None, 5, 4, 2), (None, None, 8, 4, 1), (24, 24, 12, 4, 2)])
def test_requests_accepted(values):
    assert compile_kernel(requests, dict(y="*i32"), dict(zip(["R0", "R1", "S0", "S1", "COPIES"], values))).stage("cubin")


@pytest.mark.parametrize("values, text", [
    ((120, None, None, None, 1), "registers are requested for 1 of 2 non-default tasks"),
    ((None, 24, None, None, 2), "registers are requested for 1 of 3 non-default tasks"),
    ((100, 24, None, None, 1), "num_regs must be divisible by 8"),
    ((None, None, 4, None, 1), "`warp_group_start_id` is given for some non-default tasks only"),
    ((None, None, 3, 8, 1), r"warps \[0, 4\) and those from 3 on overlap"),
    ((None, None, 4, 7, 1), r"warps \[4, 8\) and those from 7 on overlap"),
    ((None, None, 4, 11, 2), r"warps \[4, 12\) and those from 11 on overlap"),
    ((None, None, -4, 8, 1), "warp_group_start_id must be non-negative"),
    ((None, None, None, None, 0), "replicate must be at least 1"),
])
def test_requests_refused(values, text):
    with pytest.raises(triton.CompilationError, match=text):
        compile_kernel(requests, dict(y="*i32"), dict(zip(["R0", "R1", "S0", "S1", "COPIES"], values)))


@mimw.jit
def words_without_ops(x, y, TASKS: tl.constexpr):
    at = tl.arange(0, 32)
    if TASKS:
        at = tl.arange(0, tlx.size_of(tlx.dtype_of(x)) * 8)
    tl.store(y + at, tl.load(x + at))


def test_a_word_that_leaves_no_op_takes_our_path_where_it_is_called():
    plain = compile_kernel(words_without_ops, dict(x="*i32", y="*i32"), dict(TASKS=False))
    assert plain.program is None and "tt.make_range" in plain.stage("ttir")
    ours = compile_kernel(words_without_ops, dict(x="*i32", y="*i32"), dict(TASKS=True))
    assert ours.program.orchestrates() and "ttir" not in ours.stages and ours.stage("cubin")
