"""Truth tables of fences between proxies: slots that copies overwrite, and global memory that copies read.

The fence at a hand-over is the compiler's. So each hand-over is checked as compiled, when it is right, and with the compiler's
fences taken out, when only the author's make it right.
"""


import numpy as np
import pytest
import triton
import triton.language as tl

import mimw
import mimw.tle as tle
import mimw.tlx as tlx
from mimw.runtime.simulate import prepare
from tests.kernels.lines import line_of

from . import tables
from .tables import right, rows, states

describe = mimw.TensorDescriptor.from_tensor
PAIR = dict(ctas_per_cga=(2, 1, 1))
MESH, FOUR = tle.device_mesh({"cluster": 2}), tle.device_mesh({"cluster": 4})


def unfenced(launch, scope="handover"):
    return tables.unfenced(launch, scope)


@mimw.jit
def reusing(x_desc, y_ptr, HOW: tl.constexpr, READ: tl.constexpr, BEFORE: tl.constexpr, AFTER: tl.constexpr):
    """One task reads a slot by ordinary loads and gives it back; another has TMA fill it again."""
    tile = tlx.local_alloc((16, 32), tl.float16, 1)
    full = tlx.alloc_barriers(1)
    if HOW == "warp barrier":
        free = tlx.alloc_warp_barrier(1, num_warps=4)
    else:
        free = tlx.alloc_barriers(1)
    with tlx.async_tasks():
        with tlx.async_task("default"):  # reader
            at = tl.arange(0, 16)[:, None] * 32 + tl.arange(0, 32)[None, :]
            for step in tl.static_range(2):
                tlx.barrier_wait(full[0], step)
                if READ == "load":
                    tl.store(y_ptr + step * 512 + at, tlx.local_load(tile[0]))
                elif READ == "gather":
                    column = tl.zeros((16, 1), tl.int32) + tl.arange(0, 16)[:, None]
                    tl.store(y_ptr + step * 512 + tl.arange(0, 16)[:, None], tlx.local_gather(tile[0], column, 1))
                elif READ == "store":
                    tlx.local_store(tile[0], tl.full((16, 32), 1, tl.float16))
                if BEFORE:
                    tlx.fence("async_shared")
                if step == 0:
                    if HOW == "named barrier":
                        tlx.named_barrier_arrive(9, 160)
                    elif HOW == "atomic":
                        tl.atomic_xchg(y_ptr.to(tl.pointer_type(tl.int32)) + 1000, 1, sem="release", scope="cta")
                    else:
                        tlx.barrier_arrive(free[0])
        with tlx.async_task(num_warps=1):  # filler
            for step in tl.static_range(2):
                if step == 1:
                    if HOW == "named barrier":
                        tlx.named_barrier_wait(9, 160)
                    elif HOW == "atomic":
                        while tl.atomic_add(y_ptr.to(tl.pointer_type(tl.int32)) + 1000, 0, sem="acquire", scope="cta") == 0:
                            pass
                    else:
                        tlx.barrier_wait(free[0], 0)
                if AFTER:
                    tlx.fence("async_shared")
                tlx.barrier_expect_bytes(full[0], 1024)
                tlx.async_descriptor_load(x_desc, tile[0], [step * 16, 0], full[0])


@states("tma_load", "barrier_arrive", "barrier_wait")
def reused(how="barrier", read="load", before=False, after=False):
    x, y = np.ones((32, 32), np.float16), np.zeros((128, 32), np.float16)
    return reusing, 1, (describe(x, [16, 32]), y, how, read, before, after), {}


HOW = ["barrier", "warp barrier", "named barrier", "atomic"]


@pytest.mark.long(but=["store-atomic", "*barrier"], everywhere=True)
@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("read", ["load", "gather", "store"])
def test_a_slot_that_is_touched_and_filled_again(how, read):
    """Right as compiled; without the compiler's fence it is missing, and named."""
    launch = reused(how, read)
    assert right(launch, "random")
    (finding, ) = unfenced(launch).findings
    assert finding.kind == "MissingFence"
    assert finding.sites[1].line == line_of(reusing, "tlx.async_descriptor_load(")
    verb = "write" if read == "store" else "read"
    assert f"the {verb} is in the generic proxy and tma_load overwrites through the asynchronous proxy" in finding.message


