"""A few CTAs of a grid: what that finds, what addresses alone find, what it says it does not see, and what it is refused for."""

from dataclasses import replace

import numpy as np
import pytest
import triton.language as tl

import mimw
import mimw.tlx as tlx
from mimw.errors import SimulatorMisuse
from mimw.ir import LaunchFacts
from mimw.runtime.simulate import prepare
from mimw.simulator.machine.clusters import clusters
from mimw.tools.search.sample import Sample, chosen, cluster_at, cluster_count, cluster_of
from mimw.tools.search.stores import meeting_stores
from tests.kernels.small_gemm import gemm_arguments

PROGRAMS = 40


@mimw.jit
def rows(x_ptr, STEP: tl.constexpr, SIZE: tl.constexpr, MASKED: tl.constexpr = False):
    """Each program stores a row."""
    tlx.clock64()
    at = tl.program_id(0) * STEP + tl.arange(0, SIZE)
    if MASKED:
        tl.store(x_ptr + at, 1.0, mask=tl.arange(0, SIZE) < STEP)
    else:
        tl.store(x_ptr + at, 1.0)


@mimw.jit
def one_pair(x_ptr, y_ptr, SIZE: tl.constexpr):
    """Program 17 also stores into the row of 23."""
    tlx.clock64()
    pid, at = tl.program_id(0), tl.arange(0, SIZE)
    tl.store(x_ptr + pid * SIZE + at, 1.0)
    for turn in range(2):
        if pid == 17 and turn == 1:
            tl.store(x_ptr + 23 * SIZE + at, 2.0)


@mimw.jit
def boxes(x_desc, STEP: tl.constexpr):
    """A tile of 16 x 16 a program, by TMA."""
    tile = tlx.local_alloc((16, 16), tl.float32, 1)
    with tlx.async_tasks():
        with tlx.async_task("default"):
            tlx.local_store(tile[0], tl.full((16, 16), 1.0, tl.float32))
            tlx.fence("async_shared")
            tlx.async_descriptor_store(x_desc, tile[0], [tl.program_id(1) * STEP, tl.program_id(0) * 16])
            tlx.async_descriptor_store_wait(0)
        with tlx.async_task(num_warps=1):
            tlx.clock64()


@mimw.jit
def shifted(x_desc, far):
    """A row of tiles, of which the program `far` alone begins in front of the tensor."""
    tlx.clock64()
    x_desc.store([tl.where(tl.program_id(0) == far, -8, tl.program_id(0) * 16), 0], tl.full((16, 16), 1.0, tl.float32))


def test_a_store_that_tma_cannot_make_is_found_in_a_program_that_does_not_run():
    for far, found in ((33, {"IllegalCopy"}), (PROGRAMS, set())):
        x = mimw.TensorDescriptor.from_tensor(np.zeros((16 * PROGRAMS, 16), np.float32), [16, 16])
        report = sampled(shifted, x, far)
        assert {one.kind for one in report.findings} == found, report


@mimw.jit
def drawn(x_ptr, counter, tiles):
    """Which tile it is, a counter says."""
    tlx.clock64()
    tile = tl.atomic_add(counter, 1)
    while tile < tiles:
        tl.store(x_ptr + tile * 16 + tl.arange(0, 16), 1.0)
        tile = tl.atomic_add(counter, 1)


@mimw.jit
def drawn_by_another_task(x_ptr, counter, tiles):
    """The same, and the number goes through shared memory."""
    number = tlx.local_alloc((1, ), tl.int32, 1)
    full = tlx.alloc_barriers(1)
    with tlx.async_tasks():
        with tlx.async_task("default"):
            tlx.barrier_wait(full[0], 0)
            tile = tl.sum(tlx.local_load(number[0]))
            tl.store(x_ptr + tile * 16 + tl.arange(0, 16), 1.0)
        with tlx.async_task(num_warps=1):
            tlx.local_store(number[0], tl.zeros((1, ), tl.int32) + tl.atomic_add(counter, 1))
            tlx.barrier_arrive(full[0])


