"""Partitions: results, captures of every kind, several regions, register requests, refusals."""

import re

import numpy as np
import pytest
import triton
import triton.language as tl

import mimw
import mimw.tle as tle
import mimw.tlx as tlx


@triton.jit
def add_up(x_ptr, at, full, N: tl.constexpr):
    tlx.barrier_wait(full[0], 0)
    x = tl.load(x_ptr + at)
    return x + 1, tl.sum(x, 0)


@triton.jit
def scale(x, y_ptr, where, pointers, mask, odd, full, FACTOR: tl.constexpr):
    tl.store(y_ptr + where, tl.where(odd, x * FACTOR, x))
    tl.store(pointers, x, mask=mask)
    tlx.barrier_arrive(full[0])


@mimw.jit
def both(x_ptr, y_ptr, z_ptr, w_ptr, s_ptr, n, N: tl.constexpr, W: tl.constexpr):
    """The default partition's tuple goes on; tiles, ranges, blocks of pointers and masks go to a worker."""
    at = tl.arange(0, N)
    x = tl.load(x_ptr + at)
    full = tlx.alloc_barriers(1)
    pairs = tl.reshape(tl.join(z_ptr + at * 2, z_ptr + at * 2 + 1), (2 * N, ))
    pointers, _ = tl.split(tl.reshape(pairs, (N, 2)))
    more, total = tle.gpu.warp_specialize([
        (add_up, (x_ptr, at, full, N)),
        (scale, (x, y_ptr, at, pointers, at < n, x % 2 == 1, full, 3)),
    ], [W], [40])
    tl.store(w_ptr + at, more + tl.load(y_ptr + at))
    tl.store(s_ptr, total)


@pytest.mark.parametrize("warps", [1, 2, 4])
def test_results_and_captures(machine, warps):
    n, x = 100, np.arange(128, dtype=np.int32)
    y, z, w, s = np.zeros_like(x), np.zeros(256, np.int32), np.zeros_like(x), np.zeros(1, np.int32)
    machine.launch(both, (1, ), x, y, z, w, s, n, 128, warps)
    tripled = np.where(x % 2 == 1, x * 3, x)
    assert (y == tripled).all() and (z[::2] == np.where(x < n, x, 0)).all() and not z[1::2].any()
    assert (w == x + 1 + tripled).all() and s[0] == x.sum()


@triton.jit
def consume(y_ptr, buffer, full, free, steps, bias, N: tl.constexpr, OUT: tl.constexpr):
    at = tl.arange(0, N)
    total, count = tl.zeros((N, ), tl.float32), 0
    for step in range(steps):
        tlx.barrier_wait(full[0], step & 1)
        total += tl.load(tle.gpu.local_ptr(buffer))
        tlx.barrier_arrive(free[0])
        count += 1
    tl.store(y_ptr + at, (total + bias).to(OUT))
    return count


@triton.jit
def produce(x_ptr, buffer, full, free, steps, N: tl.constexpr):
    at = tl.arange(0, N)
    for step in range(steps):
        tlx.barrier_wait(free[0], (step & 1) ^ 1)
        tl.store(tle.gpu.local_ptr(buffer, (at, )), tl.load(x_ptr + step * N + at))
        tlx.barrier_arrive(full[0])


@mimw.jit
def twice(x_ptr, y_ptr, steps, N: tl.constexpr):
    """Two regions in a loop, the producer once a worker and once the default partition."""
    buffer = tle.gpu.alloc([N], tl.float32)
    last = 0
    for round in range(2):
        full, free = tlx.alloc_barriers(1), tlx.alloc_barriers(1)
        last += tle.gpu.warp_specialize([(consume, (y_ptr + 2 * round * N, buffer, full, free, steps, 1.5, N, tl.float32)),
                                         (produce, (x_ptr, buffer, full, free, steps, N))], [4], [24])
        other_full, other_free = tlx.alloc_barriers(1), tlx.alloc_barriers(1)
        tle.gpu.warp_specialize(((produce, (x_ptr, buffer, other_full, other_free, steps, N)),
                                 (consume, (y_ptr + (2 * round + 1) * N, buffer, other_full, other_free, steps, 0.5, N,
                                            tl.float32))),
                                (1, ), (8, ))
    tl.store(y_ptr + 4 * N, last.to(tl.float32))


def test_several_regions(machine):
    steps, n = 4, 64
    x = np.random.default_rng(0).integers(-8, 8, (steps, n)).astype(np.float32)
    y = np.zeros(5 * n, np.float32)
    machine.launch(twice, (1, ), x, y, steps, n)
    for region, bias in enumerate((1.5, 0.5, 1.5, 0.5)):
        assert (y[region * n:(region + 1) * n] == x.sum(0) + bias).all()
    assert y[4 * n] == 2 * steps


