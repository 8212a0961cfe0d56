"""Stages of a loop that two halves of the waves run one apart: values, the code of three chips, and what is refused with its line.

What the halves may do to each other's buffers is in tests/check/test_truth_tables_halves.py.
"""

import re

import numpy as np
import pytest
import triton
import triton.language as tl

import mimw
import mimw.tlx as tlx
from mimw.compiler import guard
from mimw.compiler.pipeline import refusals
from mimw.compiler.triton_port.text import module_of
from mimw.errors import OrderChanged, TargetError
from mimw.runtime.compile_kernel import compile_kernel
from tests.compiling import to_assembly, to_ttgir

CHIPS = {"gfx942": 64, "gfx950": 64, "gfx1250": 32}      # lanes of a wave
ALIGNED = {(index, ): [["tt.divisibility", 16]] for index in range(4)}


@mimw.jit
def gemm(a_ptr, b_ptr, c_ptr, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """C = A B^T of one tile: while one half of the waves multiplies, the other one reads and starts copies."""
    a, b = tlx.local_alloc((BM, BK), tl.float16, 2), tlx.local_alloc((BN, BK), tl.float16, 2)
    m, n, k = tl.arange(0, BM), tl.arange(0, BN), tl.arange(0, BK)
    a_at, b_at = a_ptr + m[:, None] * K + k[None, :], b_ptr + n[:, None] * K + k[None, :]
    tlx.async_load(a_at, a[0])
    tlx.async_load(b_at, b[0])
    tlx.async_load_commit_group()
    tlx.async_load_wait_group(0)
    sums = tl.zeros((BM, BN), tl.float32)
    for i in range(K // BK - 1):
        with tlx.warp_pipeline_stage("read", priority=0):
            x, y = tlx.local_load(a[i % 2]), tlx.local_load(tlx.local_trans(b[i % 2]))
            tlx.async_load(a_at + (i + 1) * BK, a[(i + 1) % 2])
            tlx.async_load(b_at + (i + 1) * BK, b[(i + 1) % 2])
            tlx.async_load_commit_group()
        tlx.async_load_wait_group(0)
        with tlx.warp_pipeline_stage("multiply", priority=1):
            sums = tl.dot(x, y, sums)
    last = K // BK - 1
    sums = tl.dot(tlx.local_load(a[last % 2]), tlx.local_load(tlx.local_trans(b[last % 2])), sums)
    tl.store(c_ptr + m[:, None] * BN + n[None, :], sums)


def compiled(chip, to=to_assembly, kernel=gemm, warps=8, **constants):
    constants = dict(BM=128, BN=128, BK=32) if kernel is gemm else constants
    signature = {"a_ptr": "*fp16", "b_ptr": "*fp16", "c_ptr": "*fp32", "K": "i32"}
    return to(kernel, signature, constants, chip, dict(num_warps=warps), attrs=ALIGNED)


@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize("chunks", [1, 2, 5])
def test_values_are_those_of_the_body_in_order(chip, chunks):
    a, b = (np.random.default_rng(seed).standard_normal((64, 32 * chunks)).astype(np.float16) for seed in (0, 1))
    c = np.zeros((64, 64), np.float32)
    mimw.simulate(gemm, (1, ), a, b, c, 32 * chunks, 64, 64, 32, num_warps=8, target=chip)
    np.testing.assert_allclose(c, a.astype(np.float32) @ b.astype(np.float32).T, rtol=1e-5, atol=1e-4)


def test_check_finds_nothing_wrong():
    a, b, c = np.ones((64, 128), np.float16), np.ones((64, 128), np.float16), np.zeros((64, 64), np.float32)
    assert mimw.check(gemm, (1, ), a, b, c, 128, 64, 64, 32, num_warps=8, target="gfx950", seeds=2, shrink=False).ok


MATRIX = {"gfx942": r"v_mfma_f32_32x32x8_f16", "gfx950": r"v_mfma_f32_32x32x16_f16", "gfx1250": r"v_wmma_f32_16x16x32_f16"}
COPY = {"gfx942": r"global_load_lds_dword ", "gfx950": r"global_load_lds_dwordx4", "gfx1250": r"global_load_async_to_lds_b128"}
MEET = {"gfx942": "s_barrier", "gfx950": "s_barrier", "gfx1250": "s_barrier_wait"}
AWAIT = {"gfx942": r"s_waitcnt vmcnt\(0\)", "gfx950": r"s_waitcnt vmcnt\(0\)", "gfx1250": "s_wait_asynccnt 0x0"}


def steps(chip, assembly) -> str:
    """One letter for each instruction that matters: Copy, Wait, Meeting, Branch of half of the waves, Product, priority 0, 1."""
    kinds = {"P": MATRIX[chip], "C": COPY[chip], "W": AWAIT[chip], "M": MEET[chip] + r"\b", "0": "s_setprio 0", "1": "s_setprio 1",
             "B": "s_cbranch_execz"}
    found = (next((letter for letter, pattern in kinds.items() if re.match(rf"\s+{pattern}", line)), "")
             for line in assembly.splitlines())
    return "".join(found)


@pytest.mark.long(but=["gfx942", "gfx950"], everywhere=True)
@pytest.mark.parametrize("chip", CHIPS)
def test_the_halves_part_meet_between_stages_and_come_together(chip):
    code = compiled(chip, compile_kernel)
    assert code.stage("hsaco") and re.search(r"\.vgpr_spill_count: +0", code.stage("amdgcn"))
    found = steps(chip, code.stage("amdgcn"))
    # all meet, the second half once more; each trip: copies, the wait, a meeting, products of higher priority, a meeting; and the
    # first half once more in the end. LLVM unrolls the loop, with a branch around the odd trip.
    assert re.search(r"WMBM0(C+1WMP+0MB?)+0?BMP+", found), found


@pytest.mark.long(but=["gfx942", "gfx950"], everywhere=True)
@pytest.mark.parametrize("chip", CHIPS)
def test_the_second_half_is_the_waves_from_the_fifth_on(chip):
    assert re.search(rf"icmp (?:samesign )?ult i32 %\S+, {4 * CHIPS[chip]}\b", compiled(chip).stage("llir"))


@pytest.mark.parametrize("chip", CHIPS)
def test_reads_of_two_stages_stay_two(chip):
    text = compiled(chip, to_ttgir, kernel=twice).stage("ttgir")
    body = text[text.index("scf.for"):]
    assert body.count("ttg.local_load") == 2 and body.count("triton.warp_pipeline.stage = ") == 2
    assert "triton.warp_pipeline.priority = 2" in body and '"stage"' in body


@mimw.jit
def twice(a_ptr, b_ptr, c_ptr, K):
    """Two stages read one buffer: nothing is written between, but the other half may."""
    tile, at = tlx.local_alloc((512, ), tl.float16, 1), tl.arange(0, 512)
    tlx.local_store(tile[0], tl.load(a_ptr + at))
    for i in range(K):
        with tlx.warp_pipeline_stage(priority=2):
            tl.store(b_ptr + i * 512 + at, tlx.local_load(tile[0]))
        with tlx.warp_pipeline_stage():
            tl.store(c_ptr + i * 512 + at, tlx.local_load(tile[0]).to(tl.float32))


def test_the_guard_sees_a_read_that_changes_its_stage(monkeypatch, tmp_path):
    """A pass that takes a border past a read is refused, with both lines."""
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    genuine = guard.optimise

    def wrong(module, listed, observer=None):
        listed = list(listed)
        module = genuine(module, listed, observer)
        return _border_ahead_of_the_read(module) if "coalesce" in [name for name, _ in listed] else module

    monkeypatch.setattr(guard, "optimise", wrong)
    with pytest.raises(OrderChanged, match="pass 'coalesce' moved") as caught:
        compiled("gfx950", to_ttgir, kernel=twice)
    assert {site.function for site in caught.value.sites} == {"twice"}


def _border_ahead_of_the_read(module):
    lines = str(module).splitlines()
    border = next(at for at, line in enumerate(lines) if "triton.warp_pipeline.border" in line)
    read = max(at for at, line in enumerate(lines[:border]) if "ttg.local_load" in line)
    return module_of("\n".join([*lines[:read], lines[border], *lines[read:border], *lines[border + 1:]]), module.context)


def refusal(kernel, text, chip="gfx950", warps=8, kind=triton.CompilationError, **constants):
    with pytest.raises(kind, match=text) as caught:
        compiled(chip, to_ttgir, kernel=kernel, warps=warps, **constants)
    return str(caught.value)


@pytest.mark.parametrize("chip", ["sm_80", "sm_90a", "sm_100a"])
def test_other_chips_have_no_stages(chip):
    said = refusal(twice, f"{chip} cannot do 'warp_pipeline_stage'", chip, kind=TargetError)
    assert 'with tlx.warp_pipeline_stage(priority=2):' in said


@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize("warps", [4, 16])
def test_a_launch_of_another_size_is_refused(chip, warps):
    assert "launch with num_warps=8" in refusal(twice, f"launched with num_warps={warps}", chip, warps)


@mimw.jit
def wrong(a_ptr, b_ptr, c_ptr, K, WHAT: tl.constexpr):
    """One mistake a name."""
    at = tl.arange(0, 512)
    tile = tlx.local_alloc((512, ), tl.float16, 1)
    if WHAT == "no loop":
        with tlx.warp_pipeline_stage("one"):
            tl.store(b_ptr + at, tl.load(a_ptr + at))
    for i in range(K):
        with tlx.warp_pipeline_stage("one"):
            values = tl.load(a_ptr + i * 512 + at)
            if WHAT == "a loop":
                for j in range(K):
                    values += tl.load(a_ptr + j * 512 + at)
            if WHAT == "a barrier":
                tl.debug_barrier()
            if WHAT == "a wait":
                tlx.async_load_wait_group(0)
            if WHAT == "a sum":
                values += tl.sum(values.to(tl.float32), 0).to(tl.float16)
        if WHAT == "a store":
            tl.store(b_ptr + i * 512 + at, values)
        with tlx.warp_pipeline_stage("two"):
            tl.store(b_ptr + i * 512 + at, values)
    if WHAT == "a while":
        number = K
        while number > 0:
            with tlx.warp_pipeline_stage("one"):
                tlx.local_store(tile[0], tl.load(a_ptr + number * 512 + at))
            with tlx.warp_pipeline_stage("two"):
                number -= 1


@pytest.mark.parametrize("what, text, line", [
    ("no loop", "stands in no loop", 'with tlx.warp_pipeline_stage("one"):'),
    ("a loop", "a loop stands in a stage", "for j in range(K):"),
    ("a barrier", "is for all waves", "tl.debug_barrier()"),
    ("a wait", "waits in a stage", "tlx.async_load_wait_group(0)"),
    ("a sum", "moves elements between waves through", "values += tl.sum("),
    ("a store", "stands between stages", "tl.store(b_ptr + i * 512 + at, values)"),
    ("a while", "stands in the body of `while`", 'with tlx.warp_pipeline_stage("one"):'),
])
def test_a_mistake_is_refused_at_its_line(what, text, line):
    assert line in refusal(wrong, text, WHAT=what)


def test_without_a_mistake_it_compiles():
    assert "pipelined_for" in compiled("gfx950", to_ttgir, kernel=wrong, WHAT="nothing").stage("ttgir")


def test_what_triton_refuses_has_a_line(monkeypatch, tmp_path):
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))

    def fails(module, backend, options):
        raise RuntimeError("PassManager::run failed")

    monkeypatch.setattr(refusals, "final_ttgir", fails)
    assert "for i in range(K):" in refusal(twice, "Triton makes no pipeline of it")


