"""Branches and loops of raw bodies whose threads go different ways, helpers that read MLIR's classes, and what is refused."""

from typing import Literal as L

import numpy as np
import pytest
import triton.language as tl

import mimw
import mimw.tle as tle
from mimw.errors import RawCodeError, UnknownSymbolError
from mimw.tle.raw import InOut, Input, arith, dialect, func, gpu, ir, llvm, memref, nvvm, scf

INDEX, I32, F32 = ir.IndexType.get(), ir.IntegerType.get_signless(32), ir.F32Type.get()


@dialect(name="mlir")
def collatz(x: InOut[L["memref<?xi32, 3>"]]):
    """How many steps from each number to 1: every thread goes on for as long as its own takes."""
    at = gpu.thread_id("x")
    one, two, three = arith.constant(I32, 1), arith.constant(I32, 2), arith.constant(I32, 3)
    loop = scf.WhileOp([I32, I32], [memref.load(x, [at]), arith.constant(I32, 0)])
    before = loop.before.blocks.append(I32, I32)
    with ir.InsertionPoint(before):
        number, steps = before.arguments
        scf.condition(arith.cmpi(arith.CmpIPredicate.ne, number, one), [steps, number])
    with loop.after as (steps, number):
        odd = arith.cmpi(arith.CmpIPredicate.eq, arith.remsi(number, two), one)
        following = scf.IfOp(odd, [I32], hasElse=True)
        with ir.InsertionPoint(following.then_block):
            scf.yield_([arith.addi(arith.muli(number, three), one)])
        with ir.InsertionPoint(following.else_block):
            scf.yield_([arith.divsi(number, two)])
        scf.yield_([following.result, arith.addi(steps, one)])
    memref.store(loop.results[0], x, [at])


@dialect(name="mlir")
def triangle(x: InOut[L["memref<?xi32, 3>"]], n: Input[L["i32"]]):
    """x[t] = 0 + 1 + .. + t in a loop of t + 1 trips; then for t < n, and n by branches that all take, something else."""
    thread = nvvm.read_ptx_sreg_tid_x()
    for i, (total, odd), sums in scf.for_(arith.constant(I32, 0), arith.addi(thread, 1), arith.constant(I32, 1),
                                          [arith.constant(I32, 0), arith.constant(I32, 0)]):
        with scf.if_(arith.cmpi("eq", arith.andi(i, 1), 1), [I32]) as more:
            scf.yield_([odd + 1])
        with scf.else_(more):
            scf.yield_([odd])
        scf.yield_([arith.addi(total, i), more.results[0]])
    first = arith.index_cast(INDEX, thread)
    memref.store(sums[0], x, [first])
    with scf.if_(arith.cmpi("sgt", n, 3)) as many:          # the same for all: a branch, in which all may meet
        nvvm.barrier0()
        other = memref.load(x, [arith.index_cast(INDEX, arith.xori(thread, 1))])
        nvvm.barrier0()
        with scf.if_(arith.cmpi("slt", thread, n)):
            memref.store(-other, x, [first])
    with scf.else_(many):
        memref.store(sums[1], x, [first])


@dialect(name="mlir")
def powers(x: InOut[L["memref<?xi32, 3>"]], n: Input[L["i32"]]):
    """A loop that all take alike, whose number starts as one for all and becomes each thread's own."""
    thread = nvvm.read_ptx_sreg_tid_x()
    loop = scf.while_([I32, I32], [arith.constant(I32, 1), arith.constant(I32, 0)])
    with loop.before as (power, i):
        scf.condition(i < n, [power, i])
    with loop.after as (power, i):
        nvvm.barrier0()
        for row in range(2):
            power = arith.muli(power, thread)
        scf.yield_([power, i + 1])
    memref.store(loop.results[0], x, [arith.index_cast(INDEX, thread)])


def put(value, x, at):
    """A helper."""
    memref.store(value, x, [at])


@dialect(name="mlir")
def reversed_by_hand(x: InOut[L["memref<?xi32, 3>"]]):
    """Through memory of each thread's own, and memory of all."""
    at, n = gpu.thread_id("x"), memref.dim(x, 0)
    mine, shared = memref.alloca(ir.MemRefType.get([3], I32)), memref.alloc(ir.Type.parse("memref<64xi32, 3>"))
    memref.store(memref.load(x, [at]), mine, [2])
    memref.store(memref.load(mine, [arith.addi(arith.constant(INDEX, 1), 1)]), shared, [n - at - 1])
    gpu.barrier()
    func.call(put, [shared[at], x, at])
    func.return_([x])


@dialect(name="mlir", pipeline=["canonicalize"])
def by_address(x: InOut[L["!llvm.ptr<3>"]], n: Input[L["index"]]):
    """Through addresses of shared memory; Python's `range` over a number of the kernel; a branch with three arguments."""
    pointer, at = llvm.PointerType.get(3), nvvm.ThreadIdXOp(I32).res
    mine = llvm.GEPOp(pointer, x, [at], [-2147483648], I32).res
    total, stays = arith.ConstantOp(I32, 0).result, scf.IfOp(arith.cmpi("sge", at, 32), [I32], True)
    with ir.InsertionPoint(stays.then_block):
        scf.YieldOp([llvm.LoadOp(I32, mine).res])
    with ir.InsertionPoint(stays.else_block):
        scf.YieldOp([total])
    for i, total, sums in scf.ForOp(arith.constant(INDEX, 0), n, arith.constant(INDEX, 1), [stays.result]):
        scf.yield_([arith.addi(total, 2)])
    nvvm.Barrier0Op()
    for i in range(n):
        llvm.StoreOp(sums, mine)


