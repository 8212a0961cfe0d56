"""Which programs of a smaller launch run: of those that do the same the first and the last, all where more may differ."""

import numpy as np
import pytest
import triton.language as tl

import mimw
import mimw.tlx as tlx
from tests.kernels.small_gemm import gemm_arguments

PROGRAMS = 6


@mimw.jit
def shared_out(x_desc, rows, tiles, steps, BY: tl.constexpr, FORGOTTEN: tl.constexpr = -1):
    """Programs share out tiles of `steps` blocks. One of `FORGOTTEN` blocks is left without its last wait: by every program, or,
    by BY, by number 2 alone, or by the program that reads a 2 in `rows`."""
    ring = tlx.local_alloc((16, 32), tl.float16, 2)
    full, free = tlx.alloc_barriers(2), tlx.alloc_barriers(2)
    me = tl.program_id(0)
    if BY == "data":
        me = tl.load(rows + me)
    with tlx.async_tasks():
        with tlx.async_task("default"):
            count = 0
            for tile in range(tl.program_id(0), tiles, tl.num_programs(0)):
                for step in range(steps):
                    if BY == "all":
                        skipped = steps == FORGOTTEN and step == steps - 1
                    else:
                        skipped = steps == FORGOTTEN and step == steps - 1 and me == 2
                    if not skipped:
                        tlx.barrier_wait(full[count % 2], count // 2 & 1)
                        tlx.local_load(ring[count % 2])
                    tlx.barrier_arrive(free[count % 2])
                    count += 1
        with tlx.async_task(num_warps=1):
            count = 0
            for tile in range(tl.program_id(0), tiles, tl.num_programs(0)):
                for step in range(steps):
                    tlx.barrier_wait(free[count % 2], count // 2 & 1 ^ 1)
                    tlx.barrier_expect_bytes(full[count % 2], 1024)
                    tlx.async_descriptor_load(x_desc, ring[count % 2], [tile * 16, step * 32], full[count % 2])
                    count += 1


def checked(by="all", forgotten=-1, tiles=PROGRAMS, **options):
    x, rows = np.ones((16 * tiles, 32 * 5), np.float16), np.arange(PROGRAMS, dtype=np.int32)
    described = mimw.TensorDescriptor.from_tensor(x, [16, 32])
    return mimw.check(shared_out, PROGRAMS, described, rows, tiles, 5, by, forgotten, seeds=1, **options)


def test_the_first_and_the_last_stand_for_programs_that_do_the_same():
    report = checked()
    assert report.ok and len(report.tried) > 4 and "the first and the last stand for all" in str(report)
    ends = {one.what: one.ctas for one in report.tried}
    assert ends["2 tiles a program, grid=(5,), steps=1"] == ((0, 0, 0), (1, 0, 0), (4, 0, 0))       # one of them has two
    assert all(ctas == ((0, 0, 0), (PROGRAMS - 1, 0, 0)) for what, ctas in ends.items() if "grid" not in what)
    assert report.as_json()["tried"][0]["ctas"] == [[0, 0, 0], [PROGRAMS - 1, 0, 0]]


def test_of_each_number_of_tiles():
    """Four programs have two tiles, two have one: of each kind two run."""
    report = checked(tiles=10)
    assert report.ok and {one.ctas for one in report.tried} == {((0, 0, 0), (3, 0, 0), (4, 0, 0), (5, 0, 0))}


@pytest.mark.parametrize("by", ["number", "data"])
def test_all_where_the_number_or_memory_decides_more(by):
    report = checked(by)
    assert report.ok and len(report.tried) > 4 and not any(one.ctas for one in report.tried)
    assert "stand for" not in str(report)
    found = checked(by, forgotten=3)
    assert not found.ok and "3 rounds (steps=3)" in {one.what for one in found.tried if one.outcome == "found"}


def test_what_they_find_is_told_of_the_whole_grid():
    report = checked(forgotten=3)
    tried = next(one for one in report.tried if one.outcome == "found")
    assert tried.what == "3 rounds (steps=3)" and len(tried.ctas) == 2
    assert report.findings and all(not finding.ctas and finding.sizes["steps"] == 3 for finding in report.findings)


def test_a_sample_runs_as_it_did():
    report = checked(ctas="sample")
    assert report.ok and report.tried and not any(one.ctas for one in report.tried)


def test_the_persistent_gemm():
    from mimw.kernels import gemm
    grid, args, meta = gemm_arguments(m=512, n=256, k=192, programs=4, bm=128, bn=128, stages=2)
    report = mimw.check(gemm.kernel, grid, *args, seeds=1, **meta)
    assert report.ok and report.tried[0].ctas == ((0, 0, 0), (3, 0, 0))
