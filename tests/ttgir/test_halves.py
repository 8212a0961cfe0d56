"""Halves of AMD's waves that run apart: stock Triton's ping-pong, stages of Gluon's, and small loops by hand with each mistake."""

import functools

import numpy as np
import pytest
import torch
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.amd import warp_pipeline_stage

import mimw
from mimw.compiler.triton_port.late_barriers import with_late_barriers
from mimw.errors import BarrierMisuse, DataRace, NotYet
from mimw.runtime.ttgir import compiled_launch
from tests.kernels.halves_apart import product
from tests.ttgir.modules import kernel, ran

# ---- a loop by hand --------------------------------------------------------------------------------------------------------------

WAVES = "#waves = #ttg.blocked<{sizePerThread = [1], threadsPerWarp = [64], warpsPerCTA = [8], order = [0]}>\n"
LINE, MEMORY = "tensor<512xf32, #waves>", "!ttg.memdesc<512xf32, #barrier, #smem, mutable>"
LOCAL, BARE, NONE = "ttg.barrier local", "rocdl.s.barrier", ""
X = np.random.default_rng(3).standard_normal(512).astype(np.float32)
HALVES = """%id = rocdl.workitem.id.x : i32
    %half = arith.divsi %id, %c256 : i32
    %first = arith.cmpi eq, %half, %c0 : i32
    %second = arith.cmpi ne, %half, %c0 : i32
    """
LOOP = f"""%at = tt.make_range {{start = 0 : i32, end = 512 : i32}} : tensor<512xi32, #waves>
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %c3 = arith.constant 3 : i32
    %c256 = arith.constant 256 : i32
    %m = ttg.local_alloc : () -> {MEMORY}
    %x0 = amdg.buffer_load %x[%at] : !tt.ptr<f32> -> {LINE}
    {HALVES}BEFORE
    %r = scf.for %i = %c0 to %c3 step %c1 iter_args(%v = %x0) -> ({LINE}) : i32 {{
    ttg.local_store %v, %m : {LINE} -> {MEMORY}
    B1
    rocdl.s.setprio 1
    rocdl.sched.group.barrier mfma_wmma, 1, 0
    B2
    %w = ttg.local_load %m : {MEMORY} -> {LINE}
    %d = arith.addf %w, %w : {LINE}
    B3
    B4
    scf.yield %d : {LINE}
    }}
    BEHIND
    amdg.buffer_store %r, %o[%at] : !tt.ptr<f32> -> {LINE}"""
SECOND, FIRST = "amdg.cond_barrier %second", "amdg.cond_barrier %first"


def text(before=SECOND, behind=FIRST, barriers=(LOCAL, ) * 4, warps=8, **edits) -> str:
    body = LOOP.replace("BEFORE", before).replace("BEHIND", behind)
    for number, one in enumerate(barriers, 1):
        body = body.replace(f"B{number}\n", f"{one}\n")
    for given, other in edits.items():
        body = body.replace(f"%{given} = ", f"%{given} = {other} //")
    layout = WAVES.replace("warpsPerCTA = [8]", f"warpsPerCTA = [{warps}]")
    return kernel("%x: !tt.ptr<f32>, %o: !tt.ptr<f32>", body, target="hip:gfx942", layouts=layout).replace(
        '"ttg.num-warps" = 4', f'"ttg.num-warps" = {warps}')


def doubled(*args, **how) -> np.ndarray:
    out = np.zeros_like(X)
    ran(text(*args, **how), X, out, target="gfx942")
    return out


@pytest.mark.parametrize("before, behind", [(SECOND, FIRST), (FIRST, SECOND)])
def test_one_half_waits_in_front_of_the_loop_and_the_other_one_behind_it(before, behind):
    assert (doubled(before, behind) == 8 * X).all()


@pytest.mark.parametrize("barriers, right", [
    ((LOCAL, LOCAL, LOCAL, LOCAL), True), ((LOCAL, BARE, LOCAL, LOCAL), True), ((LOCAL, LOCAL, LOCAL, BARE), True),
    ((BARE, LOCAL, LOCAL, LOCAL), False), ((LOCAL, LOCAL, BARE, LOCAL), False), ((NONE, LOCAL, LOCAL, LOCAL), False),
    ((LOCAL, LOCAL, NONE, LOCAL), False), ((LOCAL, NONE, LOCAL, NONE), False)])
def test_two_barriers_stand_between_halves(barriers, right):
    """Right iff two barriers stand between a store and a load of the tile, and the first of them waits for LDS."""
    if right:
        assert (doubled(barriers=barriers) == 8 * X).all()
    else:
        with pytest.raises(DataRace, match="halves of the waves are one stage apart"):
            doubled(barriers=barriers)


def test_together_one_strand_needs_no_barrier():
    assert (doubled(NONE, NONE, (NONE, BARE, NONE, LOCAL)) == 8 * X).all()


@pytest.mark.parametrize("before, behind, words", [
    (SECOND, NONE, "part here, and never meet again"), (NONE, f"{LOCAL}\n{FIRST}", "part here, and never meet again"),
    (SECOND, SECOND, "the second half of the waves waits here for the second time, and the first half comes to neither"),
    (FIRST, FIRST, "the first half of the waves waits here for the second time")])
