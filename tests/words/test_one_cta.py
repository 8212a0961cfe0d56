"""Words for clusters in launches without one: the CTA is a cluster by itself, of rank 0; what is for others is under a guard."""

import warnings

import numpy as np
import pytest
import triton
import triton.language as tl

import mimw
import mimw.tle as tle
import mimw.tlx as tlx
from mimw.errors import KernelError, OutOfBounds
from mimw.runtime.compile_kernel import compile_kernel
from tests.kernels import clusters as kernels

from .test_cluster import numbers

ALONE = [{}, {"ctas_per_cga": (1, 1, 1)}]


@pytest.mark.parametrize("options", ALONE, ids=["no cluster", "(1, 1, 1)"])
@pytest.mark.parametrize("dtype", ["fp32", "fp16"])
def test_asynchronous_stores_to_all_of_one(machine, dtype, options):
    type_, numpy_type = {"fp32": (tl.float32, np.float32), "fp16": (tl.float16, np.float16)}[dtype]
    x = numbers(4, 5, 32, 64, dtype=numpy_type)
    y = np.zeros_like(x)
    machine.launch(kernels.all_reduce, (4, ), x, y, type_, 32, 64, 1, 5, **options)
    assert (y == x).all()


@mimw.jit
def to_oneself(x_ptr, y_ptr, N: tl.constexpr, RANK: tl.constexpr):
    """A store, a copy and a bulk copy to the own CTA, a cluster barrier between; RANK is a number or asked of the hardware."""
    tiles = tlx.local_alloc((N, ), tl.float32, 3)
    arrived = tlx.alloc_barriers(1)
    rank = tlx.cluster_cta_rank() if RANK is None else RANK
    at = tl.arange(0, N)
    tlx.remote_shmem_store(tiles[0], tl.load(x_ptr + at), rank)
    tlx.cluster_barrier()
    tlx.local_store(tiles[1], tlx.local_load(tiles[0]) * 2)
    tlx.fence("async_shared")
    tlx.barrier_expect_bytes(arrived, 4 * N)
    tlx.async_remote_shmem_copy(tiles[2], tiles[1], rank, arrived)
    tlx.barrier_wait(arrived, 0)
    tl.store(y_ptr + at, tlx.local_load(tiles[2]))


@pytest.mark.parametrize("rank", [0, None], ids=["0", "cluster_cta_rank()"])
def test_stores_and_copies(machine, rank):
    x, y = numbers(256), np.zeros(256, np.float32)
    machine.launch(to_oneself, (1, ), x, y, 256, rank)
    assert (y == 2 * x).all()


def test_no_order_is_wrong():
    mimw.check(to_oneself, (1, ), numbers(256), np.zeros(256, np.float32), 256, None)


@mimw.jit
def multicast_to_oneself(x_desc, y_ptr, R: tl.constexpr, C: tl.constexpr):
    tile = tlx.local_alloc((R, C), tlx.dtype_of(x_desc), 1)
    full = tlx.alloc_barriers(1)
    tlx.barrier_expect_bytes(full, R * C * tlx.size_of(tlx.dtype_of(x_desc)))
    tlx.async_descriptor_load(x_desc, tile[0], [0, 0], full, multicast_targets=[tlx.cluster_cta_rank()])
    tlx.barrier_wait(full, 0)
    tl.store(y_ptr + tl.arange(0, R)[:, None] * C + tl.arange(0, C)[None, :], tlx.local_load(tile[0]))


def test_multicast(machine):
    x, y = numbers(32, 64, dtype=np.float16), np.zeros((32, 64), np.float16)
    machine.launch(multicast_to_oneself, (1, ), mimw.TensorDescriptor(x, [32, 64], [64, 1], [32, 64]), y, 32, 64)
    assert (y == x).all()


@mimw.jit
def own_pointers(x_ptr, y_ptr, N: tl.constexpr, RANK: tl.constexpr):
    """Loads, stores and atomics through `tle.remote` pointers to the own CTA."""
    at = tl.arange(0, N)
    rank = tlx.cluster_cta_rank() if RANK is None else RANK
    row = tle.gpu.alloc([N], tl.int32)
    pointers = tle.remote(tle.gpu.local_ptr(row), rank)
    tl.store(pointers, tl.load(x_ptr + at))
    tle.distributed_barrier()
    tl.atomic_add(tle.remote(tle.gpu.local_ptr(row, (N - 1 - at, )), rank), at)
    tle.distributed_barrier()
    tl.store(y_ptr + at, tl.load(pointers))


@pytest.mark.parametrize("rank", [0, None], ids=["0", "cluster_cta_rank()"])
def test_pointers(machine, rank):
    x, y = numbers(128, dtype=np.int32), np.zeros(128, np.int32)
    machine.launch(own_pointers, (1, ), x, y, 128, rank)
    assert (y == x + np.arange(128)[::-1]).all()


