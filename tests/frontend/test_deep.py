"""Kernels that are deep: helpers inside helpers, long expressions; an endless recursion, and errors far below, told at once."""

import linecache
import sys

import numpy as np
import pytest
import triton
import triton.language as tl

import mimw
from mimw import tlx
from mimw.compiler.depth import LIMIT, deep
from tests.compiling import to_ttgir

STARTS = {"plain": "", "ours": "    tile = tlx.local_alloc((16, ), tl.float32, 1)\n"}


def module(name: str, text: str) -> dict:
    """What a file of that text defines."""
    scope = {"__name__": "deep_kernels", "tl": tl, "tlx": tlx, "triton": triton, "mimw": mimw}
    linecache.cache[name] = len(text), None, text.splitlines(keepends=True), name
    exec(compile(text, name, "exec"), scope)
    return scope


def nested(helpers: int, start: str) -> str:
    text = "@triton.jit\ndef f0(x): return x + 1\n"
    text += "".join(f"@triton.jit\ndef f{at}(x): return f{at - 1}(x) + 1\n" for at in range(1, helpers))
    return text + f"@mimw.jit\ndef kernel(x):\n{start}    tl.store(x, f{helpers - 1}(tl.load(x)))\n"


@pytest.mark.parametrize("kind", STARTS)
def test_ninety_helpers_inside_each_other(kind):
    kernel, x = module(f"ninety_{kind}.py", nested(90, STARTS[kind]))["kernel"], np.zeros(1, np.float32)
    before = sys.getrecursionlimit()
    mimw.simulate(kernel, (1, ), x)
    assert x[0] == 90 and to_ttgir(kernel, {"x": "*fp32"}).stage("ttgir").count("arith.addf") >= 1
    assert sys.getrecursionlimit() == before


def test_a_long_expression():
    kernel, x = module("long.py", f"@mimw.jit\ndef kernel(x):\n    tl.store(x, tl.load(x){' + 1' * 500})\n")["kernel"], np.zeros(1)
    mimw.simulate(kernel, (1, ), x)
    assert x[0] == 500
    with pytest.raises(triton.CompilationError, match="nested too deep for Python.*static_range") as told, deep():
        limit = sys.getrecursionlimit()
        try:
            sys.setrecursionlimit(700)
            mimw.simulate(kernel, (1, ), x, num_warps=8)
        finally:
            sys.setrecursionlimit(limit)
    assert "long.py:3 in kernel" in str(told.value)


@triton.jit
def endless(x, n: tl.constexpr):
    return endless(x, n + 1)


@triton.jit
def below(x, n: tl.constexpr):
    if n == 40:
        return x + nowhere  # noqa: F821
    return below(x, n + 1)


@mimw.jit
def calls_endless(x):
    tl.store(x, endless(1.0, 0))


@mimw.jit
def calls_endless_of_ours(x):
    tlx.local_alloc((16, ), tl.float32, 1)
    tl.store(x, endless(1.0, 0))


@mimw.jit
def calls_below(x):
    tlx.local_alloc((16, ), tl.float32, 1)
    tl.store(x, below(1.0, 0))


@mimw.jit
def calls_below_plainly(x):
    tl.store(x, below(1.0, 0))


@pytest.mark.long(but=["calls_endless_of_ours"], everywhere=True)
@pytest.mark.parametrize("kernel", [calls_endless, calls_endless_of_ours])
def test_a_recursion_without_an_end_is_told(kernel):
    for tool in (mimw.simulate, mimw.compile):
        with pytest.raises(triton.CompilationError) as told:
            tool(kernel, (1, ), np.zeros(1, np.float32))
        while told.value.__cause__ is not None and tool is mimw.compile:      # a plain kernel's error is Triton's, call by call
            told = type("Inner", (), {"value": told.value.__cause__})
        assert "endless would be helper number 501 inside each other, and 500 may be" in str(told.value)
        assert len(str(told.value)) < 4000


@pytest.mark.parametrize("kernel", [calls_below, calls_below_plainly])
def test_an_error_far_below_is_told_at_once(kernel):
    """Triton looks at cause and context of every error of a chain, so each helper would double the time."""
    with pytest.raises(triton.CompilationError):
        mimw.compile(kernel, (1, ), np.zeros(1, np.float32))
    with pytest.raises(triton.CompilationError, match="nowhere is not defined") as told:
        mimw.simulate(kernel, (1, ), np.zeros(1, np.float32))
    text = str(told.value)
    assert "calls more ..." in text and text.count("called from") < 15 and kernel.__name__ in text


def test_the_limit_is_as_before_when_the_last_block_ends():
    before = sys.getrecursionlimit()
    with deep():
        with deep():
            assert sys.getrecursionlimit() == max(before, LIMIT)
        assert sys.getrecursionlimit() == max(before, LIMIT)
    assert sys.getrecursionlimit() == before
