"""What the words for other GPUs become: PTX of system scope, ordinary stores and TMA to a peer, named errors elsewhere."""

import re

import pytest
import triton.language as tl

import mimw
import mimw.tle as tle
import mimw.tlx as tlx
from mimw.runtime.compile_kernel import compile_kernel
from tests.compiling import to_assembly, to_ttgir
from tests.tle.compiling import refused

MESH = tle.device_mesh({"node": 2, "device": 2})
TYPES = {"x": "*fp16", "y": "*fp16", "flag": "*i32", "wide": "*u64", "world": "*i64"}
ALIGNED = {(index, ): [["tt.divisibility", 16]] for index in range(len(TYPES))}


@mimw.jit
def everything(x, y, flag, wide, world, N: tl.constexpr):
    mesh = tle.bind_mesh(MESH, world)
    at = tl.arange(0, N)
    peer = (tlx.world_rank(world) + 1) % tlx.world_size(world)
    there = tlx.peer_pointer(x, peer, world)
    tl.store(there + at, tl.load(y + at))
    tile = tlx.local_alloc((64, 64), tl.float16, 1)
    tlx.local_store(tile[0], tl.zeros((64, 64), tl.float16))
    tlx.fence("async_shared")
    block = tl.make_tensor_descriptor(there, [64, 64], [64, 1], [64, 64])
    tlx.async_descriptor_store(block, tile[0], [0, 0])
    tlx.async_descriptor_store_wait(0)
    tlx.fence("sys")
    tlx.signal(tlx.peer_pointer(flag, peer, world), 1)
    tlx.signal(tlx.peer_pointer(flag, peer, world), 2, op="set")
    tlx.wait_signal(flag, 3)
    tlx.wait_signal(wide, 4, compare="eq", sem="relaxed")
    tlx.wait_signal(wide + 1, 5, compare="lt", scope="gpu")
    tl.atomic_add(tle.remote(flag, (1, 0), scope=mesh), 1, sem="acq_rel", scope="sys")
    tle.distributed_barrier(mesh)
    tle.distributed_barrier(mesh[:, 1])
    tl.store(tlx.peer_pointer(x.to(tl.pointer_type(tl.int8)), peer, world) + at, tl.zeros([N], tl.int8))


@pytest.fixture(scope="module", params=["sm_90a", "sm_100a"])
def ptx(request):
    return to_assembly(everything, TYPES, {"N": 1024}, attrs=ALIGNED, target=request.param).stages["ptx"]


def test_stores_to_a_peer_are_as_wide_as_others(ptx):
    """Also of elements of one byte."""
    assert re.search(r"st\.global\.v4\.b32", ptx) and not re.search(r"st\.global\.b(16|8)", ptx)


def test_a_put_by_tma_is_complete_before_the_signal(ptx):
    """Not .read, which waits for the source only."""
    put = ptx.index("cp.async.bulk.tensor.2d.global.shared")
    wait = re.compile(r"cp\.async\.bulk\.wait_group(\.read)?\s").search(ptx, put)
    fence, told = ptx.index("fence.acq_rel.sys"), ptx.index("red.global.sys.release.add.u32")
    assert wait[1] is None and put < wait.start() < fence < told


def test_signals_and_waits_have_system_scope(ptx):
    assert re.search(r"fence\.release\.sys;.{0,200}?@%p\d+ st\.relaxed\.sys\.global\.b32", ptx, re.S)
    assert "ld.acquire.sys.global.b32 now" in ptx and "setp.ge.s32 met, now" in ptx
    assert "ld.relaxed.sys.global.b64 now" in ptx and "setp.eq.u64 met, now" in ptx
    assert "ld.acquire.gpu.global.b64 now" in ptx and "setp.lt.u64 met, now" in ptx
    assert re.search(r"atom\.global\.sys\.acq_rel\.add|red\.global\.sys\.acq_rel\.add|\.sys\.\w*\.?add", ptx)


def test_one_thread_looks_and_the_task_syncs_behind(ptx):
    for text in re.findall(r"ld\.\w+\.\w+\.global\.b\d+ now.*?bar\.sync", ptx, re.S):
        assert text.count("\n") < 12 and "past:" in text
    assert len(re.findall(r"ld\.\w+\.\w+\.global\.b\d+ now", ptx)) == 3


def test_one_warp_looks_together():
    """A loop of one lane would have the assembler think that the warp is apart behind it, in every role of the kernel."""
    @mimw.jit
    def waits(flag):
        with tlx.async_tasks():
            with tlx.async_task("default"):
                tl.store(flag + 1, 1)
            with tlx.async_task(num_warps=1):
                tlx.wait_signal(flag, 3)

    ptx = to_assembly(waits, {"flag": "*i32"}).stages["ptx"]
    looks = re.search(r"again:.*?ld\.acquire\.sys\.global\.b32 now.*?bra\.uni again;", ptx, re.S)[0]
    assert "vote.sync.all.pred met, met, -1;" in looks and "past" not in ptx