def test_a_barrier_for_one_half_that_the_other_one_does_not_make_up_for(before, behind, words):
    with pytest.raises(BarrierMisuse, match=words):
        doubled(before, behind)


def test_halves_that_meet_in_another_block():
    body = text(NONE, NONE, (f"{LOCAL}\n{SECOND}", NONE, NONE, NONE))
    body = body.replace("    amdg.buffer_store", f"    {FIRST}\n    amdg.buffer_store")
    with pytest.raises(BarrierMisuse, match="part here in the block of `for`, and never meet again"):
        ran(body, X, np.zeros_like(X), target="gfx942")
    body = text(SECOND, NONE, (FIRST, NONE, NONE, NONE))
    with pytest.raises(BarrierMisuse, match="meet here in the block of `for`, where they have not parted"):
        ran(body, X, np.zeros_like(X), target="gfx942")


def test_all_waves_meet_behind_what_they_did_before():
    """In front of the first barrier for one half; an allocation without a value is no access."""
    stored = f"ttg.local_store %x0, %m : {LINE} -> {MEMORY}\n"
    assert (doubled(f"{stored}{LOCAL}\n{SECOND}") == 8 * X).all()
    with pytest.raises(DataRace, match="goes on here, while accesses to shared memory of the second half may still be under way"):
        doubled(stored + SECOND)


@pytest.mark.parametrize("edit", [
    dict(c256="arith.constant 128 : i32"), dict(half="arith.muli %id, %c256 : i32"), dict(warps=4),
    dict(first="arith.cmpi sgt, %half, %c0 : i32", second="arith.cmpi slt, %half, %c0 : i32")])
def test_a_barrier_for_other_waves_is_refused(edit):
    with pytest.raises(NotYet, match="for others than one half of the waves, 4 of 8"):
        doubled(**edit)


# ---- stock Triton's ping-pong ----------------------------------------------------------------------------------------------------


STAGES = {"gfx942": 2, "gfx950": 3}
A, B = (np.random.default_rng(3).standard_normal(shape).astype(np.float16) / 4 for shape in ((256, 160), (160, 256)))


@functools.cache
def ping_pong(chip: str) -> str:
    """A product whose halves Triton lets run apart, as TTGIR: with smaller tiles it does not."""
    given = A, B, np.zeros((256, 256), np.float16), 160
    meta = dict(M=256, N=256, BK=32, num_warps=8, num_stages=STAGES[chip])
    return compiled_launch(product, (1, ), given, meta, chip, late_fences=False)[1].text


def checked(module: str, **how):
    return mimw.check_ttgir(module, (1, ), A, B, np.zeros((256, 256), np.float16), 160, seeds=1, rounds=False, shrink=False, jobs=1,
                            expected=lambda a, b: {"c": a.astype(np.float32) @ b.astype(np.float32)}, **how)


@pytest.mark.parametrize("chip", STAGES)
def test_stock_ping_pong_is_right(chip):
    module = ping_pong(chip)
    assert module.count("amdg.cond_barrier") == 2 and ("amdg.in_thread_transpose" in module) == (chip == "gfx942")
    report = checked(module)
    assert report.ok and "'c' as expected" in report.results


def test_without_the_barriers_that_triton_adds_later_copies_are_read_early():
    (finding, *_) = checked(ping_pong("gfx950"), late_fences=False).findings
    assert finding.kind == "CopyReadEarly"


@pytest.mark.parametrize("number, kind", [(1, "SlotReusedEarly"), (2, "SlotReusedEarly"), (3, "DataRace"), (4, "DataRace")])
def test_a_barrier_of_the_loop_that_is_gone_is_found(number, kind):
    """Of the loop's four: two stand between the reads of a slot and the store into it, two between that and the next reads."""
    lines = ping_pong("gfx942").splitlines()
    barriers = [at for at, line in enumerate(lines) if LOCAL in line]
    assert len(barriers) == 5
    del lines[barriers[number]]
    (finding, *_) = checked("\n".join(lines) + "\n", late_fences=False).findings
    assert finding.kind == kind and "one stage apart" in finding.message


def test_barriers_are_added_where_halves_are_apart():
    apart = text(barriers=(NONE, ) * 4)
    assert with_late_barriers(apart).count(LOCAL) == 2      # between a store and a load, and between the load and the next store
    together = text(NONE, NONE, (NONE, ) * 4)
    assert with_late_barriers(together) == together


# ---- stages of Gluon's -----------------------------------------------------------------------------------------------------------


