"""The kernels of `tests.kernels.raw_bodies` against numpy, on the simulator and on a GPU, and what they compile to."""

from typing import Literal as L

import numpy as np
import pytest

import mimw
import mimw.tle as tle
from mimw.testing import compare
from mimw.tle.raw import InOut, Input, arith, dialect, ir, llvm, scf
from tests.compiling import to_assembly
from tests.kernels.raw_bodies import add_pointers, add_seed, matmul_tiles, softmax_rows, topk_rows


def _random(*shape):
    return np.random.default_rng(0).standard_normal(shape).astype(np.float32)


def test_a_sum_in_the_seeds_form(machine):
    x, y, output = _random(1024), _random(1024)[::-1].copy(), np.zeros(1024, np.float32)
    machine.launch(add_seed, (1, ), x, y, output, 1024)
    assert (output == x + y).all()


@pytest.mark.parametrize("grid, n", [(3, 1000), (1, 5)])
def test_a_sum_through_pointers(machine, grid, n):
    x, y, output = _random(n), _random(n)[::-1].copy(), np.full(n + 3, 7, np.float32)
    machine.launch(add_pointers, (grid, ), x, y, output, n)
    assert (output[:n] == x + y).all() and (output[n:] == 7).all()


@pytest.mark.parametrize("rows, columns, warps", [(8, 64, 4), (4, 32, 8)])
def test_softmax(machine, rows, columns, warps):
    x = _random(rows, columns)
    output, powers = np.zeros_like(x), np.exp(x - x.max(1, keepdims=True))
    machine.launch(softmax_rows, (1, ), x, output, rows, columns, num_warps=warps)
    compare(output, powers / powers.sum(1, keepdims=True), rtol=1e-5, atol=1e-6)


def test_matmul(machine):
    a, b = _random(32, 32), _random(32, 32).T.copy()
    c = np.zeros((32, 32), np.float32)
    machine.launch(matmul_tiles, (2, 2), a, b, c, 32, 32, 16, 16, 16)
    compare(c, a @ b, rtol=1e-4, atol=1e-4)


def test_topk_with_ties(machine):
    x = np.random.default_rng(1).integers(0, 40, (3, 64)).astype(np.float32)
    values, at = np.zeros((3, 8), np.float32), np.zeros((3, 8), np.int32)
    machine.launch(topk_rows, (3, ), x, values, at, 64, 8)
    order = np.argsort(-x, axis=1, kind="stable")[:, :8]
    assert (at == order).all() and (values == np.take_along_axis(x, order, 1)).all()


def test_what_they_compile_to():
    """Shuffles are shuffles within the warp, elements of shared memory single accesses, pointers predicated accesses of global
    memory."""
    ptx = to_assembly(softmax_rows, {"x_ptr": "*fp32", "output_ptr": "*fp32"}, {"R": 4, "C": 32}).stage("ptx")
    assert ptx.count("shfl.sync.idx") == 10 and "ex2.approx" in ptx and "div.rn.f32" in ptx
    ptx = to_assembly(add_pointers, {"x_ptr": "*fp32", "y_ptr": "*fp32", "output_ptr": "*fp32", "n": "i32"}, {}).stage("ptx")
    assert "%tid.x" in ptx and "%nctaid.x" in ptx and ptx.count("ld.global.b32") == 2
    trip = ptx[ptx.index("ld.global.b32"):]
    assert "bar.sync" not in trip[:trip.index("bra")]       # how many trips there are is known when the loop begins


@dialect(name="mlir")
def count(total: InOut[L["!llvm.ptr<1>"]], atomic: Input[L["i32"]]):
    """Every thread adds one."""
    i32 = ir.IntegerType.get_signless(32)
    one = arith.constant(i32, 1)
    with scf.if_(arith.cmpi(arith.CmpIPredicate.ne, atomic, 0)):
        llvm.atomicrmw(llvm.AtomicBinOp.add, total, one, llvm.AtomicOrdering.monotonic)
    with scf.else_():
        llvm.store(arith.addi(llvm.load(i32, total), one), total)


@mimw.jit
def count_threads(total_ptr, atomic):
    tle.raw.call(count, [total_ptr, atomic])


def test_races_are_found_and_atomics_are_none(machine):
    total = np.zeros(1, np.int32)
    machine.launch(count_threads, (3, ), total, 1, num_warps=2)
    assert total[0] == 3 * 64
    report = mimw.check(count_threads, (3, ), total, 0, num_warps=2)
    assert not report.ok and "DataRace" in str(report) and "llvm.store" in str(report)