@pytest.mark.long(but=["*barrier", "False-False-atomic", "True-False-atomic"], everywhere=True)
@pytest.mark.parametrize("how", HOW)
@rows("before", "after")
def test_a_fence_of_the_author_on_either_side(how, before, after):
    """Without the compiler's fences it is right iff the author's stands on one side of the hand-over."""
    assert unfenced(reused(how, "load", before, after)).ok == (before or after)


def test_what_nobody_touches_needs_no_fence():
    assert unfenced(reused(read="none")).ok


def fences(launch) -> list:
    kernel, grid, args, meta = launch
    program = prepare(kernel, grid, args, dict(meta)).program
    return [op for op in program.walk() if op.name == "fence" and op.args[0] == "handover"]


def test_one_fence_for_each_hand_over():
    """Nothing for the last round, after which nobody is told, nor where the author has fenced or nothing is read."""
    assert len(fences(reused())) == 1
    assert not fences(reused(before=True)) and not fences(reused(read="none"))


@mimw.jit
def in_turn(x_desc, y_ptr, FENCE: tl.constexpr):
    """The same task reads a slot and has it filled again."""
    tile = tlx.local_alloc((16, 32), tl.float16, 1)
    full = tlx.alloc_barriers(1)
    at = tl.arange(0, 16)[:, None] * 32 + tl.arange(0, 32)[None, :]
    for step in range(3):
        tlx.barrier_expect_bytes(full[0], 1024)
        tlx.async_descriptor_load(x_desc, tile[0], [step * 16, 0], full[0])
        tlx.barrier_wait(full[0], step & 1)
        tl.store(y_ptr + step * 512 + at, tlx.local_load(tile[0]))
        if FENCE:
            tlx.fence("async_shared")


def taken_in_turn(fence=False):
    x, y = np.ones((48, 32), np.float16), np.zeros((48, 32), np.float16)
    return in_turn, 1, (describe(x, [16, 32]), y, fence), {}


@pytest.mark.parametrize("fence", [False, True])
def test_one_task_that_reads_and_fills(fence):
    assert right(taken_in_turn(fence))
    assert unfenced(taken_in_turn(fence)).ok == fence


@mimw.jit
def around(x_desc, y_ptr, FIRST: tl.constexpr):
    """A tile is written or read before (or in a task of) a region, and filled in a task of it (or behind it)."""
    tile = tlx.local_alloc((16, 32), tl.float16, 1)
    full = tlx.alloc_barriers(1)
    at = tl.arange(0, 16)[:, None] * 32 + tl.arange(0, 32)[None, :]
    if FIRST == "before":
        tlx.local_store(tile[0], tl.zeros((16, 32), tl.float16))
    with tlx.async_tasks():
        with tlx.async_task("default"):
            if FIRST == "before":
                tlx.barrier_wait(full[0], 0)
        with tlx.async_task(num_warps=4):
            if FIRST == "before":
                tlx.barrier_expect_bytes(full[0], 1024)
                tlx.async_descriptor_load(x_desc, tile[0], [0, 0], full[0])
            else:
                tlx.local_store(tile[0], tl.zeros((16, 32), tl.float16))
    if FIRST == "inside":
        tlx.barrier_expect_bytes(full[0], 1024)
        tlx.async_descriptor_load(x_desc, tile[0], [0, 0], full[0])
        tlx.barrier_wait(full[0], 0)
    tl.store(y_ptr + at, tlx.local_load(tile[0]))


@pytest.mark.parametrize("first", ["before", "inside"])
def test_a_region_hands_over_at_its_start_and_end(first):
    launch = around, 1, (describe(np.ones((16, 32), np.float16), [16, 32]), np.zeros((16, 32), np.float16), first), {}
    assert right(launch) and len(fences(launch)) == 1
    assert [finding.kind for finding in unfenced(launch).findings] == ["MissingFence"]