@mimw.jit
def flagged(x_ptr, flag, VOLATILE: tl.constexpr):
    """Program 0 says when the others may go on."""
    tlx.clock64()
    if tl.program_id(0) == 0:
        tl.atomic_xchg(flag, 1)
    elif VOLATILE:
        while tl.load(flag, volatile=True) == 0:
            pass
    else:
        while tl.atomic_add(flag, 0) == 0:
            pass
    tl.store(x_ptr + tl.program_id(0) * 16 + tl.arange(0, 16), 1.0)


@mimw.jit
def last_of_all(x_ptr, counter):
    """Who comes last sums up."""
    tlx.clock64()
    tl.store(x_ptr + tl.program_id(0) * 16 + tl.arange(0, 16), 1.0)
    if tl.atomic_add(counter, 1) == tl.num_programs(0) - 1:
        tl.store(x_ptr + tl.arange(0, 16), 2.0)


@mimw.jit
def read_back(x_ptr, table):
    """Its row is what the kernel, perhaps another CTA, has written into the table."""
    tlx.clock64()
    pid = tl.program_id(0)
    tl.store(table + pid, pid)
    row = tl.load(table + pid)
    tl.store(x_ptr + row * 16 + tl.arange(0, 16), 1.0)


@mimw.jit
def looked_up(x_ptr, table):
    """Its row stands in a table that nobody writes."""
    tlx.clock64()
    row = tl.load(table + tl.program_id(0))
    tl.store(x_ptr + row * 16 + tl.arange(0, 16), 1.0)


@mimw.jit
def summed(x_ptr, total):
    """All add to one number, at which nobody looks."""
    tlx.clock64()
    tl.atomic_add(total, 1)
    tl.store(x_ptr + tl.program_id(0) * 16 + tl.arange(0, 16), 1.0)


def floats(count=PROGRAMS * 16):
    return np.zeros(count, np.float32)


def sampled(kernel, *args, grid=(PROGRAMS, ), **meta):
    return mimw.check(kernel, grid, *args, ctas="sample", seeds=2, rounds=False, **meta)


# ---- which CTAs -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("grid, shape", [
    ((5, 1, 1), (1, 1, 1)), ((4, 6, 2), (2, 1, 1)), ((4, 6, 2), (2, 3, 2)), ((3, 2, 4), (1, 2, 2))])
def test_clusters_are_counted_in_the_order_of_launch(grid, shape):
    launch = prepare(rows, (1, ), (floats(), ), dict(STEP=16, SIZE=16))
    launch = replace(launch, grid=grid, program=replace(launch.program, launch_facts=LaunchFacts(shape)))
    wanted = [tuple(cluster) for cluster in clusters(grid, shape)]
    assert [cluster_at(launch, number) for number in range(cluster_count(launch))] == wanted
    assert all(cluster_of(launch, index) == cluster for cluster in wanted for index in cluster)


def test_a_sample_has_the_first_the_last_and_another_with_each_seed():
    launch = prepare(rows, (PROGRAMS, ), (floats(), ), dict(STEP=16, SIZE=16))
    some = [Sample()(seed, launch) for seed in range(20)]
    assert all(first == ((0, 0, 0), ) and last == ((PROGRAMS - 1, 0, 0), ) for first, _, last in some)
    assert len({between for _, between, _ in some}) > 10 and some == [Sample()(seed, launch) for seed in range(20)]
    assert Sample()(0, replace(launch, grid=(3, ))) == () != Sample()(0, replace(launch, grid=(4, )))
    assert Sample()(((3, 1), ), launch) == Sample()(0, launch)


def test_only_these_run_in_the_grid_as_it_is():
    seen = floats()
    launch = prepare(rows, (PROGRAMS, ), (seen, ), dict(STEP=16, SIZE=16))
    from mimw.tools.search import Search
    search = Search(launch, ctas=chosen("sample", launch))
    assert search.attempt(1) is None
    ran = [cluster[0][0] for cluster in Sample()(1, launch)]
    assert sorted(np.flatnonzero(seen.reshape(-1, 16).any(1))) == sorted(ran)


# ---- what is found ----------------------------------------------------------------------------------------------------------


