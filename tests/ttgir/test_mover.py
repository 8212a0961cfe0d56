"""Kernels of Gluon's for gfx1250: copies by its data mover, barriers in LDS, tasks; each against numpy, and each mistake once."""

import numpy as np
import pytest
import torch
import triton
import triton.language as tl
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.amd.cdna5 import mbarrier, tdm

import mimw
from mimw.errors import NotYet
from mimw.runtime.ttgir import compiled_launch
from tests.ttgir.modules import kernel, ran

WARPS, LANES = gl.constexpr(4), gl.constexpr(32)
X = torch.randn(100, 72, generator=torch.Generator().manual_seed(1)).half()


@gluon.jit
def doubled(source, target, M, N, BM: gl.constexpr, BN: gl.constexpr, WAITS: gl.constexpr, COUNT: gl.constexpr, ON: gl.constexpr):
    """A block comes with its barrier, all threads arrive at another one, a block goes."""
    shared: gl.constexpr = gl.PaddedSharedLayout.with_identity_for([[BN, 8]], [BM, BN], [1, 0])
    tile_layout: gl.constexpr = gl.BlockedLayout([1, 4], [8, 4], [4, 1], [1, 0])
    read = tdm.make_tensor_descriptor(source, [M, N], [N, 1], [BM, BN], shared)
    written = tdm.make_tensor_descriptor(target, [M, N], [N, 1], [BM, BN], shared)
    tile = gl.allocate_shared_memory(gl.float16, [BM, BN], shared)
    bars = gl.allocate_shared_memory(gl.int64, [2, 1], mbarrier.MBarrierLayout())
    mbarrier.init(bars.index(0), count=COUNT)
    mbarrier.init(bars.index(1), count=4 * 32)
    row, column = gl.program_id(0) * BM, gl.program_id(1) * BN
    tdm.prefetch(read, [row, column])
    tdm.async_load(read, [row, column], tile, pred=ON, mbarrier=bars.index(0))
    if WAITS:
        mbarrier.wait(bars.index(0), 0)
    x = tile.load(tile_layout)
    tile.store(x + x)
    phase = mbarrier.arrive(bars.index(1))
    mbarrier.wait(bars.index(1), phase)
    tdm.async_store(written, [row, column], tile)
    tdm.async_wait(0)


def of_blocks(waits=True, count=4, on=1, **how):
    y = torch.zeros_like(X)
    report = mimw.check(doubled, (2, 2), X, y, *X.shape, BM=64, BN=64, WAITS=waits, COUNT=count, ON=on, target="gfx1250", seeds=2,
                        expected={"target": (X + X).numpy()}, rounds=False, shrink=False, **how)
    return report


def test_blocks_come_and_go_also_over_the_edge():
    report = of_blocks()
    assert report.ok and "'target' as expected" in report.results


@pytest.mark.parametrize("how, kind", [(dict(waits=False), "CopyReadEarly"), (dict(count=5), "TooFewArrivals"),
                                       (dict(count=3), "TooManyArrivals"), (dict(on=0), "IllegalCopy")])
def test_a_barrier_of_another_count_and_a_block_that_is_read_early(how, kind):
    assert of_blocks(**how).findings[0].kind == kind


