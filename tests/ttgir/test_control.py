"""Readers of loops, branches, calls and partitions: small kernels against Python."""

import numpy as np

from tests.ttgir.modules import kernel, ran


def number(body: str, *args: int, more: str = "") -> int:
    """What a kernel of numbers `%n`, .. stores."""
    out = np.zeros(1, np.int32)
    params = ", ".join([*(f"%n{place}: i32" for place in range(len(args))), "%o: !tt.ptr<i32>"])
    ran(kernel(params, body + "\ntt.store %o, %r : !tt.ptr<i32>", more=more), *args, out)
    return int(out[0])


CONSTANTS = "%c0 = arith.constant 0 : i32\n%c1 = arith.constant 1 : i32\n%c2 = arith.constant 2 : i32\n"


def test_for_hands_values_round():
    made = CONSTANTS + """%r:2 = scf.for %i = %c0 to %n0 step %c2 iter_args(%s = %c0, %p = %c1) -> (i32, i32) : i32 {
          %t = arith.addi %s, %i : i32
          %q = arith.muli %p, %c2 : i32
          scf.yield %t, %q : i32, i32
        }
        %x = arith.addi %r#0, %r#1 : i32"""
    made = made.replace("%x =", "%sum =")
    out = np.zeros(1, np.int32)
    ran(kernel("%n0: i32, %o: !tt.ptr<i32>", made + "\ntt.store %o, %sum : !tt.ptr<i32>"), 7, out)
    assert out[0] == sum(range(0, 7, 2)) + 2 ** 4


def test_if_takes_one_side():
    made = CONSTANTS + """%m = arith.cmpi sgt, %n0, %c2 : i32
        %r = scf.if %m -> (i32) {
          %t = arith.muli %n0, %n0 : i32
          scf.yield %t : i32
        } else {
          scf.yield %c1 : i32
        }"""
    assert number(made, 5) == 25 and number(made, 2) == 1


def test_if_without_else():
    made = CONSTANTS + """%m = arith.cmpi sgt, %n0, %c2 : i32
        scf.if %m {
          tt.store %o, %n0 : !tt.ptr<i32>
        }
        %r = arith.constant 9 : i32
        %p = tt.addptr %o, %c1 : !tt.ptr<i32>, i32"""
    for given, wanted in ((5, 5), (1, 0)):
        out = np.zeros(1, np.int32)
        ran(kernel("%n0: i32, %o: !tt.ptr<i32>", made), given, out)
        assert out[0] == wanted


def test_while_ends_by_its_condition():
    """The number of halvings until 1 is left."""
    made = CONSTANTS + """%w:2 = scf.while (%x = %n0, %k = %c0) : (i32, i32) -> (i32, i32) {
          %m = arith.cmpi sgt, %x, %c1 : i32
          scf.condition(%m) %x, %k : i32, i32
        } do {
        ^bb0(%x: i32, %k: i32):
          %h = arith.divsi %x, %c2 : i32
          %l = arith.addi %k, %c1 : i32
          scf.yield %h, %l : i32, i32
        }
        %r = arith.addi %w#1, %c0 : i32"""
    assert number(made, 40) == 5


def test_a_region_that_is_executed_at_once():
    made = CONSTANTS + """%e = scf.execute_region -> i32 {
          %t = arith.addi %n0, %c2 : i32
          scf.yield %t : i32
        }
        %r = arith.muli %e, %c2 : i32"""
    assert number(made, 4) == 12


def test_a_call_is_the_function_s_body():
    more = """  tt.func private @twice(%x: i32) -> i32 attributes {noinline = true} {
    %y = arith.addi %x, %x : i32
    tt.return %y : i32
  }
"""
    assert number("%t = tt.call @twice(%n0) : (i32) -> i32\n%r = tt.call @twice(%t) : (i32) -> i32", 3, more=more) == 12


def test_partitions_run_side_by_side():
    """The default partition waits for what a partition of one warp has stored."""
    made = CONSTANTS + """%b = ttg.local_alloc : () -> BARRIER
        ttng.init_barrier %b, 1 : BARRIER
        ttg.warp_specialize(%b, %o, %n0) attributes {requestedRegisters = array<i32: 24>}
        default {
          ttng.wait_barrier %b, %c0 : BARRIER
          %v = tt.load %o : !tt.ptr<i32>
          %d = arith.addi %v, %v : i32
          tt.store %o, %d : !tt.ptr<i32>
          ttg.warp_yield
        }
        partition0(%bb: BARRIER, %oo: !tt.ptr<i32>, %n: i32) num_warps(1) {
          tt.store %oo, %n : !tt.ptr<i32>
          ttng.arrive_barrier %bb, 1 : BARRIER
          ttg.warp_return
        } : (BARRIER, !tt.ptr<i32>, i32) -> ()
        ttng.inval_barrier %b : BARRIER"""
    out = np.zeros(1, np.int32)
    ran(kernel("%n0: i32, %o: !tt.ptr<i32>", made), 21, out)
    assert out[0] == 42
