"""Readers of global memory: loads, stores, atomics, asserts and prints, against numpy."""

import numpy as np
import pytest

from mimw.errors import DataRace, SimulationError
from tests.ttgir.modules import AT, elementwise, kernel, loaded, ran, stored

X = np.arange(128, dtype=np.int32)
MASK = "%k = arith.constant dense<100> : tensor<128xi32, #line>\n%m = arith.cmpi slt, %at, %k : tensor<128xi32, #line>\n"
POINTERS = "tensor<128x!tt.ptr<i32>, #line>"


def test_masked_loads_and_stores():
    made = MASK + f"%z = arith.constant dense<-1> : tensor<128xi32, #line>\n%r = tt.load %qa, %m, %z : {POINTERS}"
    assert (elementwise(made, "i32", "i32", X) == np.where(X < 100, X, -1)).all()
    out = np.full(128, 7, np.int32)
    ran(kernel("%o: !tt.ptr<i32>", AT + MASK + stored("%at, %m", "%o", "i32")), out)
    assert (out == np.where(X < 100, X, 7)).all()


@pytest.mark.parametrize("kind, wanted", [
    ("add", lambda o, x: o + x), ("and", lambda o, x: o & x), ("or", lambda o, x: o | x), ("xor", lambda o, x: o ^ x),
    ("max", np.maximum), ("min", np.minimum), ("exch", lambda o, x: x)])
def test_atomics(kind, wanted):
    """What was there comes back, and memory has what the kind makes of both."""
    out, old = np.full(128, 5, np.int32), np.zeros(128, np.int32)
    body = AT + loaded("a", "%xa", "i32") + f"""%po = tt.splat %o : !tt.ptr<i32> -> {POINTERS}
        %qo = tt.addptr %po, %at : {POINTERS}, tensor<128xi32, #line>
        %r = tt.atomic_rmw {kind}, acq_rel, gpu, %qo, %a : ({POINTERS}, tensor<128xi32, #line>) -> tensor<128xi32, #line>
        %pl = tt.splat %l : !tt.ptr<i32> -> {POINTERS}
        %ql = tt.addptr %pl, %at : {POINTERS}, tensor<128xi32, #line>
        tt.store %ql, %r : {POINTERS}"""
    ran(kernel("%xa: !tt.ptr<i32>, %o: !tt.ptr<i32>, %l: !tt.ptr<i32>", body), X, out, old)
    assert (old == 5).all() and (out == wanted(np.full(128, 5, np.int32), X)).all()


def test_compare_and_swap_and_atomic_loads():
    body = """%c0 = arith.constant 0 : i32
        %c9 = arith.constant 9 : i32
        %old = tt.atomic_cas acq_rel, gpu, %o, %c0, %c9 : (!tt.ptr<i32>, i32, i32) -> i32
        %c1 = arith.constant 1 : i32
        %p = tt.addptr %o, %c1 : !tt.ptr<i32>, i32
        %new = tt.atomic_cas acq_rel, gpu, %o, %c0, %c1 : (!tt.ptr<i32>, i32, i32) -> i32
        tt.store %p, %new : !tt.ptr<i32>"""
    out = np.zeros(2, np.int32)
    ran(kernel("%o: !tt.ptr<i32>", body), out)
    assert out.tolist() == [9, 9]


def test_a_flag_between_two_programs():
    """The second program waits until the first has raised the flag, and then reads what that one wrote before."""
    body = """%x = tt.get_program_id x : i32
        %c0 = arith.constant 0 : i32
        %c1 = arith.constant 1 : i32
        %flag = tt.addptr %o, %c1 : !tt.ptr<i32>, i32
        %first = arith.cmpi eq, %x, %c0 : i32
        scf.if %first {
          tt.store %o, %n : !tt.ptr<i32>
          tt.atomic_store release, gpu, %flag, %c1 : !tt.ptr<i32>
        } else {
          %seen = "tt.atomic_poll"(%flag, %c1) <{sem = 2 : i32, scope = 1 : i32}> : (!tt.ptr<i32>, i32) -> i1
          %up = tt.atomic_load acquire, gpu, %flag : (!tt.ptr<i32>) -> i32
          %v = tt.load %o : !tt.ptr<i32>
          %s = arith.addi %v, %up : i32
          %c2 = arith.constant 2 : i32
          %p = tt.addptr %o, %c2 : !tt.ptr<i32>, i32
          tt.store %p, %s : !tt.ptr<i32>
        }"""
    out = np.zeros(3, np.int32)
    ran(kernel("%n: i32, %o: !tt.ptr<i32>", body), 41, out, grid=(2, ))
    assert out.tolist() == [41, 1, 42]
    with pytest.raises(DataRace):
        weak = body.replace("atomic_store release", "atomic_store relaxed")
        ran(kernel("%n: i32, %o: !tt.ptr<i32>", weak), 41, out * 0, grid=(2, ))


def test_an_assert_that_fails_is_told_with_its_words():
    body = '%c5 = arith.constant 5 : i32\n%m = arith.cmpi slt, %n, %c5 : i32\n%s = tt.splat %m : i1 -> tensor<1xi1, #line>\n' \
           'tt.assert %s, "few enough" : tensor<1xi1, #line>'
    ran(kernel("%n: i32", body), 4)
    with pytest.raises(SimulationError, match="few enough"):
        ran(kernel("%n: i32", body), 6)


def test_prints(capsys):
    ran(kernel("%n: i32", 'tt.print "n is " {hex = false, isSigned = array<i32: 1>} : %n : i32'), 17)
    assert "n is " in (told := capsys.readouterr().out) and "17" in told


def test_pointers_as_numbers():
    body = """%i = tt.ptr_to_int %o : !tt.ptr<i32> -> i64
        %p = tt.int_to_ptr %i : i64 -> !tt.ptr<i32>
        %c3 = arith.constant 3 : i32
        tt.store %p, %c3 : !tt.ptr<i32>"""
    out = np.zeros(1, np.int32)
    ran(kernel("%o: !tt.ptr<i32>", body), out)
    assert out[0] == 3


def test_what_orders_launches_and_what_is_assumed_changes_nothing():
    body = """tt.grid_dependency_wait
        %c3 = arith.constant 3 : i32
        %m = arith.cmpi eq, %c3, %c3 : i32
        llvm.intr.assume %m : i1
        tt.store %o, %c3 : !tt.ptr<i32>
        tt.grid_dependency_launch_dependents"""
    out = np.zeros(1, np.int32)
    ran(kernel("%o: !tt.ptr<i32>", body), out)
    assert out[0] == 3
