"""The mistakes that AMD's chips leave open, each as a small kernel with the mistake and without: who finds it, and where.

`mimw.check` finds those that an author can write. What our compiler places itself (barriers between waves of one task, zeros in
counters, the half that waits first) has no source form: there the machine code is looked at. What a chip cannot copy past the
registers goes through them, with the same values.
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
from tests.kernels.lines import line_of
from tests.lowering.test_direct_copies import ANY_DIRECT, ROWS_REORDERED, copied, padded
from tests.words.test_warp_stages import gemm as staged_gemm

CDNA, AMD = ("gfx942", "gfx950"), ("gfx942", "gfx950", "gfx1250")
DIVISIBLE = [["tt.divisibility", 16]]
MEETS = {"gfx942": r"s_barrier$", "gfx950": r"s_barrier$", "gfx1250": r"s_barrier_wait "}


def verdict(kernel, target, *args, **options):
    return mimw.check(kernel, (1, ), *args, target=target, seeds=3, shrink=False, **options)


def finds(report, kind: str, *lines: int) -> bool:
    """Whether a finding of that class names all these lines."""
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
    """A group is one instruction of a lane on gfx9, half the waves of which have nothing to copy at 16 bytes a lane."""
    counts = []
    for pending in (1, 2):
        lines = instructions(ahead, {"x": "*fp32", "y": "*fp32", "steps": "i32"}, {"PENDING": pending}, target)
        counts.append([int(re.match(count, lines[at])[1], 0) for at in places(count, lines)])
    assert max(counts[1]) > max(counts[0]), counts


# ---- a barrier left out on either side of a refill -------------------------------------------------------------------

@mimw.jit
def refilled(x, y, steps, FULL: tl.constexpr, FREE: tl.constexpr, EARLY: tl.constexpr):
    """One slot between a task that copies and one that reads; FULL and FREE are its barriers, EARLY arrives before the copy's wait."""
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
    read, copy = line_of(refilled, "local_load(tile[0])"), line_of(refilled, "async_load(x")
    assert slot(target).ok
    for left_out in (dict(full=False), dict(free=False)):
        report = slot(target, **left_out)
        print(target, left_out, [(one.kind, [site.line for site in one.sites]) for one in report.findings], read, copy)


@pytest.mark.parametrize("target", AMD)
def test_an_arrival_before_the_wait_for_the_copy(target):
    report = slot(target, early=True)
    print(target, [(one.kind, [site.line for site in one.sites]) for one in report.findings])
