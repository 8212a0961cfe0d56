"""Where the compiler puts the fence that lets a copy overwrite what a task touched by ordinary instructions."""

import pytest
import triton.language as tl

import mimw
import mimw.tle as tle
import mimw.tlx as tlx
from tests.compiling import to_assembly, to_ttgir


def positions(program) -> list[str]:
    """The ops of interest in program order."""
    kept = ("fence", "local_load", "barrier_arrive", "tma_load", "remote_arrive", "cluster_barrier", "warp_specialize", "yield")
    return [op.args[0] if op.name == "fence" else op.name for op in program.walk() if op.name in kept]


@mimw.jit
def looping(x_desc, y_ptr, n, READ: tl.constexpr, BRANCH: tl.constexpr, TELL: tl.constexpr):
    """A ring whose reader reads in a branch or not, and tells the filler or one that fills nothing."""
    tiles = tlx.local_alloc((16, 32), tl.float16, 2)
    other = tlx.local_alloc((16, 32), tl.float16, 1)
    full, free, told = tlx.alloc_barriers(2), tlx.alloc_barriers(2), tlx.alloc_barriers(1)
    with tlx.async_tasks():
        with tlx.async_task("default"):
            at = tl.arange(0, 16)[:, None] * 32 + tl.arange(0, 32)[None, :]
            for i in range(n):
                tlx.barrier_wait(full[i % 2], (i // 2) & 1)
                if READ == "slot":
                    if BRANCH:
                        if i > 1:
                            tl.store(y_ptr + at, tlx.local_load(tiles[i % 2]))
                    else:
                        tl.store(y_ptr + at, tlx.local_load(tiles[i % 2]))
                elif READ == "other":
                    tl.store(y_ptr + at, tlx.local_load(other[0]))
                if TELL:
                    tlx.barrier_arrive(told[0])
                tlx.barrier_arrive(free[i % 2])
        with tlx.async_task(num_warps=1):
            for i in range(n):
                tlx.barrier_wait(free[i % 2], ((i // 2) & 1) ^ 1)
                tlx.barrier_expect_bytes(full[i % 2], 1024)
                tlx.async_descriptor_load(x_desc, tiles[i % 2], [i * 16, 0], full[i % 2])


def compiled(kernel, signature=None, options=None, by=to_ttgir, **constexprs):
    signature = {"x_desc": "tensordesc<fp16[16,32]>", "y_ptr": "*fp16", "n": "i32", **(signature or {})}
    return by(kernel, signature, constexprs, options=options)


@pytest.mark.parametrize("branch", [False, True])
@pytest.mark.parametrize("tell", [False, True])
def test_one_fence_before_the_first_arrival_after_a_read(branch, tell):
    found = positions(compiled(looping, READ="slot", BRANCH=branch, TELL=tell).program)
    assert found.count("handover") == 1
    at = found.index("handover")
    assert "local_load" in found[:at] and found[at + 1] == "barrier_arrive"
    assert "barrier_arrive" not in found[found.index("local_load"):at]


@pytest.mark.parametrize("read", ["none", "other"])
def test_no_fence_where_no_copy_can_overwrite_what_was_read(read):
    program = compiled(looping, READ=read, BRANCH=False, TELL=False).program
    assert "handover" not in positions(program)


def test_the_instructions():
    """Each reading thread fences, then the threads meet, then one arrives."""
    ptx = compiled(looping, READ="slot", BRANCH=False, TELL=False, by=to_assembly).stages["ptx"]
    lines = [line.strip() for line in ptx.splitlines()]
    arrive = next(index for index, line in enumerate(lines) if "mbarrier.arrive.shared::cta.b64" in line)
    before = [line for line in lines[:arrive] if line.startswith(("fence.proxy", "bar.sync", "ld.shared", "ldmatrix"))]
    assert before[-2] == "fence.proxy.async.shared::cta;" and before[-1].startswith("bar.sync")
    assert before[-3].startswith(("ld.shared", "ldmatrix"))


@mimw.jit
def dotted(x_desc, y_ptr, n):
    """A ring that wgmma reads."""
    tiles = tlx.local_alloc((64, 64), tl.float16, 2)
    full, free = tlx.alloc_barriers(2), tlx.alloc_barriers(2)
    with tlx.async_tasks():
        with tlx.async_task("default"):
            acc = tl.zeros((64, 64), tl.float32)
            for i in range(n):
                tlx.barrier_wait(full[i % 2], (i // 2) & 1)
                acc = tlx.async_dot(tiles[i % 2], tiles[i % 2], acc)
                acc = tlx.async_dot_wait(0, acc)
                tlx.barrier_arrive(free[i % 2])
            tl.store(y_ptr + tl.arange(0, 64)[:, None] * 64 + tl.arange(0, 64)[None, :], acc)
        with tlx.async_task(num_warps=1):
            for i in range(n):
                tlx.barrier_wait(free[i % 2], ((i // 2) & 1) ^ 1)
                tlx.barrier_expect_bytes(full[i % 2], 8192)
                tlx.async_descriptor_load(x_desc, tiles[i % 2], [i * 64, 0], full[i % 2])


def test_readers_by_wgmma_are_not_fenced():
    program = compiled(dotted, {"x_desc": "tensordesc<fp16[64,64]>", "y_ptr": "*fp32"}).program
    assert "handover" not in positions(program)


@mimw.jit
def views(x_desc, y_ptr, n):
    """The same bytes under other names: a reinterpreted view is read, another array of the storage is filled."""
    store = tlx.storage_alias_spec(storage=tlx.storage_kind.smem)
    one = tlx.local_alloc((16, 32), tl.float16, 1, reuse=store)
    two = tlx.local_alloc((8, 32), tl.float32, 1, reuse=store)
    store.set_buffer_overlap(tlx.reuse_group(one, two, group_type=tlx.reuse_group_type.shared))
    full = tlx.alloc_barriers(1)
    at = tl.arange(0, 8)[:, None] * 32 + tl.arange(0, 32)[None, :]
    for i in range(n):
        tlx.barrier_expect_bytes(full[0], 1024)
        tlx.async_descriptor_load(x_desc, one[0], [i * 16, 0], full[0])
        tlx.barrier_wait(full[0], i & 1)
        tl.store(y_ptr + at, tlx.local_load(two[0]))


def test_aliases_are_one_memory():
    found = positions(compiled(views, {"y_ptr": "*fp32"}).program)
    assert found.count("handover") == 1


@mimw.jit
def ending(x_desc, y_ptr, MULTICAST: tl.constexpr):
    """A pair of CTAs that reads its last tile: nobody fills a slot any more."""
    tile = tlx.local_alloc((16, 32), tl.float16, 1)
    full = tlx.alloc_barriers(1)
    rank = tlx.cluster_cta_rank()
    at = tl.arange(0, 16)[:, None] * 32 + tl.arange(0, 32)[None, :]
    tlx.barrier_expect_bytes(full[0], 1024)
    if rank == 0:
        tlx.async_descriptor_load(x_desc, tile[0], [0, 0], full[0], multicast_targets=[0, 1])
    tlx.barrier_wait(full[0], 0)
    tl.store(y_ptr + rank * 512 + at, tlx.local_load(tile[0]))


def test_nothing_behind_the_last_copy():
    """The cluster's exit barrier lets nobody overwrite anything."""
    found = positions(compiled(ending, options={"ctas_per_cga": (2, 1, 1)}, MULTICAST=True).program)
    assert "cluster_barrier" in found and "handover" not in found


MESH = tle.device_mesh({"cluster": 2})


@mimw.jit
def across(x_ptr, y_ptr, n, mesh: tl.constexpr):
    """Each CTA reads the other's line before its owner has it filled again."""
    line = tle.gpu.alloc([128], tl.float32)
    full = tlx.alloc_barriers(1)
    rank, at = tle.shard_id(mesh, 0), tl.arange(0, 128)
    for i in range(n):
        tlx.barrier_expect_bytes(full[0], 512)
        tlx.async_load(x_ptr + i * 128, line, bulk=True, barrier=full[0])
        tlx.barrier_wait(full[0], i & 1)
        tle.distributed_barrier(mesh)
        tl.store(y_ptr + rank * 128 + at, tl.load(tle.gpu.local_ptr(tle.remote(line, rank ^ 1))))
        tle.distributed_barrier(mesh)


def test_the_instruction_covers_the_cluster_where_another_ctas_memory_was_read():
    ptx = to_assembly(across, {"x_ptr": "*fp32", "y_ptr": "*fp32", "n": "i32"}, dict(mesh=MESH)).stages["ptx"]
    lines = [line.strip() for line in ptx.splitlines()]
    fence = lines.index("fence.proxy.async.shared::cluster;")
    assert any("ld.shared::cluster" in line for line in lines[:fence])
    assert next(line for line in lines[fence:] if line.startswith("barrier.cluster")).startswith("barrier.cluster.arrive.release")


def test_a_program_without_copies_stays_as_it_is():
    from mimw.compiler.passes import fence_handovers
    from tests.analysis.building import Kernel
    k = Kernel()
    k.barriers("full", 2)
    program = k.program()
    assert fence_handovers(program) is program