@mimw.jit
def guarded(y_ptr, n, GUARD: tl.constexpr, WORD: tl.constexpr):
    """What is for CTA 1, under a condition; without a cluster only `n` can let it run."""
    tile = tlx.local_alloc((64, ), tl.int32, 1)
    bar = tlx.alloc_barriers(1)
    if GUARD == "rank":
        if tlx.cluster_cta_rank() != 0:
            to_the_other(tile[0], bar, WORD)
    elif GUARD == "size":
        if tlx.cluster_size_1d() > 1:
            if n > 0:
                to_the_other(tile[0], bar, WORD)
    elif GUARD == "loop":
        for _ in range(1, tlx.cluster_size_1d()):
            to_the_other(tile[0], bar, WORD)
    elif GUARD == "else":
        if tl.program_id(0) % 1 == 0:
            tl.store(y_ptr + 1, 1)
        else:
            to_the_other(tile[0], bar, WORD)
    elif GUARD == "n":
        if n > 0:
            to_the_other(tile[0], bar, WORD)
    else:
        to_the_other(tile[0], bar, WORD)
    tl.store(y_ptr, 1)


@mimw.jit
def to_the_other(tile, bar, WORD: tl.constexpr):
    if WORD == "store":
        tlx.remote_shmem_store(tile, tl.zeros((64, ), tl.int32), 1)
    elif WORD == "async store":
        tlx.async_remote_shmem_store(tile, tl.zeros((64, ), tl.int32), 1, bar)
    elif WORD == "copy":
        tlx.async_remote_shmem_copy(tile, tile, 1, bar)
    elif WORD == "arrive":
        tlx.barrier_arrive(bar, 1, remote_cta_rank=1)
    elif WORD == "view":
        tlx.remote_view(bar, 1)
    elif WORD == "pointer":
        tl.store(tle.remote(tle.gpu.local_ptr(tile), 1), 0)


WORDS = ["store", "async store", "copy", "arrive", "view", "pointer"]


@pytest.mark.long(but=["arrive-rank", "async store-loop", "copy-else", "pointer-rank", "store-else", "view-size"], everywhere=True)
@pytest.mark.parametrize("guard", ["rank", "size", "loop", "else"])
@pytest.mark.parametrize("word", WORDS)
def test_what_can_never_run_compiles(word, guard):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        compile_kernel(guarded, {"y_ptr": "*i32", "n": "i32"}, {"GUARD": guard, "WORD": word})
        mimw.simulate(guarded, (1, ), np.zeros(2, np.int32), 1, guard, word)


@pytest.mark.parametrize("guard", ["rank", "size", "loop"])
def test_what_can_never_run_does_not(machine, guard):
    y = np.zeros(2, np.int32)
    machine.launch(guarded, (1, ), y, 1, guard, "store")
    assert y[0] == 1


@pytest.mark.parametrize("word", ["store", "async store", "copy"])
def test_what_may_run_is_told_and_found(word):
    with pytest.warns(UserWarning, match="rank 1; without a cluster there is rank 0 only"):
        mimw.simulate(guarded, (1, ), np.zeros(2, np.int32), -7, "n", word)
    with pytest.raises(OutOfBounds, match="rank 1 of a cluster of 1"):
        mimw.simulate(guarded, (1, ), np.zeros(2, np.int32), 7, "n", word)


@pytest.mark.parametrize("word", WORDS)
def test_what_must_run_is_refused(word):
    told = "Unexpected buffer remote view in 1cta mode" if word in ("arrive", "view") else "rank 1"
    with pytest.raises(triton.CompilationError, match=told) as caught:
        compile_kernel(guarded, {"y_ptr": "*i32", "n": "i32"}, {"GUARD": "", "WORD": word})
    assert isinstance(caught.value.__cause__, KernelError) and caught.value.__cause__.sites


@pytest.mark.parametrize("word", ["arrive", "view"])
def test_another_ctas_barrier_is_refused_where_it_may_run(word):
    with pytest.raises(triton.CompilationError, match="Unexpected buffer remote view in 1cta mode"):
        compile_kernel(guarded, {"y_ptr": "*i32", "n": "i32"}, {"GUARD": "n", "WORD": word})


def test_instructions():
    compiled = compile_kernel(to_oneself, {"x_ptr": "*fp32", "y_ptr": "*fp32"}, {"N": 256, "RANK": None})
    ptx = compiled.stage("ptx")
    assert "st.shared::cluster" in ptx and "cp.async.bulk.shared::cluster.shared::cta" in ptx
    assert ptx.count("barrier.cluster.arrive") == 1, "the author's; no start and no end is put in"
    assert ".explicitcluster" in ptx and ".reqnctapercluster 1" in ptx, "without a cluster these instructions are illegal"


def test_no_clusters_for_what_needs_none():
    ptx = compile_kernel(kernels.ranks, {"y_ptr": "*i32"}, {}).stage("ptx")
    assert ".explicitcluster" not in ptx and "%cluster" not in ptx


@pytest.mark.parametrize("target", ["sm_80", "gfx942", "gfx950", "gfx1250"])
def test_ranks_on_chips_without_clusters(target):
    """Each program is alone there, so that a helper that asks for its rank is right on every chip."""
    y = np.full((4, 1, 2), 7, np.int32)
    mimw.simulate(kernels.ranks, (4, 1), y, target=target)
    assert (y == [0, 1]).all()
    compile_kernel(kernels.ranks, {"y_ptr": "*i32"}, {}, target)