@gluon.jit
def fetched(source, tiles, full, free, M, N, TRIPS: gl.constexpr, BM: gl.constexpr, BN: gl.constexpr, FREED: gl.constexpr):
    shared: gl.constexpr = tiles.layout
    read = tdm.make_tensor_descriptor(source, [M, N], [N, 1], [BM, BN], shared)
    for i in range(TRIPS):
        if FREED:
            mbarrier.wait(free.index(i % 2), i // 2 % 2 ^ 1)
        tdm.async_load(read, [i * BM, 0], tiles.index(i % 2), mbarrier=full.index(i % 2))


@gluon.jit
def summed(tiles, full, free, target, TRIPS: gl.constexpr, BM: gl.constexpr, BN: gl.constexpr):
    tile_layout: gl.constexpr = gl.BlockedLayout([1, 4], [8, 4], [4, 1], [1, 0])
    sums = gl.zeros((BM, BN), gl.float32, tile_layout)
    for i in range(TRIPS):
        mbarrier.wait(full.index(i % 2), i // 2 % 2)
        sums += tiles.index(i % 2).load(tile_layout).to(gl.float32)
        mbarrier.arrive(free.index(i % 2))
    rows, columns = gl.arange(0, BM, gl.SliceLayout(1, tile_layout)), gl.arange(0, BN, gl.SliceLayout(0, tile_layout))
    gl.store(target + rows[:, None] * BN + columns[None, :], sums)


@gluon.jit
def in_tasks(source, target, M, N, TRIPS: gl.constexpr, BM: gl.constexpr, BN: gl.constexpr, FREED: gl.constexpr):
    """One task fetches blocks into two slots, another one adds them up."""
    shared: gl.constexpr = gl.SwizzledSharedLayout(1, 1, 1, [1, 0])
    tiles = gl.allocate_shared_memory(gl.float16, [2, BM, BN], shared)
    full = gl.allocate_shared_memory(gl.int64, [2, 1], mbarrier.MBarrierLayout())
    free = gl.allocate_shared_memory(gl.int64, [2, 1], mbarrier.MBarrierLayout())
    for i in gl.static_range(2):
        mbarrier.init(full.index(i), count=2)
        mbarrier.init(free.index(i), count=4 * 32)
    gl.warp_specialize([(summed, (tiles, full, free, target, TRIPS, BM, BN)),
                        (fetched, (source, tiles, full, free, M, N, TRIPS, BM, BN, FREED))], [2])


def by_tasks(freed: bool):
    x, y = torch.randn(5 * 32, 64, generator=torch.Generator().manual_seed(2)).half(), torch.zeros(32, 64)
    return mimw.check(in_tasks, (1, ), x, y, *x.shape, TRIPS=5, BM=32, BN=64, FREED=freed, target="gfx1250", seeds=4, rounds=False,
                      expected={"target": x.float().reshape(5, 32, 64).sum(0).numpy()}, shrink=False)


def test_slots_are_filled_by_one_task_and_read_by_another_one():
    """The copies of two warps are two arrivals, the reads of four warps 128."""
    report = by_tasks(True)
    assert report.ok and "'target' as expected" in report.results


def test_a_slot_that_is_filled_again_too_early_is_found():
    assert by_tasks(False).findings[0].kind in ("SlotReusedEarly", "DataRace", "CopyReadEarly", "TooManyArrivals")


@gluon.jit
def counted(source, target, M, N, BM: gl.constexpr, BN: gl.constexpr, PENDING: gl.constexpr):
    """Two blocks side by side as one copy, each by half of the warps, then one more; one of other bounds, one that is off."""
    shared: gl.constexpr = gl.SwizzledSharedLayout(1, 1, 1, [1, 0])
    tile_layout: gl.constexpr = gl.BlockedLayout([1, 4], [8, 4], [4, 1], [1, 0])
    read = tdm.make_tensor_descriptor(source, [M, N], [N, 1], [BM, BN], shared)
    tiles = gl.allocate_shared_memory(gl.float16, [4, BM, BN], shared)
    tiles.index(3).store(gl.full((BM, BN), 7, gl.float16, tile_layout))
    right = tdm.update_tensor_descriptor(read, add_offsets=[0, BN])
    tdm.async_load_fused([(read, tiles.index(0), 3), (right, tiles.index(1), 12)])
    tdm.async_load(tdm.update_tensor_descriptor(right, set_bounds=[BM, 8]), dest=tiles.index(2), warp_used_hint=1)
    tdm.async_load(read, dest=tiles.index(3), pred=0)
    tdm.async_wait(PENDING)
    sums = tiles.index(0).load(tile_layout) + tiles.index(1).load(tile_layout)
    tdm.async_wait(0)
    sums += tiles.index(2).load(tile_layout) + tiles.index(3).load(tile_layout)
    rows, columns = gl.arange(0, BM, gl.SliceLayout(1, tile_layout)), gl.arange(0, BN, gl.SliceLayout(0, tile_layout))
    gl.store(target + rows[:, None] * BN + columns[None, :], sums)


def by_counter(pending: int):
    x, y = torch.randn(16, 64, generator=torch.Generator().manual_seed(3)).half(), torch.zeros(16, 32).half()
    wanted = x[:, :32] + x[:, 32:] + (torch.where(torch.arange(32) < 8, x[:, 32:], 0) + 7)
    return mimw.check(counted, (1, ), x, y, *x.shape, BM=16, BN=32, PENDING=pending, target="gfx1250", seeds=2, rounds=False,
                      expected={"target": wanted.float().numpy()}, tolerance=1e-2, shrink=False)


def test_copies_are_counted():
    """The fused one is one, and the one that is off counts, too: behind it two more may be under way."""
    report = by_counter(2)
    assert report.ok and "'target' as expected" in report.results
    assert by_counter(3).findings[0].kind == "CopyReadEarly"


def test_a_block_with_a_barrier_counts_too():
    """Who started the copy may wait for it either way."""
    text = BY_HAND + """amdg.async_tdm_wait {num = 0 : i32}
        %v = ttg.local_load %m : MEMORY -> tensor<64x64xf16, #tile>
        tt.store %q, %v : tensor<64x64x!tt.ptr<f16>, #tile>"""
    x, y = np.ones((64, 64), np.float16), np.zeros((64, 64), np.float16)
    on_gfx1250(text, x, y)
    assert (y == 1).all()


BY_HAND = """%c0 = arith.constant 0 : i32
    %c64 = arith.constant 64 : i32
    %w = arith.constant 64 : i64
    %u = arith.constant 1 : i64
    %d = tt.make_tensor_descriptor %x, [%c64, %c64], [%w, %u] : <f16>, <64x64xf16, #plain>
    %m = ttg.local_alloc : () -> MEMORY
    %b = ttg.local_alloc : () -> BARRIER
    amdg.init_barrier %b, 4 : BARRIER
    %i = tt.make_range {start = 0 : i32, end = 64 : i32} : tensor<64xi32, #rows>
    %j = tt.make_range {start = 0 : i32, end = 64 : i32} : tensor<64xi32, #columns>
    %r = tt.expand_dims %i {axis = 1 : i32} : tensor<64xi32, #rows> -> tensor<64x1xi32, #tile>
    %s = tt.expand_dims %j {axis = 0 : i32} : tensor<64xi32, #columns> -> tensor<1x64xi32, #tile>
    %k = arith.constant dense<64> : tensor<64x1xi32, #tile>
    %t = arith.muli %r, %k : tensor<64x1xi32, #tile>
    %e = tt.broadcast %t : tensor<64x1xi32, #tile> -> tensor<64x64xi32, #tile>
    %f = tt.broadcast %s : tensor<1x64xi32, #tile> -> tensor<64x64xi32, #tile>
    %at = arith.addi %e, %f : tensor<64x64xi32, #tile>
    %p = tt.splat %o : !tt.ptr<f16> -> tensor<64x64x!tt.ptr<f16>, #tile>
    %q = tt.addptr %p, %at : tensor<64x64x!tt.ptr<f16>, #tile>, tensor<64x64xi32, #tile>
    amdg.async_tdm_copy_global_to_local %d into %m, barrier = %bHINT : !tt.tensordesc<64x64xf16, #plain>, BARRIER -> MEMORY
    """


def on_gfx1250(body: str, *args, hint: str = "") -> None:
    memory = "!ttg.memdesc<64x64xf16, #plain, #smem, mutable>"
    text = kernel("%x: !tt.ptr<f16>, %o: !tt.ptr<f16>", body.replace("HINT", hint).replace("MEMORY", memory), target="hip:gfx1250")
    ran(text.replace('"ttg.threads-per-warp" = 64', '"ttg.threads-per-warp" = 32'), *args, target="gfx1250")


def test_what_is_not_read():
    x, y = np.ones((64, 64), np.float16), np.zeros((64, 64), np.float16)
    with pytest.raises(NotYet, match="a copy by some of the warps that tells a barrier"):
        on_gfx1250(BY_HAND, x, y, hint=" {warp_used_hint = 3 : i32}")
    store = "amdg.async_tdm_copy_local_to_global %d from %m, barrier = %b : MEMORY, BARRIER -> !tt.tensordesc<64x64xf16, #plain>"
    with pytest.raises(NotYet, match="a store by the data mover that tells a barrier"):
        on_gfx1250(BY_HAND + store, x, y)


def test_these_are_the_ops_that_are_read():
    y = torch.zeros(16, 32).half()
    one = compiled_launch(doubled, (2, 2), (X, X, *X.shape), dict(BM=64, BN=64, WAITS=True, COUNT=4, ON=1), "gfx1250")[1].text
    assert [op for op in ("amdg.init_barrier", "amdg.wait_barrier", "amdg.arrive_barrier", "amdg.tdm_prefetch",
                          "amdg.async_tdm_wait", "amdg.async_tdm_copy_local_to_global", "tt.make_tensor_descriptor")
            if op not in one] == []
    two = compiled_launch(counted, (1, ), (y, y, *y.shape), dict(BM=16, BN=32, PENDING=0), "gfx1250")[1].text
    assert "amdg.update_tensor_descriptor" in two and "amdg.async_tdm_fused_copy_global_to_local" in two


@triton.jit
def by_descriptors(source, target, M, N, BM: tl.constexpr, BN: tl.constexpr):
    read = tl.make_tensor_descriptor(source, [M, N], [N, 1], [BM, BN])
    sums = tl.zeros((BM, BN), tl.float32)
    for i in range(0, M, BM):
        sums += read.load([i, 0])
    tl.store(target + tl.arange(0, BM)[:, None] * BN + tl.arange(0, BN)[None, :], sums)


def test_stock_descriptors_are_copies_by_the_mover():
    x, y = np.random.default_rng(4).standard_normal((5 * 32, 64)).astype(np.float16), np.zeros((32, 64), np.float32)
    report = mimw.check_compiled(by_descriptors, (1, ), x, y, *x.shape, BM=32, BN=64, target="gfx1250", seeds=2, rounds=False,
                                 expected={"target": x.astype(np.float32).reshape(5, 32, 64).sum(0)}, shrink=False)
    assert report.ok and "'target' as expected" in report.results