@mimw.jit
def multicasting(x_desc, y_ptr, HOW: tl.constexpr):
    """CTA 0 fills a slot of both CTAs twice; they read it by ordinary loads and tell CTA 0, or meet."""
    tile = tlx.local_alloc((16, 32), tl.float16, 1)
    full = tlx.alloc_barriers(1)
    free = tlx.alloc_barriers(1, arrive_count=2)
    rank = tlx.cluster_cta_rank()
    at = tl.arange(0, 16)[:, None] * 32 + tl.arange(0, 32)[None, :]
    for step in tl.static_range(2):
        tlx.barrier_expect_bytes(full[0], 1024)
        if HOW == "cluster barrier":
            tlx.cluster_barrier()
        if rank == 0:
            if HOW == "remote arrive":
                tlx.barrier_wait(free[0], step ^ 1)
            tlx.async_descriptor_load(x_desc, tile[0], [step * 16, 0], full[0], multicast_targets=[0, 1])
        tlx.barrier_wait(full[0], step)
        tl.store(y_ptr + (2 * rank + step) * 512 + at, tlx.local_load(tile[0]))
        if HOW == "remote arrive":
            tlx.barrier_arrive(free[0], 1, remote_cta_rank=0)
        if HOW == "cluster barrier":
            tlx.cluster_barrier()


def multicast(how):
    x, y = np.ones((32, 32), np.float16), np.zeros((64, 32), np.float16)
    return multicasting, 2, (describe(x, [16, 32]), y, how), PAIR


@pytest.mark.parametrize("how", ["remote arrive", "cluster barrier"])
def test_other_ctas_that_fill(how):
    assert right(multicast(how), "random")
    assert {finding.kind for finding in unfenced(multicast(how)).findings} == {"MissingFence"}


@triton.jit
def meet(mesh: tl.constexpr, PARTS: tl.constexpr):
    """All of the mesh, or each half of it."""
    if PARTS:
        tle.distributed_barrier(mesh[0:2])
        tle.distributed_barrier(mesh[2:4])
    else:
        tle.distributed_barrier(mesh)


@mimw.jit
def reading_across(x_ptr, y_ptr, mesh: tl.constexpr, PARTS: tl.constexpr):
    """Each CTA reads its neighbour's line through the cluster; then the owner has it filled again."""
    line = tle.gpu.alloc([128], tl.float32)
    full = tlx.alloc_barriers(1)
    rank, at = tle.shard_id(mesh, 0), tl.arange(0, 128)
    for step in tl.static_range(2):
        tlx.barrier_expect_bytes(full[0], 512)
        tlx.async_load(x_ptr + step * 128, line, bulk=True, barrier=full[0])
        tlx.barrier_wait(full[0], step)
        meet(mesh, PARTS)
        tl.store(y_ptr + (2 * rank + step) * 128 + at, tl.load(tle.gpu.local_ptr(tle.remote(line, rank ^ 1))))
        meet(mesh, PARTS)


@pytest.mark.parametrize("parts", [False, True])
def test_a_mesh_that_reads_across(parts):
    """The fence covers the other CTAs' memory, before a meeting of the cluster or of a part of it."""
    launch = reading_across, 1, (np.ones(256, np.float32), np.zeros(1024, np.float32), FOUR if parts else MESH, parts), {}
    assert right(launch, "random") and fences(launch) and all(op.attrs["cluster"] for op in fences(launch))
    assert {finding.kind for finding in unfenced(launch).findings} == {"MissingFence"}


@triton.jit
def give(writer, x_desc):
    for k in range(4):
        slot = writer.acquire(k)
        tle.gpu.copy(x_desc, slot.x, [16, 32], [k * 16, 0])
        writer.commit(k)


@triton.jit
def take(reader, y_ptr):
    at = tl.arange(0, 16)[:, None] * 32 + tl.arange(0, 32)[None, :]
    for k in range(4):
        slot = reader.wait(k).slot
        tl.store(y_ptr + k * 512 + at, tl.load(tle.gpu.local_ptr(slot.x)))
        reader.release(k)


@mimw.jit
def piping(x_desc, y_ptr):
    pipe = tle.pipe(capacity=2, name="x", x=tle.gpu.alloc([2, 16, 32], tl.float16))
    tle.gpu.warp_specialize([(take, (pipe.reader(), y_ptr)), (give, (pipe.writer(), x_desc))], [1], [24])


