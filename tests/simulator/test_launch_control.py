"""Cluster launch control on the simulator: every tile runs once, whoever runs it, whenever it is asked for."""

import numpy as np
import pytest
import triton.language as tl

import mimw
import mimw.tlx as tlx
from mimw import errors
from mimw.compiler.analysis.needed import needed
from mimw.errors import CopyReadEarly, UnwrittenRead
from mimw.runtime.simulate import prepare
from mimw.simulator.machine.launches import Waiting, asks, crowd
from mimw.simulator.machine.machine import Machine
from mimw.simulator.memory.arguments import bind
from mimw.simulator.memory.global_memory import GlobalMemory
from mimw.tools.search.sample import chosen

CHIP = dict(target="sm_100a")


@mimw.jit
def counting(runs_ptr, owners_ptr, CONSUMERS: tl.constexpr, STAGES: tl.constexpr, DEEP: tl.constexpr = False):
    """Counts how often each tile runs, and which CTA ran it: the default task works, the other one asks."""
    context = tlx.clc_create_context(CONSUMERS, STAGES)
    own = tl.program_id(0) + tl.num_programs(0) * tl.program_id(1)
    with tlx.async_tasks():
        with tlx.async_task("default"):
            tile, turn = own, 0
            while tile != -1:
                tl.atomic_add(runs_ptr + tile, 1)
                tl.store(owners_ptr + tile, own)
                if DEEP:
                    x, y, z = tlx.clc_consumer(context, (turn // STAGES) & 1, k=turn % STAGES, return_3d=True)
                    tile = tl.where(x != -1, x + tl.num_programs(0) * y, -1)
                else:
                    tile = tlx.clc_consumer(context, (turn // STAGES) & 1, k=turn % STAGES)
                turn += 1
        with tlx.async_task(num_warps=1):
            tile, turn = own, 0
            while tile != -1:
                tlx.clc_producer(context, (turn // STAGES) & 1 ^ 1, k=turn % STAGES)
                tile = tlx.clc_consumer(context, (turn // STAGES) & 1, k=turn % STAGES)
                turn += 1


def run(grid, seed, resident=None, stages=1, cluster=None, deep=False, races=True):
    """(how often each tile ran, the CTA that ran it), with so many CTAs resident at once."""
    tiles = int(np.prod(grid))
    runs, owners = np.zeros(tiles, np.int32), np.full(tiles, -1, np.int32)
    size = int(np.prod(cluster or 1))
    meta = dict(CONSUMERS=2 * size, STAGES=stages, DEEP=deep) | (dict(ctas_per_cga=cluster) if cluster else {})
    launch = prepare(counting, grid, (runs, owners), meta, "sm_100a")
    memory = GlobalMemory()
    arguments = bind(launch.program, launch.values, memory)
    machine = Machine(launch.program, (*launch.grid, 1, 1)[:3], arguments, memory, seed=seed, trace=False, check_unwritten=True,
                      races=races, resident=resident)
    machine.run()
    machine.close()
    return runs, owners


@pytest.mark.parametrize("resident", [1, 2, 3, 5, 9, 200])
@pytest.mark.parametrize("stages", [1, 2, 3])
def test_every_tile_runs_once(resident, stages):
    for seed in range(10):
        runs, owners = run((9, ), seed, resident, stages)
        assert (runs == 1).all() and (owners >= 0).all()
        if resident >= 9:
            assert (owners == np.arange(9)).all()       # nobody waits, so nobody's work can be taken


@pytest.mark.parametrize("resident", [4, 8, 200])
@pytest.mark.parametrize("cluster", [(2, 1, 1), (4, 1, 1)])
def test_a_cluster_takes_whole_clusters(resident, cluster):
    size, tiles = cluster[0], np.arange(16)
    for seed in range(10):
        runs, owners = run((16, ), seed, resident, 2, cluster)
        assert (runs == 1).all()
        assert (owners % size == tiles % size).all()        # the CTA with rank r runs the tiles of rank r
        assert (owners // size == np.repeat(owners[::size] // size, size)).all()


@pytest.mark.parametrize("grid, cluster", [((4, 3), None), ((4, 4), (2, 2, 1)), ((4, 4), (1, 2, 1))])
@pytest.mark.parametrize("resident", [4, 8, 200])
def test_grids_of_two_dimensions(grid, cluster, resident):
    for seed in range(10):
        runs, _ = run(grid, seed, resident, 2, cluster, deep=True)
        assert (runs == 1).all()


def test_the_seed_decides_who_gets_a_tile():
    found = {tuple(run((9, ), seed, 3)[1]) for seed in range(20)}
    assert len(found) > 5
    assert tuple(run((9, ), 7, 3)[1]) == tuple(run((9, ), 7, 3)[1])


def test_how_many_are_resident_follows_from_the_seed():
    """Few at a time, so that there is something to take; kernels that do not ask have all SMs."""
    program = prepare(counting, (9, ), (np.zeros(9, np.int32), np.zeros(9, np.int32), 2, 1), {}, "sm_100a").program
    assert asks(program) and {crowd(program, 9, seed) for seed in range(20)} == {1, 2, 3, 9} and crowd(program, 9, None) == 2
    waiting = Waiting(iter([[(0, 0, 0)]]))
    assert (waiting.next(), waiting.next()) == ([(0, 0, 0)], [])


def test_a_request_may_be_refused_though_tiles_are_left():
    """Then the CTA ends, and admission starts the next: with one resident, somebody else than CTA 0 runs a tile in some run."""
    assert any(set(run((9, ), seed, 1)[1]) != {0} for seed in range(60))
    assert set(run((9, ), 0, 1)[1]) == {0}


@mimw.jit
def hasty(out_ptr, WAIT: tl.constexpr, ASK: tl.constexpr):
    answer, full = tlx._alloc_clc_responses(2), tlx.alloc_barriers(1)
    if ASK:
        tlx.barrier_expect_bytes(full[0], 16)
        tlx._clc_issue(answer[1], full)
    if WAIT:
        tlx.barrier_wait(full[0], 0)
    x, y, z = tlx._clc_query(answer[1])
    tl.store(out_ptr, x)
    tl.store(out_ptr + 1, y)
    tl.store(out_ptr + 2, z)


@pytest.mark.parametrize("wait, ask, kind", [(False, True, CopyReadEarly), (False, False, UnwrittenRead)])
def test_an_answer_that_is_not_there(wait, ask, kind):
    why = "before the cluster launch request" if ask else "which nobody has written"
    with pytest.raises(kind, match=rf"clc_query reads 'answer'\[1\], element \(0,\), {why}"):
        mimw.simulate(hasty, (1, ), np.zeros(3, np.int32), wait, ask, **CHIP)


def test_a_refusal_is_three_times_minus_one():
    out = np.zeros(3, np.int32)
    mimw.simulate(hasty, (1, ), out, True, True, **CHIP)
    assert (out == -1).all()


@mimw.jit
def leaving(out_ptr, WAIT: tl.constexpr, READ: tl.constexpr):
    answer, full = tlx._alloc_clc_responses(1), tlx.alloc_barriers(1)
    tlx.barrier_expect_bytes(full[0], 16)
    tlx._clc_issue(answer, full)
    tl.store(out_ptr + tl.program_id(0), 1)
    if WAIT:
        tlx.barrier_wait(full[0], 0)
    if READ:
        x, _, _ = tlx._clc_query(answer)
        tl.store(out_ptr + x, 1, mask=x != -1)


@pytest.mark.parametrize("races, kind", [(True, "UnfinishedAtExit"), (False, "PeerExited")])
def test_a_cta_that_leaves_before_its_answer_comes(races, kind):
    """Nobody would do the work of the cluster that it may get."""
    for seed in range(4):
        mimw.simulate(leaving, (3, ), np.zeros(3, np.int32), True, True, seed=seed, races=True, **CHIP)
    with pytest.raises(getattr(errors, kind), match="cluster launch request"):
        mimw.simulate(leaving, (3, ), np.zeros(3, np.int32), False, False, races=races, **CHIP)


def test_work_that_nobody_does():
    """An answer that no task reads may name a cluster, which then never starts."""
    report = mimw.check(leaving, (3, ), np.zeros(3, np.int32), True, False, shrink=False, **CHIP)
    (finding, ) = report.findings
    assert finding.kind == "WorkLost" and "no task of CTA" in finding.message and "clc_consumer" in finding.hint


@mimw.jit
def naming(out_ptr):
    answer, full = tlx._alloc_clc_responses(1), tlx.alloc_barriers(1)
    tlx.barrier_expect_bytes(full[0], 16)
    tlx._clc_issue(answer[0], full[0])
    tlx.barrier_wait(full[0], 0)
    x, y, z = tlx._clc_query(answer)
    own = tl.program_id(0) + 3 * (tl.program_id(1) + 4 * tl.program_id(2))
    tl.store(out_ptr + own, tl.where(x != -1, x + 3 * (y + 4 * z), -1))


def test_an_answer_names_the_next_cluster():
    """On seed 0 no request is refused while there is something to take, and here one CTA runs at a time."""
    out = np.full(24, -7, np.int32)
    launch = prepare(naming, (3, 4, 2), (out, ), {}, "sm_100a")
    memory = GlobalMemory()
    Machine(launch.program, launch.grid, bind(launch.program, launch.values, memory), memory, seed=0, trace=False,
            check_unwritten=True, resident=1).run()
    assert (out[::2] == np.arange(1, 24, 2)).all() and (out[1::2] == -7).all()


@pytest.mark.parametrize("cluster", [None, (2, 1, 1)])
def test_a_sample_of_ctas(cluster):
    """The clusters of the sample are the queue: each of their tiles runs once, and none of the others'."""
    size = 1 if cluster is None else 2
    launch = prepare(counting, (200, ), tuple(np.zeros(200, np.int32) for _ in range(2)) + (2 * size, 2),
                     {} if cluster is None else dict(ctas_per_cga=cluster), "sm_100a")
    arrays, choice = [np.zeros(200, np.int32) for _ in range(2)], chosen("sample", launch)
    for seed in range(6):
        clusters = choice(seed, launch)
        assert len(clusters) == 8 and clusters[0][0] == (0, 0, 0) and clusters[-1][-1] == (199, 0, 0)
        assert list(clusters) == sorted(clusters)
    report = mimw.check(counting, (200, ), *arrays, 2 * size, 2, ctas="sample", seeds=20, shrink=False,
                        **({} if cluster is None else dict(ctas_per_cga=cluster)), **CHIP)
    assert report.ok and report.runs == 20 and report.unseen


def test_a_sample_finds_what_the_grid_would():
    """A third consumer is counted and never comes."""
    arrays = [np.zeros(200, np.int32) for _ in range(2)]
    found = mimw.check(counting, (200, ), *arrays, 3, 3, ctas="sample", seeds=8, shrink=False, **CHIP).findings
    assert {finding.kind for finding in found} == {"TooFewArrivals"} and found[0].ctas
    again = mimw.check(counting, (200, ), *arrays, 3, 3, ctas=found[0].ctas, seeds=[found[0].seed], shrink=False, **CHIP)
    assert found[0].kind in {finding.kind for finding in again.findings}


@mimw.jit
def storing(x_ptr, STEP: tl.constexpr):
    context = tlx.clc_create_context(1)
    tile, phase = tl.program_id(0), 0
    while tile != -1:
        tlx.clc_producer(context, phase ^ 1)
        tl.store(x_ptr + tile * STEP + tl.arange(0, 16), 1.0)
        tile = tlx.clc_consumer(context, phase)
        phase ^= 1


@pytest.mark.parametrize("step", [16, 12])
def test_stores_of_a_sample_are_compared_for_the_whole_grid(step):
    """Whoever does the work of a program id stores where that id says."""
    report = mimw.check(storing, (100, ), np.zeros(1600, np.float32), step, ctas="sample", seeds=2, shrink=False, **CHIP)
    assert report.ok == (step == 16)
    assert any("stores of different CTAs: compared by their addresses for all 100 clusters" in text for text in report.unseen)


@mimw.jit
def rounds(x_ptr, N, STAGES: tl.constexpr):
    """For each tile a ring of N rounds within the program."""
    context = tlx.clc_create_context(2)
    line = tlx.local_alloc((16, ), tl.float32, STAGES)
    full, free = tlx.alloc_barriers(STAGES), tlx.alloc_barriers(STAGES)
    with tlx.async_tasks():
        with tlx.async_task("default"):
            tile, turn, used = tl.program_id(0), 0, 0
            while tile != -1:
                total = tl.zeros((16, ), tl.float32)
                for i in range(N):
                    tlx.barrier_wait(full[used % STAGES], used // STAGES & 1)
                    total += tlx.local_load(line[used % STAGES])
                    tlx.barrier_arrive(free[used % STAGES])
                    used += 1
                tl.store(x_ptr + tile * 16 + tl.arange(0, 16), total)
                tile = tlx.clc_consumer(context, turn & 1)
                turn += 1
        with tlx.async_task(num_warps=1):
            tile, turn, used = tl.program_id(0), 0, 0
            while tile != -1:
                tlx.clc_producer(context, turn & 1 ^ 1)
                for i in range(N):
                    tlx.barrier_wait(free[used % STAGES], used // STAGES & 1 ^ 1)
                    tlx.local_store(line[used % STAGES], tl.full((16, ), 1.0, tl.float32))
                    tlx.barrier_arrive(full[used % STAGES])
                    used += 1
                tile = tlx.clc_consumer(context, turn & 1)
                turn += 1


def test_smaller_launches():
    """Rounds of loops within a tile are tried on a grid of a few clusters; how many tiles a program has, the seeds decide."""
    x = np.zeros(20 * 16, np.float32)
    mimw.simulate(rounds, (20, ), x, 7, 2, **CHIP)
    assert (x == 7).all()
    report = mimw.check(rounds, (20, ), x, 7, 2, seeds=4, **CHIP)
    assert report.ok and {tried.outcome for tried in report.tried} == {"ok"}
    assert [tried.sizes["N"] for tried in report.tried] == [0, 1, 2, 3] and {tried.grid for tried in report.tried} == {(6, )}
    report = mimw.check(counting, (9, ), *(np.zeros(9, np.int32) for _ in range(2)), 2, 1, seeds=12, **CHIP)
    assert report.ok and "no smaller launches tried: the seeds decide how many tiles a program has" in str(report)


def test_a_prediction_shares_the_tiles_out():
    """The loop over tiles is no loop whose rounds depend on data: requests are decided, one after the other."""
    runs, owners = (np.zeros(2000, np.int32) for _ in range(2))
    launch = prepare(counting, (2000, ), (runs, owners, 2, 1), {}, "sm_100a")
    assert not needed(launch.program).bounds
    found = mimw.predict(counting, (2000, ), runs, owners, 2, 1, **CHIP)
    assert found.simulated[1] == 14 and found.chip.startswith("NVIDIA B200") and found.cycles > 0
    assert not runs.any()


@mimw.jit
def each_for_itself(runs_ptr):
    context = tlx.clc_create_context(1)
    tile, phase = tl.program_id(0), 0
    while tile != -1:
        tl.atomic_add(runs_ptr + tile, 1)
        tlx.clc_producer(context, phase ^ 1, multi_ctas=False)
        tile = tlx.clc_consumer(context, phase, multi_ctas=False)
        phase ^= 1


@pytest.mark.parametrize("cluster", [1, 2])
def test_a_cta_that_asks_for_itself_is_told_whose_work_it_gets(cluster, recwarn):
    """Without clusters that is its own affair; in clusters of two, it gets two CTAs' work and hears of the first."""
    runs = np.zeros(64, np.int32)
    mimw.simulate(each_for_itself, (64, ), runs, ctas_per_cga=(cluster, 1, 1), **CHIP)
    said = [str(one.message) for one in recwarn if issubclass(one.category, errors.KernelWarning)]
    if cluster == 1:
        assert (runs == 1).all() and not said
    else:
        assert len(said) == 1 and "in clusters of 2 CTAs: a request takes over a whole cluster" in said[0]
        assert "tests/simulator/test_launch_control.py:" in said[0]