@gluon.jit
def staged(a, b, c, K, M: gl.constexpr, N: gl.constexpr, BK: gl.constexpr, GAP: gl.constexpr):
    """Two slots: while one half of the waves multiplies, the other one reads the operands."""
    sums_layout: gl.constexpr = gl.amd.AMDMFMALayout(version=4, instr_shape=[16, 16, 32], transposed=True, warps_per_cta=[2, 4])
    rows_layout: gl.constexpr = gl.BlockedLayout([1, 8], [8, 8], [8, 1], [1, 0])
    shared: gl.constexpr = gl.SwizzledSharedLayout(1, 1, 1, [1, 0])
    left: gl.constexpr = gl.DotOperandLayout(0, sums_layout, 8)
    right: gl.constexpr = gl.DotOperandLayout(1, sums_layout, 8)
    down, across = gl.arange(0, M, gl.SliceLayout(1, rows_layout)), gl.arange(0, BK, gl.SliceLayout(0, rows_layout))
    a_at = down[:, None] * K + across[None, :]
    b_at = gl.arange(0, BK, gl.SliceLayout(1, rows_layout))[:, None] * N + gl.arange(0, N, gl.SliceLayout(0, rows_layout))[None, :]
    a_tiles = gl.allocate_shared_memory(gl.float16, [2, M, BK], shared)
    b_tiles = gl.allocate_shared_memory(gl.float16, [2, BK, N], shared)
    a_tiles.index(0).store(gl.amd.cdna4.buffer_load(a, a_at))
    b_tiles.index(0).store(gl.amd.cdna4.buffer_load(b, b_at))
    sums = gl.zeros((M, N), gl.float32, sums_layout)
    for k in range(0, K - BK, BK):
        slot = k // BK % 2
        with warp_pipeline_stage("read", priority=1):
            x = gl.amd.cdna4.buffer_load(a, a_at + k + BK)
            y = gl.amd.cdna4.buffer_load(b, b_at + (k + BK) * N)
            u, v = a_tiles.index(slot).load(left), b_tiles.index(slot).load(right)
        with warp_pipeline_stage("multiply", priority=0):
            sums = gl.amd.cdna4.mfma(u, v, sums)
        with warp_pipeline_stage("write"):
            a_tiles.index(1 - slot).store(x)
            b_tiles.index(1 - slot).store(y)
        if GAP:
            with warp_pipeline_stage("gap"):
                pass
    last = (K - BK) // BK % 2
    sums = gl.amd.cdna4.mfma(a_tiles.index(last).load(left), b_tiles.index(last).load(right), sums)
    m, n = gl.arange(0, M, gl.SliceLayout(1, sums_layout)), gl.arange(0, N, gl.SliceLayout(0, sums_layout))
    gl.amd.cdna4.buffer_store(sums, c, m[:, None] * N + n[None, :])


def in_stages(gap: bool, warps: int = 8):
    a, b = torch.randn(64, 192).half(), torch.randn(192, 64).half()
    return mimw.check(staged, (1, ), a, b, torch.zeros(64, 64), 192, M=64, N=64, BK=64, GAP=gap, num_warps=warps, target="gfx950",
                      expected={"c": a.float() @ b.float()}, seeds=1, rounds=False, shrink=False)


def test_stages_of_gluon_are_right():
    report = in_stages(True)
    assert report.ok and "'c' as expected" in report.results


def test_a_tile_that_is_read_a_stage_behind_its_store_is_found():
    (finding, *_) = in_stages(False).findings
    lines = [line.strip() for line in open(__file__)]
    assert finding.kind == "DataRace" and "one stage apart" in finding.message
    assert "warp_pipeline_stage" in lines[finding.sites[0].line - 5] or "tiles.index(slot).load" in lines[finding.sites[0].line - 1]


def test_stages_are_predicted():
    """Both halves have a lane of the timeline."""
    a, b = torch.zeros(64, 512).half(), torch.zeros(512, 64).half()
    told = mimw.predict(staged, (1, ), a, b, torch.zeros(64, 64), 512, M=64, N=64, BK=64, GAP=True, num_warps=8, target="gfx950")
    assert 5000 < told.cycles < 50000 and {"first half", "second half"} <= {lane for _, lane in told.trace.lanes()}


def test_a_barrier_in_a_stage_is_refused():
    stage = """scf.execute_region no_inline {
        ttg.barrier local
        scf.yield
        } {triton.warp_pipeline.stage = "read"}"""
    body = text(NONE, NONE, (stage, NONE, NONE, NONE)).replace("\n    }\n    \n", "\n    } {triton.warp_pipeline.pipelined_for}\n")
    with pytest.raises(BarrierMisuse, match="a barrier of all waves stands in a stage"):
        ran(body, X, np.zeros_like(X), target="gfx942")


def test_stages_of_other_halves_are_refused():
    body = text(NONE, NONE, (NONE, ) * 4, warps=16).replace("\n    }\n    \n", "\n    } {triton.warp_pipeline.pipelined_for}\n")
    assert "pipelined_for" in body
    with pytest.raises(NotYet, match="stages of halves that are not 4 waves each"):
        ran(body, X, np.zeros_like(X), target="gfx942")


def test_borders_that_are_no_stages_yet_are_refused():
    border = 'rocdl.sched.barrier none {triton.warp_pipeline.border = "read"}'
    with pytest.raises(NotYet, match="in front of the pass that makes stages of them"):
        doubled(NONE, NONE, (border, NONE, NONE, NONE))