@states("tma_load")
def piped_across_proxies():
    x, y = np.ones((64, 32), np.float16), np.zeros((64, 32), np.float16)
    return piping, 1, (describe(x, [16, 32]), y), {}


def test_a_pipe_releases_fenced():
    assert right(piped_across_proxies())
    assert {finding.kind for finding in unfenced(piped_across_proxies()).findings} == {"MissingFence"}


@mimw.jit
def read_twice(x_desc, y_desc, y_ptr, READ: tl.constexpr):
    """A slot is read by ordinary loads, then sent off by TMA, then filled again."""
    tile = tlx.local_alloc((16, 32), tl.float16, 1)
    full, read = tlx.alloc_barriers(1), tlx.alloc_barriers(1)
    with tlx.async_tasks():
        with tlx.async_task("default"):  # reader
            at = tl.arange(0, 16)[:, None] * 32 + tl.arange(0, 32)[None, :]
            tlx.barrier_wait(full[0], 0)
            if READ:
                tl.store(y_ptr + at, tlx.local_load(tile[0]))
            tlx.barrier_arrive(read[0])
        with tlx.async_task(num_warps=1):  # filler and sender
            for step in tl.static_range(2):
                tlx.barrier_expect_bytes(full[0], 1024)
                tlx.async_descriptor_load(x_desc, tile[0], [step * 16, 0], full[0])
                tlx.barrier_wait(full[0], step)
                if step == 0:
                    tlx.barrier_wait(read[0], 0)
                tlx.async_descriptor_store(y_desc, tile[0], [step * 16, 0])
                tlx.async_descriptor_store_wait(0)


@pytest.mark.parametrize("read", [False, True])
def test_a_later_read_by_a_copy_does_not_hide_one_by_ordinary_loads(read):
    """The store's read is in the proxy of the next load; the ordinary one before it is not."""
    x, y, z = (np.ones((32, 32), np.float16) for _ in range(3))
    launch = read_twice, 1, (describe(x, [16, 32]), describe(y, [16, 32]), z, read), {}
    assert right(launch, "random")
    assert [finding.kind for finding in unfenced(launch).findings] == (["MissingFence"] if read else [])


# ---- global memory ---------------------------------------------------------------------------------------------------

@mimw.jit
def one_task(x_ptr, x_desc, y_ptr, FENCE: tl.constexpr, BULK: tl.constexpr):
    """A task writes a line of global memory and has a copy engine read it."""
    line = tlx.local_alloc((128, ), tl.float32, 1)
    full = tlx.alloc_barriers(1)
    at = tl.arange(0, 128)
    tl.store(x_ptr + at, at.to(tl.float32))
    if FENCE != "":
        tlx.fence(FENCE)
    tlx.barrier_expect_bytes(full[0], 512)
    if BULK:
        tlx.async_load(x_ptr, line[0], bulk=True, barrier=full[0])
    else:
        tlx.async_descriptor_load(x_desc, line[0], [0], full[0])
    tlx.barrier_wait(full[0], 0)
    tl.store(y_ptr + at, tlx.local_load(line[0]))


def by_one_task(fence="gpu", bulk=False):
    x, y = np.zeros(128, np.float32), np.zeros(128, np.float32)
    return one_task, 1, (x, describe(x, [128]), y, fence, bulk), {}


@pytest.mark.parametrize("bulk", [False, True])
@pytest.mark.parametrize("fence", ["", "async_shared", "gpu", "sys"])
def test_global_memory_that_a_task_wrote_and_has_copied(fence, bulk):
    """Right iff a fence of device or system scope stands between."""
    assert right(by_one_task(fence, bulk)) == (fence in ("gpu", "sys"))


def test_what_the_missing_fence_says():
    kernel, grid, args, meta = by_one_task("")
    (finding, ) = mimw.check(kernel, grid, *args, **meta).findings
    assert finding.kind == "MissingFence" and 'fence("gpu")' in finding.hint
    lines = [line_of(one_task, text) for text in ("tl.store(x_ptr", "async_descriptor_load")]
    assert [site.line for site in finding.sites[:2]] == lines