def test_barriers_of_ranks(ptx):
    puts = [place.start() for place in re.finditer(r"atom\.cas\.release\.sys\.global\.b32 old, \[there\], 0, 1", ptx)]
    takes = [place.start() for place in re.finditer(r"atom\.cas\.acquire\.sys\.global\.b32 old, \[here\], 1, 0", ptx)]
    assert len(puts) == len(takes) == 2 and puts[0] < takes[0] < puts[1] < takes[1]
    first, second = re.findall(r"mad\.lo\.u32 peer, \S+, (\d+), (\d+);", ptx)
    assert first == ("1", "0") and second == ("2", "1")     # ranks 0, 1, 2, 3; ranks 1 and 3
    assert "bar.sync" in ptx[takes[1]:] and "bar.sync" in ptx[takes[0]:puts[1]]


@mimw.jit
def waits(flag, world):
    tlx.signal(tlx.peer_pointer(flag, 0, world), 1)
    tlx.wait_signal(flag, 1)


@mimw.jit
def meets(flag, world):
    tlx.world_barrier(world)


@mimw.jit
def signals(flag, world):
    tlx.signal(tlx.peer_pointer(flag, 0, world), 1)
    tlx.fence("sys")


@mimw.jit
def meets_apart(flag, world, MESH: tl.constexpr):
    tle.distributed_barrier(tle.bind_mesh(MESH, world)[:2, :2])


@mimw.jit
def on_amd(x, flag, wide, world, N: tl.constexpr):
    mesh = tle.bind_mesh(MESH, world)
    tl.store(tle.remote(x, (0, 1), scope=mesh) + tl.arange(0, N), 1.0)
    tlx.signal(tle.remote(flag, (0, 1), scope=mesh))
    tlx.wait_signal(flag, 3)
    tlx.wait_signal(wide, 4, compare="eq", sem="relaxed")
    tlx.wait_signal(wide, 5, compare="lt", scope="gpu")
    tlx.world_barrier(world)
    tle.distributed_barrier(mesh[:, 1])


@pytest.mark.parametrize("chip", ["gfx942", "gfx950"])
def test_gfx9_waits_and_meets(chip):
    """What is released is written back to where peers see it, after what is acquired comes an invalidation, of system scope; LLVM's
    assembler takes the loops."""
    compiled = compile_kernel(on_amd, {"x": "*fp32", "flag": "*i32", "wide": "*u64", "world": "*i64"}, {"N": 256}, target=chip)
    lines = (line.partition(";")[0].strip() for line in compiled.stages["amdgcn"].splitlines())
    isa = "\n".join(line for line in lines if line and not line.startswith("."))
    assert "hsaco" in compiled.stages
    store = isa.index("global_store_dword")
    told = re.compile(r"buffer_wbl2 sc0 sc1\s+s_waitcnt vmcnt\(0\)\s+global_atomic_add .* sc1").search(isa, store)
    wait = re.compile(r"global_load_dword v\d+, v\[\d+:\d+\], off sc0 sc1\s+s_waitcnt vmcnt\(0\)\s+v_cmp_ge_i32 vcc, .*\s+"
                      r"s_cbranch_vccz 1b\s+buffer_inv sc0 sc1\s(?:(?!global).*\s)*?s_barrier").search(isa, told.end())
    assert re.search(r"off sc0 sc1\s+s_waitcnt vmcnt\(0\)\s+v_cmp_eq_u64 vcc, .*\s+s_cbranch_vccz 1b\s+(?!buffer_inv)", isa)
    assert re.search(r"off sc1\s+s_waitcnt vmcnt\(0\)\s+v_cmp_lt_u64 vcc, .*\s+s_cbranch_vccz 1b\s+buffer_inv sc1\s", isa)
    meetings = [place.start() for place in re.finditer(r"global_atomic_cmpswap v\d+, .*, v\[2:3\], off sc0 sc1", isa)]
    assert len(meetings) == 4 and wait.end() < meetings[0]
    for put, take in (meetings[:2], meetings[2:]):
        assert isa.rindex("buffer_wbl2 sc0 sc1", 0, put) > isa.rindex("s_barrier", 0, put)
        assert isa.index("s_barrier", take) < isa.index("buffer_inv sc0 sc1", take)
        assert "v_cmp_ne_u32 vcc, 0, v" in isa[put:take] and "v_cmp_ne_u32 vcc, 1, v" in isa[take:take + 200]


