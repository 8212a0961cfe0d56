"""Loop-carried names that share a value when the loop begins: stock Triton loses them, we do not.

Every kernel below exists twice: plain (Triton's path, judged by its TTIR) and with a word (our path, judged by what the
simulator computes).
"""

import re

import numpy as np
import pytest
import triton
import triton.language as tl

import mimw
import mimw.tlx as tlx
from mimw.compiler.pipeline import gpu_target
from mimw.compiler.triton_port.runtime import ASTSource, stock_compile
from mimw.runtime.compile_kernel import compile_kernel
from mimw.target import target as find_target
from tests.compiling import to_ttgir


def previous_in_for(x, y, n):
    it = tl.load(x)
    prev = it
    for i in range(n):
        tl.store(y + i, prev)
        prev = it
        it += 1


def previous_in_while(x, y, n):
    it = tl.load(x)
    prev = it
    i = 0
    while i < n:
        tl.store(y + i, prev)
        prev = it
        it += 1
        i += 1


def carried_values(ttir: str) -> int:
    """How many values the only loop of a module carries."""
    (carried, ) = re.findall(r"scf\.(?:for|while)[^\n]*?\(([^)]*=[^)]*)\)", ttir)
    return carried.count("=")


def stock_ttir(function):
    source = ASTSource(triton.jit(function), dict(x="*i32", y="*i32", n="i32"))
    return stock_compile(source, target=gpu_target(find_target("sm_90a")), options={"enable_fp_fusion": True}).asm["ttir"]


@pytest.mark.xfail(strict=True, reason="a bug of Triton 3.6 to 3.9; if this passes, Triton is mended and frontend.carries can go")
@pytest.mark.parametrize("function, carries", [(previous_in_for, 2), (previous_in_while, 3)])
def test_stock_triton_carries_aliases(function, carries):
    assert carried_values(stock_ttir(function)) == carries


@pytest.mark.parametrize("function, carries", [(previous_in_for, 2), (previous_in_while, 3)])
def test_plain_kernels_carry_aliases(function, carries):
    compiled = to_ttgir(mimw.jit(function), dict(x="*i32", y="*i32", n="i32"))
    assert compiled.program is None
    assert carried_values(compiled.stage("ttir")) == carries


@triton.jit
def plain_loop(it, n, y):
    prev = it
    for i in range(n):
        tl.store(y + i, prev)
        prev = it
        it += 1


def previous_in_helper(x, y, n):
    plain_loop(tl.load(x), n, y)


def test_plain_helpers_carry_aliases():
    compiled = to_ttgir(mimw.jit(previous_in_helper), dict(x="*i32", y="*i32", n="i32"))
    assert compiled.program is None
    assert carried_values(compiled.stage("ttir")) == 2


# ---- on our path -----------------------------------------------------------------------------------------------------

KERNELS = {}


def expect(*values):
    """The decorated kernel is launched with x = [10, 11, ...], y = -1s and n = 4, and must leave `values` in y."""

    def register(function):
        KERNELS[function.__name__] = mimw.jit(function), values
        return KERNELS[function.__name__][0]

    return register


@expect(10, 10, 11, 12)
def a_for(x, y, n):
    tlx.fence("gpu")
    it = tl.load(x)
    prev = it
    for i in range(n):
        tl.store(y + i, prev)
        prev = it
        it += 1


@expect(10, 10, 11, 12)
def a_while(x, y, n):
    tlx.fence("gpu")
    it = tl.load(x)
    prev = it
    i = 0
    while i < n:
        tl.store(y + i, prev)
        prev = it
        it += 1
        i += 1


@expect(10, 10, 10, 11)
def three_names(x, y, n):
    tlx.fence("gpu")
    it = tl.load(x)
    prev = it
    last = it
    for i in range(n):
        tl.store(y + i, last)
        last = prev
        prev = it
        it += 1


@expect(10, 10, 11, 12)
def a_helper(x, y, n):
    tlx.fence("gpu")
    plain_loop(tl.load(x), n, y)


@expect(10, 10, 11, 12)
def a_helper_s_parameter(x, y, n):
    tlx.fence("gpu")
    it = tl.load(x)
    two_parameters(it, it, n, y)