def call_of(function, *more):
    """A kernel that calls the function with a tile of x, once."""

    @mimw.jit
    def kernel(x_ptr, n, N: tl.constexpr, MORE: tl.constexpr):
        at = tl.arange(0, N)
        x = tl.load(x_ptr + at)
        if MORE:
            x = tle.raw.call(function, [x, n])
        else:
            x = tle.raw.call(function, [x])
        tl.store(x_ptr + at, x)

    return kernel


def collatz_steps(number: int) -> int:
    steps = 0
    while number != 1:
        number, steps = 3 * number + 1 if number % 2 else number // 2, steps + 1
    return steps


THREADS = np.arange(64, dtype=np.int32)
SUMS = THREADS * (THREADS + 1) // 2


@pytest.mark.parametrize("function, n, x, expected", [
    (collatz, None, THREADS + 1, np.array([collatz_steps(number + 1) for number in range(64)])),
    (triangle, 3, THREADS * 0, (THREADS + 1) // 2),
    (triangle, 40, THREADS * 0, np.where(THREADS < 40, -SUMS[THREADS ^ 1], SUMS)),
    (powers, 2, THREADS * 0, THREADS ** 4),
    (powers, 0, THREADS * 0, THREADS * 0 + 1),
    (by_address, 3, THREADS, np.where(THREADS < 32, 6, THREADS + 6)),
    (reversed_by_hand, None, THREADS * 3, THREADS[::-1] * 3)])
def test_threads_that_go_different_ways(machine, function, n, x, expected):
    x = x.astype(np.int32)
    machine.launch(call_of(function), (1, ), x, n or 0, 64, n is not None, num_warps=2)
    assert (x == expected).all()


# ---- what is refused ----------------------------------------------------------------------------------------------------


def unknown_name(x: InOut[L["memref<?xi32, 3>"]]):
    memref.store(arith.constnt_of(3), x, [0])


def unknown_module(x: InOut[L["memref<?xi32, 3>"]]):
    memref.store(memreff.load(x, [0]), x, [0])  # noqa: F821


def two_types(x: InOut[L["memref<?xi32, 3>"]]):
    at = nvvm.read_ptx_sreg_tid_x()
    memref.store(arith.addi(at, gpu.thread_id("x")), x, [at])


def meets_in_a_branch(x: InOut[L["memref<?xi32, 3>"]]):
    with scf.if_(arith.cmpi("slt", nvvm.read_ptx_sreg_tid_x(), 3)):
        nvvm.barrier0()


def out_of_its_region(x: InOut[L["memref<?xi32, 3>"]]):
    for i in scf.for_(0, 4, 1):
        twice = arith.addi(i, i)
    memref.store(arith.index_cast(I32, twice), x, [0])


def writes_an_input(x: Input[L["memref<?xi32, 3>"]]):
    memref.store(arith.constant(I32, 1), x, [0])


def wrong_rank(x: InOut[L["memref<?xi32, 3>"]]):
    memref.store(arith.constant(I32, 1), x, [0, 0])


def stands_still(x: InOut[L["memref<?xi32, 3>"]]):
    for i in scf.for_(0, 4, 0):
        memref.store(arith.constant(I32, 1), x, [i])


def no_yield(x: InOut[L["memref<?xi32, 3>"]]):
    for i, total, all_of_them in scf.for_(0, 4, 1, [arith.constant(I32, 0)]):
        arith.addi(total, 1)


def asks_in_python(x: InOut[L["memref<?xi32, 3>"]]):
    if memref.load(x, [0]) < 3:
        memref.store(arith.constant(I32, 1), x, [0])


def half_a_branch(x: InOut[L["memref<?xi32, 3>"]]):
    with scf.if_(arith.cmpi("eq", memref.load(x, [0]), 1), [I32]):
        scf.yield_([arith.constant(I32, 1)])


def defines(x: InOut[L["memref<?xi32, 3>"]]):
    class Inner:
        pass


@pytest.mark.parametrize("function, kind, says", [
    (unknown_name, UnknownSymbolError, "raw bodies have no arith.constnt_of. Did you mean arith.constant"),
    (unknown_module, UnknownSymbolError, "'memreff' is not known in the raw body unknown_module. Did you mean memref"),
    (two_types, RawCodeError, "arith.addi takes operands of one type, got i32 and index"),
    (meets_in_a_branch, RawCodeError, "nvvm.barrier0 is reached by some threads only"),
    (out_of_its_region, RawCodeError, "was made inside this scf.for_ and is not known outside of it"),
    (writes_an_input, RawCodeError, "memref.store writes to x, which is an Input"),
    (wrong_rank, RawCodeError, "2 indices for x of rank 1, memref<64xi32, 3>"),
    (stands_still, RawCodeError, "the step must be positive, got 0"),
    (no_yield, RawCodeError, "the body of this scf.for_ yields 0 values, and 1 are wanted"),
    (asks_in_python, RawCodeError, "Python's `if` cannot ask for a value of the body"),
    (half_a_branch, RawCodeError, "this scf.if_ gives values and has no else side"),
    (defines, RawCodeError, "raw bodies have no classdef statement")])
def test_what_cannot_be_names_the_line_in_the_body(function, kind, says):
    with pytest.raises(kind) as found:
        mimw.simulate(call_of(dialect(name="mlir")(function)), (1, ), THREADS.copy(), 0, 64, False, num_warps=2)
    assert says in str(found.value) and f" in {function.__name__}" in str(found.value) and "called from" in str(found.value)
