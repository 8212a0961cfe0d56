"""Launches that hang, one a name, and some that do not: `python -m mimw run --watchdog 3 tests/kernels/hangs.py NAME`.

Rows of SIZE fp32. Mistakes: FLIP=0, and `go` of 0 or below n. Where torch finds a GPU they run there, else on the simulator.
"""

import sys

import numpy as np
import triton.language as tl

import mimw
from mimw import tlx

SIZE = 128


@mimw.jit
def handed_on(source, target, n, go, SIZE: tl.constexpr, FLIP: tl.constexpr):
    """A ring of one slot: `n` rows of SIZE from a loader to a storer. FLIP=0 has the loader wait for the wrong parity; the loader
    loads row i only where i < go; the storer frees the slot."""
    slot = tlx.local_alloc((SIZE, ), tl.float32, 1)
    full = tlx.alloc_barriers(1)
    free = tlx.alloc_barriers(1)
    base = tl.program_id(0) * n * SIZE
    with tlx.async_tasks():
        with tlx.async_task("default"):  # storer
            for i in range(n):
                tlx.barrier_wait(full[0], i & 1)
                tl.store(target + base + i * SIZE + tl.arange(0, SIZE), tlx.local_load(slot[0]))
                tlx.barrier_arrive(free[0])
        with tlx.async_task(num_warps=4):  # loader
            for i in range(n):
                tlx.barrier_wait(free[0], (i & 1) ^ FLIP)
                tlx.local_store(slot[0], tl.load(source + base + i * SIZE + tl.arange(0, SIZE)))
                if i < go:
                    tlx.barrier_arrive(full[0])


@mimw.jit
def joined(target, go, SIZE: tl.constexpr):
    """A barrier of three arrivals; the third comes only if `go`."""
    met = tlx.alloc_barriers(1, arrive_count=3)
    with tlx.async_tasks():
        with tlx.async_task("default"):
            tlx.barrier_arrive(met[0])
            tlx.barrier_wait(met[0], 0)
            tl.store(target + tl.arange(0, SIZE), 1.0)
        with tlx.async_task(num_warps=1):  # second
            tlx.barrier_arrive(met[0])
        with tlx.async_task(num_warps=2):  # third
            if go > 0:
                tlx.barrier_arrive(met[0])


@mimw.jit
def copied(desc, target, go, SIZE: tl.constexpr):
    """A barrier that expects the bytes of a copy, which is started only if `go`."""
    tile = tlx.local_alloc((SIZE, SIZE), tl.float16, 1)
    full = tlx.alloc_barriers(1)
    tlx.barrier_expect_bytes(full[0], SIZE * SIZE * 2)
    if go > 0:
        tlx.async_descriptor_load(desc, tile[0], [0, 0], full[0])
    tlx.barrier_wait(full[0], 0)
    at = tl.arange(0, SIZE)
    tl.store(target + at[:, None] * SIZE + at[None, :], tlx.local_load(tile[0]))


@mimw.jit
def named(target, go, SIZE: tl.constexpr):
    """Two tasks that meet at a named barrier; one comes only if `go`."""
    with tlx.async_tasks():
        with tlx.async_task("default"):
            tlx.named_barrier_wait(9, 256)
            tl.store(target + tl.arange(0, SIZE), 1.0)
        with tlx.async_task(num_warps=4):  # other
            if go > 0:
                tlx.named_barrier_wait(9, 256)


@mimw.jit
def turned(word, target, SIZE: tl.constexpr):
    """A loop until a word in memory is 1."""
    met = tlx.alloc_barriers(1)
    tlx.barrier_arrive(met[0])
    tlx.barrier_wait(met[0], 0)
    while tl.atomic_cas(word, 1, 1) != 1:
        pass
    tl.store(target + tl.arange(0, SIZE), 1.0)


@mimw.jit
def met_in_cluster(target, go, SIZE: tl.constexpr):
    """Two CTAs of a cluster; unless `go`, the second one first waits for what the first one does behind the cluster's barrier."""
    called = tlx.alloc_barriers(1)
    rank = tlx.cluster_cta_rank()
    if rank > 0 and go == 0:
        tlx.barrier_wait(called[0], 0)
    tlx.cluster_barrier()
    if rank == 0:
        tlx.barrier_arrive(called[0], remote_cta_rank=1)
    tl.store(target + tl.program_id(0) * SIZE + tl.arange(0, SIZE), 1.0)