def test_registers_and_names():
    compiled = mimw.compile.compile_kernel(twice, {"x_ptr": "*fp32", "y_ptr": "*fp32", "steps": "i32"}, dict(N=64))
    regions = [op.attrs["tasks"] for op in compiled.program.walk() if op.name == "warp_specialize"]
    assert [[(task.name, task.num_warps, task.registers) for task in tasks] for tasks in regions] == [
        [("consume", 4, None), ("produce", 4, 24)], [("produce", 4, None), ("consume", 1, 24)]]
    assert re.search(r"setmaxnreg.dec.sync.aligned.u32\s+24;", compiled.stage("ptx"))


@triton.jit
def nothing(x):
    pass


@triton.jit
def nest(x):
    tle.gpu.warp_specialize([(nothing, (x, )), (nothing, (x, ))], [4], [24])


@mimw.jit
def wrong(x_ptr, CASE: tl.constexpr):
    if CASE == "warps":
        tle.gpu.warp_specialize([(nothing, (x_ptr, )), (nothing, (x_ptr, ))], [4, 4], [24])
    elif CASE == "registers":
        tle.gpu.warp_specialize([(nothing, (x_ptr, )), (nothing, (x_ptr, ))], [4], [])
    elif CASE == "power":
        tle.gpu.warp_specialize([(nothing, (x_ptr, )), (nothing, (x_ptr, ))], [3], [24])
    elif CASE == "empty":
        tle.gpu.warp_specialize([], [], [])
    elif CASE == "entry":
        tle.gpu.warp_specialize([(nothing, (x_ptr, )), (nothing, )], [4], [24])
    elif CASE == "function":
        tle.gpu.warp_specialize([(nothing, (x_ptr, )), (x_ptr, (x_ptr, ))], [4], [24])
    elif CASE == "arguments":
        tle.gpu.warp_specialize([(nothing, (x_ptr, )), (nothing, x_ptr)], [4], [24])
    elif CASE == "nested":
        tle.gpu.warp_specialize([(nothing, (x_ptr, )), (nest, (x_ptr, ))], [4], [24])


@pytest.mark.parametrize("case, text", [
    ("warps", "got 1 worker functions but 2 warp counts"), ("registers", "got 1 worker functions but 0 register counts"),
    ("power", "must be 1, 2, 4, 8, ..., got 3"), ("empty", "must be a list of"), ("entry", "each entry must be a tuple"),
    ("function", "each entry must be a tuple"), ("arguments", "the arguments of nothing must be a tuple"),
    ("nested", "regions do not nest")])
def test_refusals(case, text):
    with pytest.raises(triton.CompilationError, match=text) as caught:
        mimw.compile.compile_kernel(wrong, {"x_ptr": "*fp32"}, dict(CASE=case))
    causes, error = [], caught.value
    while error is not None:
        causes, error = [*causes, error], error.__cause__
    assert any(isinstance(cause, ValueError) for cause in causes)


def test_only_the_default_partition(machine):

    @triton.jit
    def give(x_ptr):
        return tl.load(x_ptr) + 1

    @mimw.jit
    def alone(x_ptr):
        tl.store(x_ptr + 1, tle.gpu.warp_specialize([(give, (x_ptr, ))], [], []))

    x = np.array([41, 0], np.int32)
    machine.launch(alone, (1, ), x)
    assert x[1] == 42


@triton.jit
def hand_back(buffer, N: tl.constexpr, INSIDE: tl.constexpr):
    if INSIDE:
        buffer = tle.gpu.alloc([N], tl.int32)
    tl.store(tle.gpu.local_ptr(buffer), tl.arange(0, N))
    return buffer


@mimw.jit
def hands_back(y_ptr, N: tl.constexpr, INSIDE: tl.constexpr):
    buffer = tle.gpu.warp_specialize([(hand_back, (tle.gpu.alloc([N], tl.int32), N, INSIDE)), (nothing, (y_ptr, ))], [1], [24])
    tl.store(y_ptr + tl.arange(0, N), tl.load(tle.gpu.local_ptr(buffer)))


def test_a_buffer_may_come_back_but_not_out(machine):
    y = np.zeros(64, np.int32)
    machine.launch(hands_back, (1, ), y, 64, False)
    assert (y == np.arange(64)).all()
    with pytest.raises(triton.CompilationError, match="make buffers, views and barriers before the region"):
        machine.launch(hands_back, (1, ), y, 64, True)
