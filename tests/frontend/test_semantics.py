"""Triton's own semantics holds in kernels of ours: constants, tuples, aggregates, helpers of both decorators, promotion."""

from collections import namedtuple
from typing import NamedTuple

import numpy as np
import pytest
import triton
import triton.language as tl

import mimw
import mimw.tlx as tlx
from mimw.runtime.compile_kernel import compile_kernel
from mimw.runtime.host import specialise

EIGHT = tl.constexpr(8)
TABLE = tl.constexpr((1, 2, 4))


class Span(NamedTuple):
    start: tl.tensor
    size: tl.constexpr


Pair = namedtuple("Pair", ["first", "second"])


@triton.constexpr_function
def rounded(n, to):
    return (n + to - 1) // to * to


@tl.core._aggregate
class Ring:
    tiles: tlx.buffered_tensor
    full: tlx.mbarrier
    size: tl.constexpr

    @triton.constexpr_function
    def __init__(self, tiles, full, size):
        self.tiles = tiles
        self.full = full
        self.size = tl.constexpr(size)

    @triton.jit
    def slot(self, i):
        return self.tiles[i % self.size], self.full[i % self.size]

    @mimw.jit
    def put(self, i, value):
        tile, full = self.slot(i)
        tlx.local_store(tile, value)
        tlx.barrier_arrive(full)


@mimw.jit
def make_ring(SIZE: tl.constexpr):
    return Ring(tlx.local_alloc((32, ), tl.int32, SIZE), tlx.alloc_barriers(SIZE), SIZE)


@triton.jit
def stock_add(a, b=3):
    return a + b


@mimw.jit
def our_add(a, *, b=4):
    return stock_add(a) + b


@triton.jit
def apply(f: tl.constexpr, value):
    return f(value)


@triton.jit
def two(value):
    return value, value * 2


@mimw.jit
def view_of(tiles, i):
    return tiles[i], None


@mimw.jit
def constants(y, span, pair, N: tl.constexpr = 5):
    tlx.fence("gpu")
    at = tl.arange(0, rounded(N, EIGHT))
    step: tl.constexpr = TABLE[1] * 2 if N > 3 else 1
    value = span.start + pair.first[1] * step
    value = value if pair.second is None else value + 1000
    tl.store(y + at, at + value, mask=(at < span.size) and (at >= 0))


def test_constants_and_namedtuples():
    y = np.full(8, -1, np.int32)
    mimw.simulate(constants, (1, ), y, Span(10, 6), Pair((7, 2), None))
    assert y.tolist() == [18, 19, 20, 21, 22, 23, -1, -1]
    compiles(constants, y=y, span=Span(10, 6), pair=Pair((7, 2), None), N=5)


def compiles(kernel, **arguments):
    """The kernel compiles to a cubin as a launch with these arguments would specialise it."""
    signature, constants, _ = specialise(kernel, arguments)
    named = {kernel.arg_names[path[0]]: value for path, value in constants.items() if len(path) == 1}
    nested = {path: value for path, value in constants.items() if len(path) > 1}
    if nested:  # constants inside tuples come only through a launch
        from mimw.compiler.pipeline import MimwSource, compile_source, gpu_target
        from mimw.target import target
        source = MimwSource(kernel, signature, constants)
        assert compile_source(source, gpu_target(target("sm_90a")), {"enable_fp_fusion": True}).asm["cubin"]
    else:
        assert compile_kernel(kernel, signature, named).stage("cubin")


@mimw.jit
def aggregates(y, n):
    ring = make_ring(2)
    with tlx.async_tasks():
        with tlx.async_task("default"):
            at = tl.arange(0, 32)
            for i in range(2):
                tile, full = ring.slot(i)
                tlx.barrier_wait(full, 0)
                tl.store(y + i * 32 + at, tlx.local_load(tile))
        with tlx.async_task(num_warps=1):
            for i in tl.static_range(ring.size):
                ring.put(i, tl.arange(0, 32) * (i + n))


def test_aggregates_of_buffers_and_barriers():
    y = np.zeros(64, np.int32)
    mimw.simulate(aggregates, (1, ), y, 5)
    assert y.tolist() == [*np.arange(32) * 5, *np.arange(32) * 6]
    compiles(aggregates, y=y, n=5)


@mimw.jit
def helpers(y, n, F: tl.constexpr):
    tlx.fence("gpu")
    first, (second, third) = apply(F, n), two(n + 1)
    arguments = (n, 100)
    tl.store(y, first[0] + second + third)
    tl.store(y + 1, our_add(n, b=5))
    tl.store(y + 2, stock_add(*arguments))
    tiles = tlx.local_alloc((32, ), tl.int32, 2)
    view, nothing = view_of(tiles, 1)
    tlx.local_store(view, tl.arange(0, 32))
    if nothing is None:
        tl.store(y + 3, tl.sum(tlx.local_load(tiles[1])))


def test_helpers_of_both_decorators():
    y = np.zeros(4, np.int32)
    mimw.simulate(helpers, (1, ), y, 7, two)
    assert y.tolist() == [7 + 8 + 16, 7 + 3 + 5, 107, 496]
    compiles(helpers, y=y, n=7, F=two)


