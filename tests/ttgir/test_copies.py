"""Readers of mbarriers, fences, cp.async and TMA: small kernels against numpy, and each mistake once."""

import numpy as np
import pytest

from mimw import TensorDescriptor
from mimw.errors import BarrierNotReady, CopyReadEarly, MissingFence, TooFewArrivals, UnfinishedAtExit, WaitCycle
from tests.ttgir.modules import AT, TILE, kernel, loaded, ran, stored

MADE = """%c0 = arith.constant 0 : i32
    %true = arith.constant true
    %full = ttg.local_alloc : () -> BARRIER
    ttng.init_barrier %full, 1 : BARRIER
    %tile = ttg.local_alloc : () -> SLOT
    """
LOAD = """ttng.barrier_expect %full, 8192, %true : BARRIER
    ttng.async_tma_copy_global_to_local %x[%c0, %c0] %tile, %full, %true : DESC, BARRIER -> SLOT
    """
WAIT = "ttng.wait_barrier %full, %c0 : BARRIER\n"
TWICE = """%v = ttg.local_load %tile : SLOT -> BLOCK
    %w = arith.addf %v, %v : BLOCK
    ttg.local_store %w, %tile : BLOCK -> SLOT
    """
FENCE = "ttng.fence_async_shared {bCluster = false}\n"
STORE = "ttng.async_tma_copy_local_to_global %y[%c0, %c0] %tile : DESC, SLOT\n"
STORED = "ttng.async_tma_store_wait {pendings = 0 : i32}\nttng.inval_barrier %full : BARRIER"
X = np.random.default_rng(4).standard_normal((64, 64)).astype(np.float16)


def copied(*parts: str, x: np.ndarray = X, y: np.ndarray | None = None, block: int = 64, desc: str = "DESC") -> np.ndarray:
    out = np.zeros_like(x) if y is None else y.copy()
    args = (TensorDescriptor.from_tensor(one, [block, 64]) for one in (x, out))
    ran(kernel(f"%x: {desc}, %y: {desc}", MADE + "".join(parts)), *args)
    return out


def test_a_tile_comes_and_goes():
    assert (copied(LOAD, WAIT, TWICE, FENCE, STORE, STORED) == X + X).all()


@pytest.mark.parametrize("parts, error", [
    ((LOAD, TWICE, FENCE, STORE, STORED), CopyReadEarly), ((LOAD, WAIT, TWICE, STORE, STORED), MissingFence),
    ((LOAD, WAIT, TWICE, FENCE, STORE), UnfinishedAtExit),
    ((LOAD.split("\n", 1)[1], WAIT, TWICE, FENCE, STORE, STORED), WaitCycle)])
def test_what_is_left_out(parts, error):
    with pytest.raises(error):
        copied(*parts)


def test_a_barrier_that_nobody_made():
    with pytest.raises(BarrierNotReady):
        args = (TensorDescriptor.from_tensor(one, [64, 64]) for one in (X, np.zeros_like(X)))
        ran(kernel("%x: DESC, %y: DESC", MADE.replace("ttng.init_barrier %full, 1 : BARRIER", "") + LOAD + WAIT), *args)


def test_a_copy_whose_predicate_is_false_does_nothing():
    no = LOAD.replace("%true", "%no")
    assert (copied("%no = arith.constant false\n", no, LOAD, WAIT, TWICE, FENCE, STORE, STORED) == X + X).all()


def test_barriers_of_a_ring_and_arrivals_of_threads():
    body = """%c0 = arith.constant 0 : i32
        %c1 = arith.constant 1 : i32
        %b = ttg.local_alloc : () -> BARRIERS
        %p = ttg.memdesc_index %b[%c0] : BARRIERS -> BARRIER
        %q = ttg.memdesc_index %b[%c1] : BARRIERS -> BARRIER
        ttng.init_barrier %p, 1 : BARRIER
        ttng.init_barrier %q, 2 : BARRIER
        ttng.arrive_barrier %q, 2 : BARRIER
        ttng.wait_barrier %q, %c0 : BARRIER
        ttg.barrier local
        gpu.barrier
        tt.store %o, %n : !tt.ptr<i32>"""
    out = np.zeros(1, np.int32)
    ran(kernel("%n: i32, %o: !tt.ptr<i32>", body), 5, out)
    assert out[0] == 5
    with pytest.raises(TooFewArrivals):
        ran(kernel("%n: i32, %o: !tt.ptr<i32>", body.replace("wait_barrier %q", "wait_barrier %p")), 5, out)


