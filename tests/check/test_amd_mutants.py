"""The mistakes that AMD's chips leave open, each as a small kernel with the mistake and without: who finds it, and where.

`mimw.check` finds those that an author can write. What our compiler places itself (barriers between the waves of one task, zeros
in counters, the half of the waves that waits first) has no source form: there the machine code is looked at. What a chip cannot
copy past the registers goes through them, with the same values.
"""

import re

import numpy as np
import pytest
import triton.language as tl

import mimw
import mimw.tlx as tlx
from mimw.compiler.triton_port.gfx9_tasks import for_gfx9
from tests.compiling import to_assembly
from tests.kernels import waves
from tests.kernels.direct_copies import ANY_DIRECT, ROWS_REORDERED, copied, padded
from tests.kernels.lines import line_of
from tests.triton_port.test_amd_stage import TASKS

from . import test_truth_tables_halves as halves

CDNA, AMD = ("gfx942", "gfx950"), ("gfx942", "gfx950", "gfx1250")
DIVISIBLE = [["tt.divisibility", 16]]
MEETS = {"gfx942": r"s_barrier$", "gfx950": r"s_barrier$", "gfx1250": r"s_barrier_wait "}


def verdict(kernel, target, *args, **options):
    return mimw.check(kernel, (1, ), *args, target=target, **options)


def finds(report, kind: str, *lines: int) -> bool:
    """True if a finding of that class names all these lines."""
    return any(one.kind == kind and {*lines} <= {site.line for site in one.sites} for one in report.findings)


def instructions(kernel, signature, constants, target, known=None, warps=4) -> list[str]:
    """The instructions of a kernel in order, of which the first `known` arguments are multiples of 16."""
    known = len(signature) if known is None else known
    text = to_assembly(kernel, signature, constants, target, {"num_warps": warps},
                       attrs={(at, ): DIVISIBLE for at in range(known)}).stage("amdgcn")
    lines = [line.split(";")[0].strip() for line in text.splitlines()]
    return [line for line in lines if re.match(r"[a-z]\w+(\s|$)", line)]


def places(pattern: str, lines: list[str]) -> list[int]:
    return [at for at, line in enumerate(lines) if re.match(pattern, line)]


# ---- a wait for one group too few: vmcnt one too high ----------------------------------------------------------------

@mimw.jit
def ahead(x, y, steps, PENDING: tl.constexpr):
    """Two copies are under way while the third, the oldest one, is read; three slots."""
    tiles, at = tlx.local_alloc((256, ), tl.float32, 3), tl.arange(0, 256)
    for step in tl.static_range(2):
        tlx.async_load(x + step * 256 + at, tiles[step])
        tlx.async_load_commit_group()
    for step in range(steps):
        tlx.async_load_wait_group(PENDING)
        tl.store(y + step * 256 + at, tlx.local_load(tiles[step % 3]))
        tlx.async_load(x + (step + 2) * 256 + at, tiles[(step + 2) % 3])
        tlx.async_load_commit_group()
    tlx.async_load_wait_group(0)


@pytest.mark.parametrize("target", AMD)
def test_a_wait_for_one_group_too_few(target):
    x, y = np.ones(7 * 256, np.float32), np.zeros(5 * 256, np.float32)
    assert verdict(ahead, target, x, y, 5, 1).ok
    wrong = verdict(ahead, target, x, y, 5, 2)
    assert finds(wrong, "CopyReadEarly", line_of(ahead, "local_load(tiles"))


@pytest.mark.parametrize("target, count", [("gfx942", r"s_waitcnt vmcnt\((\d+)\)"), ("gfx950", r"s_waitcnt vmcnt\((\d+)\)"),
                                           ("gfx1250", r"s_wait_asynccnt (0x\d+)")])