@mimw.jit
def promotion(y, x, i8, u8, f16, big):
    tlx.fence("gpu")
    tl.store(y, x + 1)
    tl.store(y + 1, tl.load(i8) * 2.5)
    tl.store(y + 2, (tl.load(i8) + tl.load(u8)).to(tl.float32))
    tl.store(y + 3, tl.load(f16) * tl.load(i8))
    tl.store(y + 4, (tl.load(big) >> 33).to(tl.float32))
    tl.store(y + 5, tl.load(i8) / 2)
    tl.store(y + 6, (tl.load(u8) > tl.load(i8)).to(tl.float32) + (not x > 2))
    tl.store(y + 7, -tl.load(i8) // 2 % 5 ** 2)


def test_types_are_promoted_as_in_triton():
    y = np.zeros(8, np.float32)
    arrays = np.array([-7], np.int8), np.array([250], np.uint8), np.array([0.5], np.float16), np.array([5 << 33], np.int64)
    mimw.simulate(promotion, (1, ), y, 1.5, *arrays)
    i8_plus_u8 = float(np.uint8(np.uint8(249) + np.uint8(250)))  # both become unsigned of the same width
    assert y.tolist() == [2.5, -17.5, i8_plus_u8, -3.5, 5.0, -3.5, 2.0, 3.0]
    compiles(promotion, y=y, x=1.5, i8=arrays[0], u8=arrays[1], f16=arrays[2], big=arrays[3])


@mimw.jit
def carried(y, n):
    """Buffers, barriers and tuples through `if`, `for` and `while`; a name set in both branches; conditions on None."""
    left = tlx.local_alloc((32, ), tl.int32, 2)
    right = tlx.local_alloc((32, ), tl.int32, 2)
    at = tl.arange(0, 32)
    tlx.local_store(left[0], at)
    tlx.local_store(right[0], at * 10)
    if n > 2:
        tile = left[0]
        state = (n, at)
    else:
        tile = right[0]
        state = (n * 100, at + 1)
    for i in range(2):
        tlx.local_store(left[1], tlx.local_load(tile) + tlx.local_load(left[0]))
        tile = left[1]
        state = (state[0] + 1, state[1] + i)
    while state[0] % 7 != 0:
        state = (state[0] + 1, state[1])
    tl.store(y + at, tlx.local_load(tile) + state[0] + state[1])


@pytest.mark.parametrize("n", [3, 1])
def test_values_carried_through_control_flow(n):
    at, y = np.arange(32), np.zeros(32, np.int32)
    first, count, offset = (at, 3, at) if n > 2 else (at * 10, 100, at + 1)
    tile = first + at + at
    count += 2
    count += -count % 7
    mimw.simulate(carried, (1, ), y, n)
    assert (y == tile + count + offset + 1).all()


def test_carried_values_compile():
    assert compile_kernel(carried, dict(y="*i32", n="i32")).stage("cubin")


def test_a_kernel_made_in_a_function_captures_its_constants():

    def kernel_for(scale, helper):

        @mimw.jit
        def made(y):
            tlx.fence("gpu")
            tl.store(y, helper(scale, 1))

        return made

    y = np.zeros(1, np.int32)
    for scale in (3, 4):
        mimw.simulate(kernel_for(tl.constexpr(scale), stock_add), (1, ), y)
        assert y[0] == scale + 1


@mimw.jit
def with_assembly(x, y):
    tlx.fence("gpu")
    at = tl.arange(0, 128)
    tl.store(y + at, tl.inline_asm_elementwise("shf.l.wrap.b32 $0, $1, $1, 8;", "=r,r", [tl.load(x + at)], tl.int32, True, 1))


def test_inline_assembly_compiles():
    compiled = compile_kernel(with_assembly, dict(x="*i32", y="*i32"))
    assert "shf.l.wrap.b32" in compiled.stage("ptx") and compiled.stage("cubin")


@pytest.mark.gpu
def test_inline_assembly_runs():
    import torch
    x = torch.arange(128, dtype=torch.int32, device="cuda") * 12345677
    y = torch.zeros_like(x)
    with_assembly[(1, )](x, y)
    wide = x.cpu().numpy().view(np.uint32)
    assert (y.cpu().numpy().view(np.uint32) == (wide << 8 | wide >> 24)).all()


def test_inline_assembly_is_refused_by_the_simulator():
    with pytest.raises(mimw.errors.SimulationError, match="inline assembly cannot be simulated"):
        mimw.simulate(with_assembly, (1, ), np.zeros(128, np.int32), np.zeros(128, np.int32))


@mimw.jit
def talks(x):
    tlx.fence("gpu")
    with tlx.async_tasks():
        with tlx.async_task("default"):
            tl.device_print("value", tl.load(x))
        with tlx.async_task(num_warps=1):
            print("other", tl.load(x) + 1)
            tl.device_assert(tl.load(x) == 3, "three")


def test_printing(capsys):
    mimw.simulate(talks, (1, ), np.array([3], np.int32))
    shown = capsys.readouterr().out
    assert "value" in shown and "3" in shown and "other" in shown and "4" in shown
    ptx = compile_kernel(talks, dict(x="*i32"), options=dict(debug=True)).stage("ptx")
    assert "vprintf" in ptx and "__assertfail" in ptx
    assert "__assertfail" not in compile_kernel(talks, dict(x="*i32")).stage("ptx")