@mimw.jit
def spins(a_ptr, b_ptr, c_ptr, K, FIRST: tl.constexpr, LAST: tl.constexpr):
    at = tl.arange(0, 512)
    for i in range(K):
        with tlx.warp_pipeline_stage(priority=FIRST):
            values = tl.load(a_ptr + i * 512 + at)
        with tlx.warp_pipeline_stage(priority=LAST):
            tl.store(b_ptr + i * 512 + at, values)
    while tl.atomic_add(c_ptr, 0.0) == 0:
        pass


@pytest.mark.long(but=["0-3-gfx942", "2-2-gfx1250", "3-None-gfx950"], everywhere=True)
@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize("first, last", [(0, 3), (3, None), (2, 2)])
def test_behind_the_loop_all_waves_have_the_same_priority(first, last, chip):
    """So a spin that never sleeps takes no turn from the wave that it waits for (docs/MEMORY_MODEL.md, "What is not modelled")."""
    text = compiled(chip, kernel=spins, FIRST=first, LAST=last).stage("amdgcn")
    found = re.findall(r"^\t(s_setprio \d|global_atomic|global_load|buffer_load)", text, re.MULTILINE)
    before = found[:len(found) - found[::-1].index("global_atomic") - 1]
    assert [one for one in before if one.startswith("s_setprio")][-1] == "s_setprio 0"
    assert f"s_setprio {max(first, last or 0)}" in found