@mimw.jit
def two_parameters(it, prev, n, y):
    for i in range(n):
        tl.store(y + i, prev)
        prev = it
        it += 1


@expect(10, 11, 13, 14)
def nested(x, y, n):
    tlx.fence("gpu")
    it = tl.load(x)
    prev = it
    i = 0
    for _ in range(2):
        for j in range(2):
            tl.store(y + i, prev + j)
            i += 1
            prev = it
            it += 1
        it += 1
        prev = it


@expect(10, 10, 11, 12)
def tuples(x, y, n):
    tlx.fence("gpu")
    it = tl.load(x)
    pair = (it, it)
    for i in range(n):
        tl.store(y + i, pair[0])
        pair = (pair[1], pair[1] + 1)


@expect(10, 10, 11, 12)
def a_name_and_a_tuple(x, y, n):
    tlx.fence("gpu")
    it = tl.load(x)
    prev = it
    state = (it, it)
    for i in range(n):
        tl.store(y + i, prev)
        prev = state[0]
        state = (state[0] + 1, state[1])


@tl.core._aggregate
class Cursor:
    now: tl.tensor
    before: tl.tensor

    @triton.constexpr_function
    def __init__(self, now, before):
        self.now = now
        self.before = before

    @triton.jit
    def step(self):
        return Cursor(self.now + 1, self.now)


@expect(10, 10, 11, 12)
def aggregates(x, y, n):
    tlx.fence("gpu")
    it = tl.load(x)
    cursor = Cursor(it, it)
    before = cursor
    for i in range(n):
        tl.store(y + i, before.now)
        before = cursor
        cursor = cursor.step()


@expect(10, 10, 11, 12)
def swap_in_an_if(x, y, n):
    tlx.fence("gpu")
    it = tl.load(x)
    prev = it
    for i in range(n):
        tl.store(y + i, prev)
        if i >= 0:
            prev = it
            it += 1


@expect(10, 10, 11, 12)
def a_task(x, y, n):
    it = tl.load(x)
    prev = it
    with tlx.async_tasks():
        with tlx.async_task("default"):
            pass
        with tlx.async_task(num_warps=1):
            for i in range(n):
                tl.store(y + i, prev)
                prev = it
                it += 1


@expect(10, 10, 11, 12)
def the_default_task(x, y, n):
    it = tl.load(x)
    prev = it
    with tlx.async_tasks():
        with tlx.async_task("default"):
            i = 0
            while i < n:
                tl.store(y + i, prev)
                prev = it
                it += 1
                i += 1
        with tlx.async_task(num_warps=1):
            pass


@expect(10, 10, 11, 12)
def a_region_in_the_loop(x, y, n):
    it = tl.load(x)
    prev = it
    for i in range(n):
        with tlx.async_tasks():
            with tlx.async_task("default"):
                tl.store(y + i, prev)
            with tlx.async_task(num_warps=1):
                pass
        prev = it
        it += 1


@expect(0, 0, 1, 0)
def buffers(x, y, n):
    """Views of one array, carried."""
    tiles = tlx.local_alloc((1, ), tl.int32, 2)
    tlx.local_store(tiles[0], tl.zeros((1, ), tl.int32))
    tlx.local_store(tiles[1], tl.zeros((1, ), tl.int32) + 1)
    this = tiles[0]
    last = this
    for i in range(n):
        tl.store(y + i + tl.arange(0, 1), tlx.local_load(last))
        last = this
        this = tiles[(i + 1) % 2]


@pytest.mark.parametrize("name", KERNELS)
def test_our_path_carries_aliases(name):
    kernel, wanted = KERNELS[name]
    x, y = np.arange(10, 14, dtype=np.int32), np.full(4, -1, np.int32)
    mimw.simulate(kernel, (1, ), x, y, 4)
    assert y.tolist() == list(wanted)


@pytest.mark.parametrize("name", KERNELS)
def test_our_path_compiles(name):
    kernel, _ = KERNELS[name]
    compiled = compile_kernel(kernel, dict(x="*i32", y="*i32", n="i32"))
    assert compiled.program.orchestrates() and compiled.stage("cubin")