def test_a_right_kernel_is_fine_and_the_report_says_what_was_not_seen():
    report = sampled(rows, floats(), STEP=16, SIZE=16)
    assert report.ok and report.runs == 2
    run, stores = report.unseen
    assert run.startswith("3 of 40 clusters a run, 4 in all: what the others do, and what is between CTAs")
    assert stores == "stores of different CTAs: compared by their addresses for all 40 clusters; no two store to one place"
    assert stores in str(report) and report.as_json()["unseen"] == [run, stores]


def test_the_whole_grid_says_nothing_of_that():
    report = mimw.check(rows, (3, ), floats(), ctas="sample", seeds=1, STEP=16, SIZE=16)
    assert report.ok and report.unseen == () and "clusters" not in str(report)


@pytest.mark.parametrize("meta", [dict(STEP=8, SIZE=16), dict(STEP=15, SIZE=16)])
def test_stores_of_neighbours_that_meet_are_found_by_their_addresses(meta):
    """The first, the last and one between never meet; the race is found in a run of the two that do, as in the whole grid."""
    report = sampled(rows, floats(), **meta)
    (finding, ) = report.findings
    (whole, ) = mimw.check(rows, (PROGRAMS, ), floats(), seeds=1, shrink=False, **meta).findings
    assert finding.kind == whole.kind == "DataRace" and finding.sites == whole.sites and finding.ctas == ((0, 0, 0), (1, 0, 0))
    (again, ) = mimw.check(rows, (PROGRAMS, ), floats(), seeds=[finding.seed], ctas=finding.ctas, **meta).findings
    assert again.message == finding.message
    assert "Shown by mimw.check with grid=(40,), seeds=[0], ctas=[(0, 0, 0), (1, 0, 0)]." in str(finding)


def test_masks_count():
    assert sampled(rows, floats(), STEP=8, SIZE=16, MASKED=True).ok


def test_a_single_pair_in_a_loop_under_a_condition():
    (finding, ) = sampled(one_pair, floats(), floats(), SIZE=16).findings
    assert finding.kind == "DataRace" and finding.ctas == ((17, 0, 0), (23, 0, 0))


def test_a_store_outside_of_its_array_in_a_cta_that_does_not_run():
    """The last program is in every sample, so it is one before it whose row is outside: the array ends in the middle."""
    x = floats(PROGRAMS * 16)[:20 * 16]
    findings = sampled(rows, x, STEP=16, SIZE=16).findings
    assert [finding.kind for finding in findings] == ["OutOfBounds"]


@pytest.mark.parametrize("step, found", [(16, []), (12, ["DataRace"])])
def test_boxes_of_tma(step, found):
    x = mimw.TensorDescriptor.from_tensor(np.zeros((16 * 40, 16 * 5), np.float32), [16, 16])
    report = sampled(boxes, x, grid=(5, 40), STEP=step)
    assert [finding.kind for finding in report.findings] == found
    assert not found or report.findings[0].ctas == ((0, 0, 0), (0, 1, 0))


def test_the_library_gemm():
    grid, args, meta = gemm_arguments(m=512, n=512, k=128, programs=8)
    report = mimw.check(gemm_kernel(), grid, *args, ctas="sample", seeds=2, rounds=False, **meta)
    assert report.ok and report.unseen[1].endswith("for all 8 clusters; no two store to one place")


def gemm_kernel():
    from mimw.kernels import gemm
    return gemm.kernel


# ---- what cannot be sampled -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kernel, args, meta, text", [
    (drawn, (np.zeros(1, np.int32), PROGRAMS), {}, "atomic_rmw at .* reads, and it decides the loop"),
    (drawn_by_another_task, (np.zeros(1, np.int32), PROGRAMS), {}, "atomic_rmw at .* reads, and it decides the store"),
    (flagged, (np.zeros(1, np.int32), ), dict(VOLATILE=False), "atomic_rmw at .* reads, and it decides the loop"),
    (flagged, (np.zeros(1, np.int32), ), dict(VOLATILE=True), "the load at .* reads, and it decides the loop"),
    (last_of_all, (np.zeros(1, np.int32), ), {}, "atomic_rmw at .* reads, and it decides the branch"),
    (read_back, (np.zeros(PROGRAMS, np.int32), ), {}, "the load at .* reads, and it decides the store")])