@mimw.jit
def in_a_task(a_ptr, b_ptr, c_ptr, K):
    with tlx.async_tasks():
        with tlx.async_task("default"):
            for i in range(K):
                with tlx.warp_pipeline_stage():
                    tl.store(b_ptr + i, 1.0)
                with tlx.warp_pipeline_stage():
                    tl.store(c_ptr + i, 1.0)
        with tlx.async_task(num_warps=4):
            tl.store(a_ptr, 1.0)


def test_stages_in_a_task_are_refused():
    said = refusal(in_a_task, "warp_pipeline_stage|async_tasks")
    assert "with tlx." in said


@mimw.jit
def outer(a_ptr, b_ptr, c_ptr, K):
    """Stages of an inner loop, which begins and ends again and again; a value is carried, and counted on behind the last stage."""
    at = tl.arange(0, 512)
    for j in range(2):
        number = 0
        total = tl.zeros((512, ), tl.float32)
        for i in range(K):
            step = i * 512 + at
            with tlx.warp_pipeline_stage("read"):
                values = tl.load(a_ptr + step).to(tl.float32)
            half = number // 2
            with tlx.warp_pipeline_stage("add"):
                total += values * half
            number += 1
        tl.store(c_ptr + j * 512 + at, total)


def test_a_loop_in_a_loop():
    a, c = np.arange(8 * 512, dtype=np.float16) % 7, np.zeros((2, 512), np.float32)
    mimw.simulate(outer, (1, ), a, a, c, 8, num_warps=8, target="gfx942")
    assert (c == sum(a.reshape(8, 512)[i].astype(np.float32) * (i // 2) for i in range(8))).all()
    for chip in CHIPS:
        assert compiled(chip, to_ttgir, kernel=outer).stage("ttgir").count("triton.warp_pipeline.stage = ") == 2


@mimw.jit
def known_trips(a_ptr, b_ptr, c_ptr, K, TRIPS: tl.constexpr):
    """What one half stores before the loop the other one reads in it, also if there is one trip."""
    tile, at = tlx.local_alloc((512, ), tl.float16, 1), tl.arange(0, 512)
    tlx.local_store(tile[0], tl.load(a_ptr + at))
    for i in range(TRIPS):
        with tlx.warp_pipeline_stage("read"):
            values = tlx.local_load(tile[0])
        with tlx.warp_pipeline_stage("write"):
            tl.store(c_ptr + i * 512 + at, values.to(tl.float32))


@pytest.mark.parametrize("trips", [0, 1, 2])
def test_a_loop_of_known_trips_stays_a_loop(trips):
    """Triton would make a pipeline of the block around it, with the store in the first stage: no half would wait for it."""
    text = compiled("gfx950", to_ttgir, kernel=known_trips, TRIPS=trips).stage("ttgir")
    before, body = text.split("scf.for")
    assert "ttg.local_store" in before and "warp_pipeline" not in before and body.count("triton.warp_pipeline.stage = ") == 2
    a, c = np.arange(512, dtype=np.float16), np.zeros((2, 512), np.float32)
    mimw.simulate(known_trips, (1, ), a, a, c, 0, trips, num_warps=8, target="gfx950")
    assert (c[:trips] == a).all() and (c[trips:] == 0).all()


@mimw.jit
def optional(a_ptr, b_ptr, c_ptr, K, LABEL: tl.constexpr, PRIORITY: tl.constexpr):
    for i in range(K):
        with tlx.warp_pipeline_stage(LABEL, priority=PRIORITY):
            tl.store(b_ptr + i, 1.0)
        with tlx.warp_pipeline_stage():
            tl.store(c_ptr + i, 1.0)


@pytest.mark.parametrize("label, priority, text", [(3, None, "label must be a string"), ("x", 4, "priority must be 0 to 3"),
                                                   ("x", -1, "priority must be 0 to 3"), ("x", 1.0, "priority must be 0 to 3")])
def test_arguments(label, priority, text):
    refusal(optional, text, LABEL=label, PRIORITY=priority)
    with pytest.raises(ValueError, match=text):
        tlx.warp_pipeline_stage(label, priority=priority)


def test_a_stage_opens_only_in_kernels():
    with pytest.raises(mimw.errors.OutsideKernel, match="warp_pipeline_stage is called outside a kernel"):
        with tlx.warp_pipeline_stage("read", priority=3):
            pass