def test_the_count_of_the_instruction_is_higher_then(target, count):
    """The mutant is what its name says: the wait in the loop lets one instruction more be under way."""
    counts = []
    for pending in (1, 2):
        lines = instructions(ahead, {"x": "*fp32", "y": "*fp32", "steps": "i32"}, {"PENDING": pending}, target)
        counts.append([int(re.match(count, lines[at])[1], 0) for at in places(count, lines)])
    assert max(counts[1]) > max(counts[0]), counts


# ---- a barrier left out on either side of a refill -------------------------------------------------------------------

@mimw.jit
def refilled(x, y, steps, FULL: tl.constexpr, FREE: tl.constexpr, EARLY: tl.constexpr):
    """One slot between a task that copies and one that reads. FULL and FREE: the barrier of that name is used; EARLY: its arrival
    stands before the wait for the copy."""
    tile, full, free = tlx.local_alloc((256, ), tl.float32, 1), tlx.alloc_barriers(1), tlx.alloc_barriers(1)
    with tlx.async_tasks():
        with tlx.async_task("default"):
            at = tl.arange(0, 256)
            for step in range(steps):
                if FULL:
                    tlx.barrier_wait(full[0], step & 1)
                row = tlx.local_load(tile[0])
                if FREE:
                    tlx.barrier_arrive(free[0])
                tl.store(y + step * 256 + at, row)
        with tlx.async_task(num_warps=4):
            at = tl.arange(0, 256)
            for step in range(steps):
                if FREE:
                    tlx.barrier_wait(free[0], step & 1 ^ 1)
                tlx.async_load(x + step * 256 + at, tile[0])
                tlx.async_load_commit_group()
                if EARLY:
                    tlx.barrier_arrive(full[0])
                tlx.async_load_wait_group(0)
                if FULL and not EARLY:
                    tlx.barrier_arrive(full[0])


def slot(target, full=True, free=True, early=False):
    x, y = np.ones(4 * 256, np.float32), np.zeros(4 * 256, np.float32)
    return verdict(refilled, target, x, y, 4, full, free, early)


@pytest.mark.parametrize("target", AMD)
def test_a_barrier_left_out_between_tasks(target):
    """Without `free` a slot is filled that is still read; without either one is read that is still filled. Without `full` alone the
    reader is ahead first, and gives back slots of copies that have not begun."""
    read, copy = line_of(refilled, "local_load(tile[0])"), line_of(refilled, "async_load(x")
    assert slot(target).ok
    assert finds(slot(target, free=False), "SlotReusedEarly", read, copy)
    assert finds(slot(target, full=False, free=False), "CopyReadEarly", read, copy)
    assert finds(slot(target, full=False), "PhaseMissed", line_of(refilled, "barrier_arrive(free[0])"),
                 line_of(refilled, "barrier_wait(free[0]"))


@mimw.jit
def alone(x, y, steps):
    """One task of four waves fills one slot again and again, and reads it: its waves meet where the compiler lets them."""
    tile, at = tlx.local_alloc((1024, ), tl.float32, 1), tl.arange(0, 1024)
    for step in range(steps):
        tlx.async_load(x + step * 1024 + at, tile[0])
        tlx.async_load_commit_group()
        tlx.async_load_wait_group(0)
        tl.store(y + step * 1024 + at, tlx.local_load(tile[0]))


@pytest.mark.parametrize("target", AMD)
def test_waves_of_one_task_meet_on_both_sides_of_a_refill(target):
    """No author leaves these barriers out, since the compiler places them: before each copy, and between its wait and the read."""
    steps = {"C": "global_load_(async_to_)?lds", "W": r"s_waitcnt vmcnt\(0\)|s_wait_asynccnt 0x0", "M": MEETS[target],
             "R": "ds_(read|load)"}
    lines = instructions(alone, {"x": "*fp32", "y": "*fp32", "steps": "i32"}, {}, target)
    found = "".join(next((one for one, pattern in steps.items() if re.match(pattern, line)), "") for line in lines)
    assert re.fullmatch("(MC+WMR+)+", found), found


