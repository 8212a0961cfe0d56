"""Launches, and launches that are refused, leave no memory of the GPU behind; threads may launch at once."""

import gc
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
import triton
import triton.language as tl

import mimw
import mimw.tlx as tlx
from mimw.errors import LaunchError

pytestmark = pytest.mark.gpu
ROWS, COLUMNS = 64, 64


@mimw.jit
def double(x_ptr, y_ptr, rows, BROKEN: tl.constexpr, TILES: tl.constexpr):
    """Through a descriptor that the kernel makes, so that each launch takes scratch memory, and two tasks."""
    tiles = tlx.local_alloc((64, 64), tl.float32, TILES)
    full = tlx.alloc_barriers(1)
    desc = tl.make_tensor_descriptor(x_ptr, [rows, 64], [64, 1], [64, 64])
    with tlx.async_tasks():
        with tlx.async_task("default"):
            tlx.barrier_wait(full[0], 0)
            at = tl.arange(0, 64)[:, None] * 64 + tl.arange(0, 64)[None, :]
            tl.store(y_ptr + tl.program_id(0) * 4096 + at, 2 * tlx.local_load(tiles[0]))
        with tlx.async_task(num_warps=1):
            if BROKEN:
                nobody(desc)  # noqa: F821
            tlx.barrier_expect_bytes(full[0], 16384)
            tlx.async_descriptor_load(desc, tiles[0], [tl.program_id(0) * 64, 0], full[0])


@pytest.fixture
def scratch():
    """The allocator that descriptors in the kernel need."""
    import torch
    triton.set_allocator(lambda size, alignment, stream: torch.empty(size, dtype=torch.int8, device="cuda"))
    yield
    triton.set_allocator(None)


def held():
    """Bytes of this process's tensors, and bytes in use on the device."""
    import torch
    gc.collect()
    torch.cuda.synchronize()
    free, total = torch.cuda.mem_get_info()
    return torch.cuda.memory_allocated(), total - free


def refuse(x, y):
    """Launches that fail, in the compiler and before the launch."""
    for error, grid, meta, options in (
            (triton.CompilationError, (8, ), dict(BROKEN=True, TILES=1), {}),
            (triton.CompilationError, (8, ), dict(BROKEN=False, TILES=20), {}),
            (LaunchError, (7, ), dict(BROKEN=False, TILES=1), dict(ctas_per_cga=(2, 1, 1))),
            (KeyError, (8, ), dict(BROKEN=False, TILES=1), dict(no_such_option=1))):
        with pytest.raises(error):
            double[grid](x, y, 8 * ROWS, **meta, **options)


def test_no_memory_is_left_behind(scratch):
    import torch

    def round_trip():
        x = torch.randn(8 * ROWS, COLUMNS, device="cuda")
        for _ in range(200):
            y = torch.zeros_like(x)
            double[(8, )](x, y, 8 * ROWS, False, 1)
        refuse(x, y)
        assert (y == 2 * x).all()

    round_trip()  # the module, and torch's own pools
    torch.cuda.empty_cache()
    used = [held()]
    for _ in range(4):
        round_trip()
        torch.cuda.empty_cache()
        used.append(held())
    assert [tensors for tensors, _ in used] == [used[0][0]] * 5
    # Others may use the device meanwhile: a leak would show in every round.
    assert min(after[1] - before[1] for before, after in zip(used, used[1:])) <= 0


def test_kernels_that_are_dropped_free_their_modules(scratch):
    """Twelve specialisations are loaded and forgotten, four times over; their code is in no one's way afterwards."""
    import torch
    x, y = torch.randn(ROWS, COLUMNS, device="cuda"), torch.zeros(ROWS, COLUMNS, device="cuda")

    def load_many():
        for tiles in range(1, 13):
            double[(1, )](x, y, ROWS, False, tiles)
        torch.cuda.synchronize()
        double.device_caches.clear()

    load_many()
    used = [held()]
    for _ in range(4):
        load_many()
        used.append(held())
    assert min(after[1] - before[1] for before, after in zip(used, used[1:])) <= 0


def test_threads_launch_at_once(scratch):
    """Each on a stream of its own; the failing ones disturb nobody."""
    import torch
    start = threading.Barrier(4)

    def work(worker):
        x = torch.randn(8 * ROWS, COLUMNS, device="cuda") + worker
        y = torch.zeros_like(x)
        start.wait()
        with torch.cuda.stream(torch.cuda.Stream()):
            torch.cuda.synchronize()
            for tiles in range(1, 5):
                double[(8, )](x, y, 8 * ROWS, False, (tiles + worker) % 4 + 1)
                refuse(x, y)
            torch.cuda.synchronize()
        return bool((y == 2 * x).all())

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(work, range(4))) == [True] * 4