@mimw.jit
def plain(word, target, SIZE: tl.constexpr):
    """No word of ours: a loop until a word in memory is 1."""
    while tl.atomic_cas(word, 1, 1) != 1:
        pass
    tl.store(target + tl.arange(0, SIZE), 1.0)


@mimw.autotune(configs=[mimw.Config({"FLIP": 1}), mimw.Config({"FLIP": 0}), mimw.Config({"FLIP": 1}, num_stages=2)], key=["n"])
@mimw.jit
def tuned(source, target, n, go, SIZE: tl.constexpr, FLIP: tl.constexpr):
    """`handed_on` with a configuration that hangs."""
    slot = tlx.local_alloc((SIZE, ), tl.float32, 1)
    full = tlx.alloc_barriers(1)
    free = tlx.alloc_barriers(1)
    with tlx.async_tasks():
        with tlx.async_task("default"):
            for i in range(n):
                tlx.barrier_wait(full[0], i & 1)
                tl.store(target + i * SIZE + tl.arange(0, SIZE), tlx.local_load(slot[0]))
                tlx.barrier_arrive(free[0])
        with tlx.async_task(num_warps=4):  # loader
            for i in range(n):
                tlx.barrier_wait(free[0], (i & 1) ^ FLIP)
                tlx.local_store(slot[0], tl.load(source + i * SIZE + tl.arange(0, SIZE)))
                tlx.barrier_arrive(full[0])


def rows(ctas=1, n=4):
    return np.arange(ctas * n * SIZE, dtype=np.float32)


def zeros(size=SIZE, dtype=np.float32):
    return np.zeros(size, dtype)


_TILE = np.ones((64, 64), np.float16)
_CASES = {
    "right": lambda: (handed_on, (3, ), (rows(3), rows(3) * 0, 4, 4), dict(SIZE=SIZE, FLIP=1)),
    "wrong_parity": lambda: (handed_on, (3, ), (rows(3), rows(3) * 0, 4, 4), dict(SIZE=SIZE, FLIP=0)),
    "last_arrive": lambda: (handed_on, (3, ), (rows(3), rows(3) * 0, 4, 2), dict(SIZE=SIZE, FLIP=1)),
    "missing_arrive": lambda: (joined, (1, ), (zeros(), 0), dict(SIZE=SIZE)),
    "missing_bytes": lambda: (copied, (1, ), (mimw.TensorDescriptor.from_tensor(_TILE, [64, 64]), _TILE * 0, 0), dict(SIZE=64)),
    "named_barrier": lambda: (named, (1, ), (zeros(), 0), dict(SIZE=SIZE)),
    "cluster": lambda: (met_in_cluster, (2, ), (zeros(2 * SIZE), 0), dict(SIZE=SIZE, ctas_per_cga=(2, 1, 1))),
    "spin": lambda: (turned, (1, ), (zeros(1, np.int32), zeros()), dict(SIZE=SIZE)),
    "plain": lambda: (plain, (1, ), (zeros(1, np.int32), zeros()), dict(SIZE=SIZE)),
    "tuned": lambda: (tuned, (1, ), (rows(), rows() * 0, 4, 4), dict(SIZE=SIZE)),
    "many": lambda: (handed_on, (20_000, ), (rows(20_000), rows(20_000) * 0, 4, 4), dict(SIZE=SIZE, FLIP=1)),
}
CASES = tuple(_CASES)


def case(name: str):
    """(kernel, grid, arguments, meta) with arrays of their own; those of "many" take 0.1 s to make."""
    return _CASES[name]()


def main(name: str) -> None:
    from mimw.testing import gpu_available
    from mimw.testing.machines import Gpu
    kernel, grid, args, meta = case(name)
    if gpu_available():
        Gpu().launch(kernel, grid, *args, **meta)
    else:
        kernel[grid](*args, **meta)
    if kernel in (handed_on, tuned):
        assert (args[0] == args[1]).all()
    print(name, "came back")


if __name__ == "__main__":
    main(sys.argv[1])