# ---- the wrong half of the waves -------------------------------------------------------------------------------------

@pytest.mark.long(but=["0-False-gfx942", "1-True-gfx950", "2-True-gfx1250", "3-False-gfx942"], everywhere=True)
@pytest.mark.parametrize("target", AMD)
@pytest.mark.parametrize("behind, ok", [(0, False), (1, True), (2, True), (3, False)])
def test_a_wait_that_the_other_half_comes_to_too_late(target, behind, ok):
    """Which half `cond_barrier` holds has no source form: Triton's conversion places both (the number of its waves is held by
    tests/words/test_warp_stages.py). An author can be one stage wrong by where the wait for a copy stands, or the read."""
    x, y = np.arange(5 * 512, dtype=np.float32), np.zeros(4 * 512, np.float32)
    report = verdict(halves.ring, target, x, y, 4, behind, True, num_warps=8)
    assert report.ok == ok
    if not ok:
        assert finds(report, "CopyReadEarly", line_of(halves.ring, "local_load(tiles"), line_of(halves.ring, "+ at, tiles[(i + 1)"))


# ---- phases and arrivals ---------------------------------------------------------------------------------------------

def turned(target, flip=0, early=0):
    x = np.ones((5, 256), np.float32)
    return verdict(waves.ring, target, x, np.zeros_like(x), 5, 256, 2, 4, flip, early)


@pytest.mark.parametrize("target", AMD)
def test_a_phase_flipped(target):
    assert turned(target).ok
    assert finds(turned(target, flip=1), "PhaseOffByOne", line_of(waves.ring, "1 ^ 1 ^ FLIP"))


@pytest.mark.parametrize("target", AMD)
def test_an_arrival_before_the_wait(target):
    """The reader gives a slot back before it was filled; the copier tells of a copy that it has not waited for."""
    given_back = line_of(waves.ring, "if EARLY:") + 1
    assert finds(turned(target, early=1), "PhaseMissed", given_back, line_of(waves.ring, "barrier_wait(free[slot]"))
    assert finds(slot(target, early=True), "CopyReadEarly", line_of(refilled, "local_load(tile[0])"),
                 line_of(refilled, "async_load(x"))


# ---- a counter of a task that is not zeroed --------------------------------------------------------------------------

@pytest.mark.parametrize("target", CDNA)
def test_counters_of_tasks_are_zero_before_any_wave_counts(target):
    """All waves store zeros over both counters and meet, before anything else touches LDS."""
    lines = instructions(waves.ring, {"x": "*fp32", "y": "*fp32", "rows": "i32"},
                         {"N": 512, "STAGES": 2, "WARPS": 4, "FLIP": 0, "EARLY": 0}, target)
    (zeroed, used), met = places("ds_", lines)[:2], places("s_barrier$", lines)[0]
    address, first, last = re.fullmatch(r"ds_write_b64 v(\d+), v\[(\d+):(\d+)\]", lines[zeroed]).groups()
    moved = dict(re.fullmatch(r"v_mov_b32_e32 (v\d+), (\w+)", lines[at]).groups() for at in places("v_mov_b32", lines[:zeroed]))
    zeros = [moved.get(moved[f"v{one}"], moved[f"v{one}"]) for one in (address, first, last)]
    assert zeros == ["0", "0", "0"] and zeroed < met < used     # at the address 0, where the counters lie


def test_counters_without_a_place_for_their_zeros_are_refused():
    """The rewriting of tasks for gfx9 puts the zeros in by itself, at the start of the kernel: without one it makes nothing."""
    with pytest.raises(RuntimeError, match="expected one kernel in the LLVM IR, found 0"):
        for_gfx9(TASKS.replace("amdgpu_kernel", "amdgpu_cs"))


# ---- a mask that cuts a piece ----------------------------------------------------------------------------------------