def test_ctas_that_have_to_do_with_each_other_are_refused(kernel, args, meta, text):
    with pytest.raises(SimulatorMisuse, match=f"cannot be checked by a sample of its CTAs.*{text}") as refused:
        sampled(kernel, floats(), *args, **meta)
    assert "ctas='all'" in refused.value.hint and len(refused.value.sites) == 2
    with pytest.raises(SimulatorMisuse):
        mimw.check(kernel, (PROGRAMS, ), floats(), *args, ctas=[0, 1], **meta)


def test_a_cooperative_grid_is_refused():
    with pytest.raises(SimulatorMisuse, match="CTAs outside of its cluster are waited for|may wait for each other"):
        from benchmarks.mutation_kernels import CASES
        kernel, grid, args, meta = next(case for case in CASES if case.name == "MoE align, many tiles").make()
        mimw.check(kernel, grid, *args, ctas="sample", **meta)


@pytest.mark.parametrize("kernel, arg", [(summed, np.zeros(1, np.int32)), (looked_up, np.arange(PROGRAMS, dtype=np.int32))])
def test_ctas_that_only_add_up_or_look_up_are_not(kernel, arg):
    assert sampled(kernel, floats(), arg).ok


def test_stores_where_a_table_says_are_compared():
    report = sampled(looked_up, floats(), np.zeros(PROGRAMS, np.int32))
    assert "for all 40 clusters; some meet" in report.unseen[1] and report.findings[0].kind == "DataRace"
    assert "for all 40 clusters; no two" in sampled(looked_up, floats(), np.arange(PROGRAMS, dtype=np.int32)).unseen[1]


def test_a_table_that_is_the_result_under_another_name_is_written():
    """Arrays are compared by where they lie."""
    memory = np.arange(PROGRAMS * 16, dtype=np.float32)
    with pytest.raises(SimulatorMisuse, match="the load at"):
        sampled(looked_up, memory, memory.view(np.int32)[:PROGRAMS])


def test_what_ctas_may_be():
    for wrong in ("some", [], [(0, 0, 0, 0)]):
        with pytest.raises(SimulatorMisuse, match="it may be 'all', 'sample', or program ids"):
            mimw.check(rows, (8, ), floats(), ctas=wrong, STEP=16, SIZE=16)
    with pytest.raises(SimulatorMisuse, match=r"no CTA \(8, 0, 0\) in the grid \(8,\)"):
        mimw.check(rows, (8, ), floats(), ctas=[8], STEP=16, SIZE=16)


def test_a_plan_that_finds_nothing_to_compare():
    launch = prepare(summed, (PROGRAMS, ), (floats(), np.zeros(1, np.int32)), {})
    assert meeting_stores(launch).suspects == []


def test_the_command(tmp_path, capsys):
    from mimw.cli import main
    (tmp_path / "rows.py").write_text('''
import numpy as np, mimw, mimw.tlx as tlx, triton.language as tl

@mimw.jit
def rows(x_ptr, STEP: tl.constexpr):
    tlx.clock64()
    tl.store(x_ptr + tl.program_id(0) * STEP + tl.arange(0, 16), 1.0)
''')
    words = ["check", f"{tmp_path}/rows.py:rows", "--grid", "40", "--args", "fp32[640]"]
    assert main([*words, "STEP=16", "--ctas", "sample"]) == 0
    assert "no two store to one place" in capsys.readouterr().out
    assert main([*words, "STEP=8", "--ctas", "0;39"]) == 1       # by addresses, whichever run
    assert main([*words, "STEP=8", "--ctas", "sample"]) == 1
    assert "ctas=[(0, 0, 0), (1, 0, 0)]" in capsys.readouterr().out
    assert main([*words, "STEP=8", "--ctas", "41"]) == 2
    with pytest.raises(SystemExit):
        main([*words, "STEP=8", "--ctas", "some"])
