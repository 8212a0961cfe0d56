"""No conversion between an `async_dot` and its wait."""

import pytest

from mimw.compiler.constraints import solve_layouts
from mimw.errors import LayoutConflict, TargetError
from mimw.ir import Tensor
from mimw.ir.layouts import Mma
from mimw.target import target

from .building import FP8, FP32, Kernel, named

ACC = Tensor(FP32, (64, 64))
BY_16, BY_32 = Mma((4, 1), (16, 64, 16)), Mma((4, 1), (16, 64, 32))


def operands(k, element=None):
    options = {} if element is None else {"element": element}
    a, b = (k("buffer_index", k.alloc((64, 64), **options), k.number()) for _ in range(2))
    return a, k("buffer_trans", b, (1, 0))


def dot(k, pair, acc, line, name=""):
    return k("async_dot", *pair, acc, 0, 0, at=line, type=ACC, name=name)


def conflict_of(k) -> LayoutConflict:
    with pytest.raises(LayoutConflict) as caught:
        solve_layouts(k.finish())
    return caught.value


def two_kinds(k, wait: int | None):
    """A bf16 dot whose result an fp8 dot accumulates on, with `wait` groups left pending between them."""
    running = dot(k, operands(k), None, 5, "first")
    if wait is not None:
        running = k("async_dot_wait", wait, running, at=6)
    return k("async_dot_wait", 0, dot(k, operands(k, FP8), running, 7, "second"))


@pytest.mark.parametrize("wait", [None, 1])
def test_dots_of_different_layouts_do_not_chain(wait):
    k = Kernel()
    two_kinds(k, wait)
    error = conflict_of(k)
    assert error.message == (
        "an accumulator would change its layout while it is being computed:\n"
        "  k.py:5 async_dot accumulates in wgmma(m64n64k16, warps (4, 1))\n"
        "  k.py:7 async_dot accumulates in wgmma(m64n64k32, warps (4, 1))")
    assert error.hint == "put async_dot_wait(0, ...) between them."


def test_dots_of_different_layouts_chain_behind_a_full_wait():
    k = Kernel()
    two_kinds(k, 0)
    program = k.finish()
    layouts = solve_layouts(program)
    assert layouts.registers[named(program, "first")] == BY_16
    assert layouts.registers[named(program, "second")] == BY_32
    (second, ) = [op for op in program.walk() if op.site.line == 7]
    assert layouts.operands == {(second, 2): BY_32}


def test_the_other_dot_is_found_through_a_loop():
    k = Kernel()
    with k.loop(k.tile((64, 64))) as (_, (acc, )):
        first = dot(k, operands(k), acc, 5)
        k("yield", (dot(k, operands(k, FP8), k("async_dot_wait", 0, first), 7), ), at=9)
    error = conflict_of(k)
    assert [site.line for site in error.sites] == [7, 5]


def test_a_store_before_the_wait_is_refused_with_both_lines():
    k = Kernel()
    running = dot(k, operands(k), None, 5)
    k("store", k.pointers("out", (64, 64)), running, None, at=6)
    error = conflict_of(k)
    assert error.message == (
        "an accumulator would change its layout while it is being computed:\n"
        "  k.py:5 async_dot accumulates in wgmma(m64n64k16, warps (4, 1))\n"
        "  k.py:6 store wants blocked(each (1, 1), threads (1, 32), warps (2, 2), order (1, 0))")


def test_a_finished_result_is_read_while_a_younger_dot_runs():
    k = Kernel()
    first = dot(k, operands(k), None, 5)
    younger = dot(k, operands(k), None, 6)
    k("store", k.pointers("out", (64, 64)), k("async_dot_wait", 1, first, name="done"), None, at=7)
    k("async_dot_wait", 0, younger)
    program = k.finish()
    layouts = solve_layouts(program)
    assert layouts.registers[named(program, "done")] == BY_16
    assert {(op.name, index) for op, index in layouts.operands} == {("store", 1)}


def test_a_pipelined_chain_carries_running_accumulators_without_conversions():
    k = Kernel()
    with k.loop(k.tile((64, 64))) as (loop, (acc, )):
        k("yield", (k("async_dot_wait", 1, dot(k, operands(k), acc, 5)), ))
    loop.results[0].name = "running"
    k("async_dot_wait", 0, loop.results[0], name="done")
    program = k.finish()
    layouts = solve_layouts(program)
    assert layouts.registers[named(program, "running")] == BY_16
    assert layouts.registers[named(program, "done")] == BY_16
    assert layouts.operands == {}


def test_a_target_without_wgmma_refuses_async_dot():
    k = Kernel()
    dot(k, operands(k), None, 5)
    with pytest.raises(TargetError, match="k.py:5 async_dot needs wgmma"):
        solve_layouts(k.finish(), target("sm_80"))