@pytest.mark.parametrize("word, wanted", [("add", lambda y, x: y + x), ("max", np.maximum), ("min", np.minimum)])
def test_reductions_by_tma(word, wanted):
    y = X[::-1].copy()
    made = STORE.replace("async_tma_copy_local_to_global ", f"async_tma_reduce {word}, ")
    assert "ttng.async_tma_reduce" in made
    assert np.allclose(copied(LOAD, WAIT, made, STORED, y=y), wanted(y, X), rtol=1e-3)


def test_rows_by_number():
    """The rows of the tensor that are named come, and go to others."""
    layout = "#numbers = #ttg.slice<{dim = 0, parent = #ttg.blocked<{sizePerThread = [1, 4], threadsPerWarp = [32, 1], " \
             "warpsPerCTA = [1, 4], order = [1, 0]}>}>\n"
    body = MADE + """%i = tt.make_range {start = 0 : i32, end = 64 : i32} : tensor<64xi32, #numbers>
        %k = arith.constant dense<63> : tensor<64xi32, #numbers>
        %r = arith.subi %k, %i : tensor<64xi32, #numbers>
        ttng.barrier_expect %full, 8192, %true : BARRIER
        ttng.async_tma_gather %x[%r, %c0] %tile, %full, %true : ROW, tensor<64xi32, #numbers>, i32, BARRIER, SLOT, i1
        ttng.wait_barrier %full, %c0 : BARRIER
        ttng.async_tma_scatter %y[%i, %c0] %tile : ROW, tensor<64xi32, #numbers>, i32, SLOT
        """ + STORED
    row = "!tt.tensordesc<1x64xf16, #tma>"
    out = np.zeros_like(X)
    args = (TensorDescriptor.from_tensor(one, [1, 64]) for one in (X, out))
    ran(kernel("%x: ROW, %y: ROW", body, layouts=layout, target="cuda:100").replace("ROW", row), *args, target="sm_100a")
    assert (out == X[::-1]).all()


POINTERS = f"tensor<{TILE}x!tt.ptr<i32>, #line>"
MEMORY = f"!ttg.memdesc<{TILE}xi32, #barrier, #smem, mutable>"
GROUPS = AT + loaded("unused", "%x", "i32") + f"""%m = ttg.local_alloc : () -> {MEMORY}
    %k = arith.constant dense<100> : tensor<{TILE}xi32, #line>
    %z = arith.constant dense<-1> : tensor<{TILE}xi32, #line>
    %in = arith.cmpi slt, %at, %k : tensor<{TILE}xi32, #line>
    %t = ttg.async_copy_global_to_local %qunused, %m mask %in other %z : {POINTERS} -> {MEMORY}
    %g = ttg.async_commit_group tokens %t
    %w = ttg.async_wait %g {{num = 0 : i32}}
    %r = ttg.local_load %m token %w : {MEMORY} -> tensor<{TILE}xi32, #line>
    """ + stored("%r", "%o", "i32")


def test_groups_of_cp_async():
    x, out = np.arange(TILE, dtype=np.int32), np.zeros(TILE, np.int32)
    ran(kernel("%x: !tt.ptr<i32>, %o: !tt.ptr<i32>", GROUPS, target="cuda:80"), x, out, target="sm_80")
    assert (out == np.where(x < 100, x, -1)).all()
    with pytest.raises(CopyReadEarly):
        early = GROUPS.replace("num = 0", "num = 1")
        ran(kernel("%x: !tt.ptr<i32>, %o: !tt.ptr<i32>", early, target="cuda:80"), x, out, target="sm_80")