HALVES_OF_A_TILE = {"x": "*fp16", "y": "*fp16", "stride": "i32", "n": "i32"}


def copying(target, base, layout=None, mask=None, known=4) -> list[str]:
    return instructions(copied, HALVES_OF_A_TILE, {"BASE": base, "LAYOUT": layout, "MASK": mask, "OTHER": None}, target, known)


def copied_values(target, base, layout=None, mask=None, n=64):
    x, y = np.arange(64 * 64).reshape(64, 64).astype(np.float16), np.full((64, 64), 7, np.float16)
    mimw.simulate(copied, (1, ), x, y, 64, n, base, layout, mask, None, target=target)
    return x, y


@pytest.mark.long(but=["False-gfx1250", "True-gfx950", "False-gfx942"], everywhere=True)
@pytest.mark.parametrize("target", AMD)
@pytest.mark.parametrize("base", [True, False])
def test_a_mask_that_is_not_constant_over_a_piece(target, base):
    """Where n may lie within a piece the copy goes through registers; the values are right wherever it lies."""
    assert places(ANY_DIRECT, copying(target, base, mask="cols"))
    through = copying(target, base, mask="cols", known=3)
    assert not places(ANY_DIRECT, through) and places("ds_(write|store)", through)
    for n in (0, 37, 48, 64):
        x, y = copied_values(target, base, mask="cols", n=n)
        assert (y == np.where(np.arange(64) < n, x, 0)).all(), n


# ---- an offset past 2 GiB --------------------------------------------------------------------------------------------

@mimw.jit
def far(x, y, start):
    tlx.buffer_store(tlx.buffer_load(x, tl.arange(0, 64) + start), y, tl.arange(0, 64))


@mimw.jit
def far_to_local(x, y, start):
    tile = tlx.local_alloc((64, ), tl.float32, 1)
    tlx.buffer_load_to_local(tile[0], x, tl.arange(0, 64) + start)
    tlx.async_load_commit_group()
    tlx.async_load_wait_group(0)
    tl.store(y + tl.arange(0, 64), tlx.local_load(tile[0]))


@pytest.mark.parametrize("target", AMD)
@pytest.mark.parametrize("kernel", [far, far_to_local], ids=["far", "far_to_local"])
def test_an_offset_past_2_gib(target, kernel):
    x, y = np.ones(64, np.float32), np.zeros(64, np.float32)
    assert verdict(kernel, target, x, y, 0).ok
    report = verdict(kernel, target, x, y, 2**29 - 32, shrink=False)    # a smaller start is past the array, too
    assert finds(report, "OutOfBounds", line_of(kernel, "+ start)"))
    assert re.search(r"reaches from 0 to 2.31 - 2", report.findings[0].message)


# ---- padding ---------------------------------------------------------------------------------------------------------

@pytest.mark.long(but=["reordered-gfx942", "plain-gfx1250", "within a wave-gfx950"], everywhere=True)
@pytest.mark.parametrize("target", AMD)
@pytest.mark.parametrize("layout, direct", [
    (padded(512), True), (padded(512, ROWS_REORDERED), True), (padded(64), False)], ids=["plain", "reordered", "within a wave"])
def test_padding_that_a_copy_follows_or_not(target, layout, direct):
    """Padding within the range that a wave of gfx9 writes goes through registers; a lane of gfx1250 has an address of its own.
    With the linear part that reorders rows the copy's registers follow it."""
    found = copying(target, True, layout)
    assert bool(places(ANY_DIRECT, found)) == (direct or target == "gfx1250")
    assert bool(places("ds_(write|store)", found)) != (direct or target == "gfx1250")
    x, y = copied_values(target, True, layout)
    assert (y == x).all()


def test_padding_without_its_linear_part_is_refused():
    with pytest.raises(ValueError, match=r"offset_bases that reach each element of \(64, 64\) once"):
        tlx.padded_shared_layout_encoding([[512, 16]], [], [], [64, 64])