@mimw.jit
def two_programs(x_ptr, x_desc, flag_ptr, y_ptr, BEFORE: tl.constexpr, AFTER: tl.constexpr, SEM: tl.constexpr):
    """Program 0 writes a line and sets a flag; program 1 sees the flag and has TMA load the line."""
    line = tlx.local_alloc((128, ), tl.float32, 1)
    full = tlx.alloc_barriers(1)
    at = tl.arange(0, 128)
    if tl.program_id(0) == 0:
        tl.store(x_ptr + at, at.to(tl.float32))
        if BEFORE:
            tlx.fence("gpu")
        tl.atomic_xchg(flag_ptr, 1, sem="release" if SEM else "relaxed")
    else:
        while tl.atomic_add(flag_ptr, 0, sem="acquire" if SEM else "relaxed") == 0:
            pass
        if AFTER:
            tlx.fence("gpu")
        tlx.barrier_expect_bytes(full[0], 512)
        tlx.async_descriptor_load(x_desc, line[0], [0], full[0])
        tlx.barrier_wait(full[0], 0)
        tl.store(y_ptr + at, tlx.local_load(line[0]))


@states("fence", "atomic_rmw")
def by_two_programs(before=True, after=True, ordered=False):
    x, flag, y = np.zeros(128, np.float32), np.zeros(1, np.int32), np.zeros(128, np.float32)
    return two_programs, 2, (x, describe(x, [128]), flag, y, before, after, ordered), {}


@rows("before", "after", "ordered")
def test_global_memory_that_another_program_wrote(before, after, ordered):
    """Right iff the flag is ordered, by itself or by fences on both sides, and a fence stands on one side at least."""
    assert right(by_two_programs(before, after, ordered), "random") == ((ordered and (before or after)) or (before and after))


@mimw.jit
def stored_by_tma(x_ptr, x_desc, flag_ptr, y_ptr, WAIT: tl.constexpr):
    """Program 0 writes a line by a TMA store and sets a flag; program 1 reads it by ordinary loads."""
    line = tlx.local_alloc((128, ), tl.float32, 1)
    at = tl.arange(0, 128)
    if tl.program_id(0) == 0:
        tlx.local_store(line[0], at.to(tl.float32))
        tlx.fence("async_shared")
        tlx.async_descriptor_store(x_desc, line[0], [0])
        if WAIT:
            tlx.async_descriptor_store_wait(0)
        tl.atomic_xchg(flag_ptr, 1, sem="release")
        if not WAIT:
            tlx.async_descriptor_store_wait(0)
    else:
        while tl.atomic_add(flag_ptr, 0, sem="acquire") == 0:
            pass
        tl.store(y_ptr + at, tl.load(x_ptr + at))


def sent_by_tma(wait):
    x, flag, y = np.zeros(128, np.float32), np.zeros(1, np.int32), np.zeros(128, np.float32)
    return stored_by_tma, 2, (x, describe(x, [128]), flag, y, wait), {}


@pytest.mark.parametrize("wait", [False, True])
def test_global_memory_that_a_copy_wrote(wait):
    """Right iff the store is waited for before the flag: its end is a fence towards ordinary loads."""
    assert right(sent_by_tma(wait), "random") == wait


@mimw.jit
def grid_meeting(x_ptr, x_desc, y_ptr, mesh: tl.constexpr):
    """All programs write a line, meet, and have TMA load another one's."""
    line = tlx.local_alloc((128, ), tl.float32, 1)
    full = tlx.alloc_barriers(1)
    at, me = tl.arange(0, 128), tl.program_id(0)
    tl.store(x_ptr + me * 128 + at, at.to(tl.float32))
    tle.distributed_barrier(mesh)
    tlx.barrier_expect_bytes(full[0], 512)
    tlx.async_descriptor_load(x_desc, line[0], [(me ^ 1) * 128], full[0])
    tlx.barrier_wait(full[0], 0)
    tl.store(y_ptr + me * 128 + at, tlx.local_load(line[0]))


def test_a_barrier_of_the_grid_orders_copies_too():
    """The compiler puts the fence between proxies before it."""
    x, y = np.zeros(256, np.float32), np.zeros(256, np.float32)
    launch = grid_meeting, 2, (x, describe(x, [128]), y, tle.device_mesh({"block": 2})), {}
    assert right(launch, "random")
    assert {finding.kind for finding in unfenced(launch, "gpu").findings} == {"MissingFence"}