def test_gfx12_waits_and_meets():
    """The same by the instructions of gfx12: caches are written back before a release and invalidated after an acquire, each of the
    scope that was asked for; what the vector unit writes has settled when memory instructions read it."""
    compiled = compile_kernel(on_amd, {"x": "*fp32", "flag": "*i32", "wide": "*u64", "world": "*i64"}, {"N": 256}, target="gfx1250")
    assert compiled.stage("hsaco")[:4] == b"\x7fELF"
    lines = (line.partition(";")[0].strip() for line in compiled.stages["amdgcn"].splitlines())
    isa = "\n".join(line for line in lines if line and not line.startswith("."))
    store, settled = isa.index("global_store_b32"), r"s_wait_alu depctr_va_vdst\(0\) depctr_vm_vsrc\(0\)\s+"
    told = re.compile(r"global_wb scope:SCOPE_SYS\s+s_wait_storecnt 0x0\s+(?:s_wait_alu .*\s+)?"
                      r"global_atomic_add_u32 .* scope:SCOPE_SYS").search(isa, store)
    wait = re.compile(settled + r"1:\s+s_sleep 1\s+global_load_b32 v\d+, v\[\d+:\d+\], off scope:SCOPE_SYS\s+s_wait_loadcnt 0x0\s+"
                      r"v_cmp_ge_i32 vcc_lo, .*\s+s_cbranch_vccz 1b\s+global_inv scope:SCOPE_SYS\s+s_wait_loadcnt 0x0\s+"
                      r"(?:(?!global).*\s)*?s_barrier_wait").search(isa, told.end())
    assert re.search(r"off scope:SCOPE_SYS\s+s_wait_loadcnt 0x0\s+v_cmp_eq_u64 vcc_lo, .*\s+s_cbranch_vccz 1b\s+"
                     r"(?!global_inv)", isa)
    assert re.search(r"off scope:SCOPE_DEV\s+s_wait_loadcnt 0x0\s+v_cmp_lt_u64 vcc_lo, .*\s+s_cbranch_vccz 1b\s+"
                     r"global_inv scope:SCOPE_DEV\s", isa)
    exchange = r"s_cbranch_execz \df\s+global_atomic_cmpswap_b32 v\d+, .*, v\[2:3\], off th:TH_ATOMIC_RETURN scope:SCOPE_SYS"
    meetings = [place.start() for place in re.finditer(settled + r"\d:\s+" + exchange, isa)]
    assert len(meetings) == 4 and wait.end() < meetings[0]
    for put, take in (meetings[:2], meetings[2:]):
        assert isa.rindex("global_wb scope:SCOPE_SYS", 0, put) > isa.rindex("s_barrier_wait", 0, put)
        assert isa.index("s_barrier_wait", take) < isa.index("global_inv scope:SCOPE_SYS", take)
        assert "v_cmp_ne_u32 vcc_lo, 0, v" in isa[put:take] and "v_cmp_ne_u32 vcc_lo, 1, v" in isa[take:take + 300]


@mimw.jit
def out_of_range(flag, VALUE: tl.constexpr, WAITS: tl.constexpr):
    if WAITS:
        tlx.wait_signal(flag, VALUE)
    else:
        tlx.signal(flag, VALUE)


def test_numbers_that_a_word_does_not_hold():
    """Cut to 32 bits, 1 << 40 is 0, for which nobody would wait."""
    for value, type_, waits in ((1 << 40, "*i32", True), (-1, "*u32", True), (1 << 31, "*i32", False)):
        refused(ValueError, f"{value} does not fit the signal", out_of_range, {"flag": type_}, VALUE=value, WAITS=waits)


def test_ranks_that_no_stride_gives_are_listed():
    """Ranks 0, 1, 4 and 5: thread 2 is for rank 4, thread 3 for rank 5, and no other rank takes part."""
    given = {"flag": "*i32", "world": "*i64"}, {"MESH": tle.device_mesh({"node": 2, "device": 4})}
    ptx = compile_kernel(meets_apart, *given).stages["ptx"]
    assert re.findall(r"setp\.eq\.u32 more, %r\d+, (\d);\s+@more mov\.u32 peer, (\d);", ptx) == [("1", "1"), ("2", "4"), ("3", "5")]
    assert re.findall(r"setp\.eq\.(?:or\.)?u32 more, me, (\d)", ptx) == ["0", "1", "4", "5"] and "and.pred on, on, more;" in ptx
    amd = to_ttgir(meets_apart, *given, target="gfx942").stages["ttgir"]
    assert amd.count("arith.select") == 3 and amd.count("arith.ori") == 3 and "dense<5> : tensor<256xi32" in amd
