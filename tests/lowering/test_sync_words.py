"""What PTX the words make that name threads, barriers, bulk copies and caches, and which warps take part."""

import re

import pytest
import triton.language as tl

import mimw
import mimw.tlx as tlx
from mimw.errors import ArriveCountMismatch, ProtocolError, TaskError
from tests.compiling import to_assembly, to_ttgir
from tests.lowering.harness import Case
from tests.lowering.ptx import blocks


def lines(compiled) -> list[str]:
    return [line for block in blocks(compiled.stages["ptx"]).values() for line in block]


@mimw.jit
def warp_barrier(y):
    bars = tlx.alloc_warp_barrier(2, num_warps=4)
    with tlx.async_tasks():
        with tlx.async_task("default"):
            tlx.barrier_wait(bars[1], 0)
            tl.store(y, 1)
        with tlx.async_task(num_warps=4):
            tlx.barrier_arrive(bars[1])


def test_threads_arrive_without_a_sync():
    found = lines(Case(warp_barrier, {"y": "*i32"}).compiled(by=to_assembly))
    assert sum("mbarrier.arrive.release.cta.shared::cta.b64" in line for line in found) == 1
    assert any(re.search(r"mbarrier.init.*, 128;", line) for line in found)
    assert not any(line.startswith("bar.sync") for line in found)
    assert not any(line.startswith("@") and "mbarrier.arrive" in line for line in found)


@mimw.jit
def too_few_warps():
    bars = tlx.alloc_warp_barrier(1, num_warps=4)
    with tlx.async_tasks():
        with tlx.async_task("default"):
            tlx.barrier_wait(bars[0], 0)
        with tlx.async_task(num_warps=2):
            tlx.barrier_arrive(bars[0])


def test_arrivals_of_threads_are_counted():
    with pytest.raises(Exception) as caught:
        Case(too_few_warps).compiled()
    assert isinstance(caught.value.__cause__, ArriveCountMismatch)
    assert "waits for 128 arrivals, 64 can come" in str(caught.value)
    assert "give alloc_warp_barrier the task's num_warps" in str(caught.value)


@mimw.jit
def divergent(y, BAR: tl.constexpr):
    with tlx.async_tasks():
        with tlx.async_task("default"):
            tlx.named_barrier_wait(BAR, 160)
            tl.store(y, 1)
        with tlx.async_task(num_warps=1):
            if tlx.thread_id(0) == 128:
                tl.store(y + 1, tl.load(y + 2))
            tlx.named_barrier_arrive(BAR, 160)


def test_the_warp_comes_together_before_a_named_barrier():
    found = lines(Case(divergent, {"y": "*i32"}, {"BAR": 9}).compiled(by=to_assembly))
    (wait, ), (arrive, ) = ([i for i, line in enumerate(found) if re.match(rf"bar(rier)?\.{kind}\s+9, 160;", line)]
                            for kind in ("sync", "arrive"))
    assert found[wait - 1] == found[arrive - 1] == "bar.warp.sync 0xffffffff;"


def test_the_compilers_named_barriers_are_refused():
    with pytest.raises(Exception, match="named barrier 2 is the compiler's here") as caught:
        Case(divergent, {"y": "*i32"}, {"BAR": 2}).compiled()
    assert isinstance(caught.value.__cause__, ProtocolError)


@mimw.jit
def two_regions(y, EXCLUSIVE: tl.constexpr):
    for _ in tl.static_range(2):
        with tlx.async_tasks(exclusive=EXCLUSIVE, mbarrier_try_wait_suspend_ns=100, warp_specialize=True):
            with tlx.async_task("default"):
                tl.store(y, 1)
            with tlx.async_task(num_warps=1):
                tl.store(y + 1, 1)


def test_exclusive():
    assert Case(two_regions, {"y": "*i32"}, {"EXCLUSIVE": False}).compiled().stages["cubin"]
    with pytest.raises(Exception, match="requires exactly one warp_specialize op in the module, but found 2") as caught:
        Case(two_regions, {"y": "*i32"}, {"EXCLUSIVE": True}).compiled()
    assert isinstance(caught.value.__cause__, TaskError)


@mimw.jit
def one_thread(y):
    if tlx.thread_id(0) == 7:
        tl.store(y + tl.arange(0, 32), tl.arange(0, 32))
        tl.store(y + 32, 1)


def test_only_the_thread_stores():
    """The block store stands behind a real branch on %tid; the scalar one is the first thread's besides."""
    found = lines(Case(one_thread, {"y": "*i32"}, options={"num_warps": 1}).compiled())
    block, scalar = (index for index, line in enumerate(found) if "st.global" in line)
    branch = next(index for index, line in enumerate(found) if re.match(r"@%p\d+ bra", line))
    thread = next(index for index, line in enumerate(found) if re.match(r"setp.ne.b32\s+%p\d+, %r\d+, 7;", line))
    assert thread < branch < block < scalar
    assert not found[block].startswith("@") and found[scalar].startswith("@")


@mimw.jit
def bulk(x, y, n, MANY: tl.constexpr):
    line = tlx.local_alloc((512, ), tl.float32, 1)
    full = tlx.alloc_barriers(1)
    tlx.barrier_expect_bytes(full[0], 2048)
    tlx.async_load(x + tl.arange(0, 512) if MANY else x, line[0], bulk=True, barrier=full[0])
    tlx.barrier_wait(full[0], 0)
    tlx.async_store(y, line[0], n * 16)
    tlx.async_descriptor_store_wait(0)


@pytest.mark.parametrize("many", [False, True])
def test_one_thread_starts_a_bulk_copy(many):
    found = lines(Case(bulk, {"x": "*fp32", "y": "*fp32", "n": "i32"}, {"MANY": many}).compiled(by=to_assembly))
    load, store = (next(i for i, line in enumerate(found) if text in line) for text in (
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes", "cp.async.bulk.global.shared::cta.bulk_group"))
    assert found[load].startswith("@") and found[store].startswith("@")
    assert found[store + 1] == "cp.async.bulk.commit_group;"
    assert any(line.startswith("bar.sync") for line in found[:load])


@mimw.jit
def hints(d, x, n):
    tlx.prefetch(d, tensormap=True)
    tlx.prefetch(x + tl.arange(0, 256), "L1", mask=tl.arange(0, 256) < n)
    tlx.prefetch(x, level="L2")
    tlx.async_descriptor_prefetch_tensor(d, [n, 64], eviction_policy="evict_first")


def test_prefetches():
    """The block is two boxes to TMA, innermost coordinate first; the descriptor is the third parameter on."""
    found = lines(Case(hints, {"x": "*fp32", "d": "tensordesc<fp16[64,128]>", "n": "i32"}).compiled())
    assert [line for line in found if ".tensor.2d" in line] == 2 * [
        "@on cp.async.bulk.prefetch.tensor.2d.L2.global.tile.L2::cache_hint [at, {c1, c0}], policy;"]
    assert found.count("mov.b64 at, hints_param_0;") == 2 and "@on prefetch.tensormap [at];" in found
    assert sum("prefetch.global.L1" in line for line in found) == 2 and sum("prefetch.global.L2" in line for line in found) == 1


@mimw.jit
def made_here(x, n, HANDED_ON: tl.constexpr):
    desc = tl.make_tensor_descriptor(x, [n, 64], [64, 1], [32, 64])
    if HANDED_ON:
        if n > 7:
            desc = tl.make_tensor_descriptor(x + 64, [n, 64], [64, 1], [32, 64])
    tlx.prefetch(desc, tensormap=True)
    tlx.async_descriptor_prefetch_tensor(desc, [0, 0])


@pytest.mark.parametrize("handed_on", [False, True])
def test_descriptors_made_in_the_kernel_are_prefetched(handed_on):
    """Also where an `if` hands them on: their address goes along."""
    found = [line for line in lines(Case(made_here, {"x": "*fp32", "n": "i32"}, {"HANDED_ON": handed_on}).compiled(by=to_assembly))
             if "prefetch" in line]
    assert all(any(name in line for line in found) for name in ("prefetch.tensormap", "prefetch.tensor.2d"))


@mimw.jit
def policies(d, o, row, LOAD: tl.constexpr, STORE: tl.constexpr, REDUCE: tl.constexpr):
    tile = tlx.local_alloc((32, 32), tl.float32, 1)
    full = tlx.alloc_barriers(1)
    tlx.barrier_expect_bytes(full[0], 4096)
    tlx.async_descriptor_load(d, tile[0], [row, 0], full[0], cache_modifier=".cg", eviction_policy=LOAD)
    tlx.barrier_wait(full[0], 0)
    tlx.async_descriptor_store(o, tile[0], [row, 0], eviction_policy=STORE, store_reduce=REDUCE)
    tlx.async_descriptor_store_wait(0)


@pytest.mark.long(but=["-add-", "evict_first--evict_first", "evict_last--evict_last"], everywhere=True)
@pytest.mark.parametrize("load", ["", "evict_first", "evict_last"])
@pytest.mark.parametrize("store, reduce", [("", ""), ("evict_first", ""), ("evict_last", ""), ("", "add"), ("evict_first", "add")])
def test_eviction_policies(load, store, reduce):
    case = Case(policies, {"d": "tensordesc<fp32[32,32]>", "o": "tensordesc<fp32[32,32]>", "row": "i32"},
                {"LOAD": load, "STORE": store, "REDUCE": reduce})
    found = lines(case.compiled(by=to_assembly))
    hinted = ["L2::cache_hint" in line for line in found if ".tensor.2d" in line]
    assert hinted == [bool(load), bool(store)]
    assert any("cp.reduce" in line for line in found) is bool(reduce)


@mimw.jit
def ballots(y, n):
    tl.store(y + tl.arange(0, 128), tlx.vote_ballot_sync(0xFFFFFFFF, tl.arange(0, 128) < n))


def test_one_ballot_a_warp_whatever_it_owns():
    found = lines(Case(ballots, {"y": "*i32", "n": "i32"}, options={"num_warps": 1}).compiled())
    assert sum("vote.sync.ballot.b32" in line for line in found) == 1
    assert sum(line.startswith("or.b32 any") for line in found) == 3


@mimw.jit
def copy(x, y, n, SIZE: tl.constexpr, OTHER: tl.constexpr, STEP: tl.constexpr):
    at = tl.arange(0, SIZE)
    line = tlx.local_alloc((SIZE, ), tlx.dtype_of(x), 1)
    tlx.async_load(x + at, line[0], mask=at < n * STEP, other=OTHER)
    tlx.async_load_commit_group()
    tlx.async_load_wait_group(0)
    tl.store(y + at, tlx.local_load(line[0]))


ALIGNED = {(0, ): [["tt.divisibility", 16]]}


@pytest.mark.long(everywhere=True, but=[
    "fp16-None-2-attrs5-4", "fp16-None-8-None-None", "fp32-0.0-4-attrs2-16", "fp32-1.0-4-attrs3-None", "fp32-None-1-attrs0-4",
    "i8-None-16-attrs8-16"])
@pytest.mark.parametrize("element, other, step, attrs, bytes_", [
    ("fp32", None, 1, ALIGNED, 4), ("fp32", None, 4, ALIGNED, 16), ("fp32", 0.0, 4, ALIGNED, 16),
    ("fp32", 1.0, 4, ALIGNED, None), ("fp16", None, 8, ALIGNED, 16), ("fp16", None, 2, ALIGNED, 4),
    ("fp16", None, 1, ALIGNED, None), ("fp16", None, 8, None, None), ("i8", None, 16, ALIGNED, 16), ("i8", None, 2, ALIGNED, None)])
def test_cp_async_where_it_can(element, other, step, attrs, bytes_):
    """As wide as mask and address allow; below 4 bytes, and where zeros are not wanted, by ordinary loads."""
    case = Case(copy, {"x": f"*{element}", "y": f"*{element}", "n": "i32"}, {"SIZE": 2048, "OTHER": other, "STEP": step},
                attrs=attrs)
    copies = [line for line in lines(case.compiled(by=to_assembly)) if re.match(r"cp\.async\.c[ag]", line)]
    widths = {int(re.search(r", 0x(\w+),", line)[1], 16) for line in copies}
    assert widths == ({bytes_} if bytes_ else set())


@mimw.jit
def in_tasks(d, o, y, n):
    with tlx.async_tasks():
        with tlx.async_task("default"):
            tl.store(y, 1)
        with tlx.async_task(num_warps=4):
            for i in range(n):
                o.store([16 * i, 0], d.load([16 * i, 0]) + 1)
        with tlx.async_task(num_warps=1):
            for i in range(n):
                o.atomic_add([16 * i, 0], d.load([16 * i, 0]) + 1)


def test_descriptor_words_sync_only_their_task():
    """Barrier 2 is the first worker's, of 4 warps; the one-warp task needs none but the warp's own."""
    signature = {"d": "tensordesc<fp16[16,64]>", "o": "tensordesc<fp16[16,64]>", "y": "*i32", "n": "i32"}
    found = lines(Case(in_tasks, signature).compiled(by=to_assembly))
    syncs = {line for line in found if re.match(r"bar\.(sync|warp)", line)}
    assert {re.sub(r"\s+", " ", line) for line in syncs} == {"bar.sync 2, 128;", "bar.warp.sync -1;"}
    assert sum("cp.reduce.async.bulk.tensor" in line for line in found) == 1


@mimw.jit
def asks(x, d, p, y):
    size: tl.constexpr = 3 * tlx.size_of(tlx.dtype_of(x)) + 2 * tlx.size_of(tlx.dtype_of(d))
    line = tlx.local_alloc((size, ), tlx.dtype_of(tl.load(x)), 1)
    tlx.local_store(line[0], tl.zeros([size], tlx.dtype_of(x + tl.arange(0, 4))))
    name: tl.constexpr = tlx.get_fp8_format_name(tlx.dtype_of(p))
    tl.static_assert(name == "e4m3")
    made = tl.make_tensor_descriptor(x, [64, 64], [64, 1], [16, 64])
    tl.static_assert(tlx.dtype_of(made) == tl.float32)
    tl.store(y + tl.arange(0, size), tlx.local_load(line[0]).to(tl.int32))


def test_types_are_known_at_compile_time():
    case = Case(asks, {"x": "*fp32", "d": "tensordesc<fp16[16,64]>", "p": "*fp8e4nv", "y": "*i32"})
    assert "memdesc<1x16xf32" in case.compiled(by=to_ttgir).stages["ttgir"]
