"""What `mimw.check` says of wrong programs: the class, the lines, a seed that replays, a smaller launch; nothing of right ones."""

import json
import re
from pathlib import Path

import numpy as np
import pytest
import triton.language as tl

import mimw
import mimw.tlx as tlx
from mimw import errors
from mimw.cli import main
from mimw.kernels import gemm
from tests.kernels import lines, tma_pipeline
from tests.kernels.clusters import sent_to_who_leaves
from tests.kernels.small_gemm import gemm_arguments
from tests.kernels.tma_pipeline import pipeline, pipeline_arguments

from . import pipe_kernels
from .tables import unfenced


def line_of(text: str) -> int:
    """The line of `pipeline` that holds `text`."""
    return lines.line_of(pipeline, text)


def checked(search="both", **changes):
    grid, args, meta = pipeline_arguments(**changes)
    return mimw.check(pipeline, grid, *args, search=search, **meta)


def test_the_right_program_is_right_under_every_interleaving():
    report = checked("systematic")
    assert report.ok and report.complete and report.runs == 1


def test_a_slot_released_before_async_dot_wait():
    (finding, ) = checked(RELEASE_FIRST=True).findings
    assert finding.kind == "OperandOverwritten" and "DataRace" in finding.kinds
    assert [site.line for site in finding.sites] == [
        line_of("acc = tlx.async_dot(a_tiles"), line_of("tlx.async_descriptor_load(a_desc"),
        line_of("if RELEASE_FIRST") + 1]
    assert "'a_tiles'[0], bytes 0 to 8191" in finding.message and "task 'producer' of CTA (0, 0, 0)" in finding.message
    assert "async_dot_wait" in finding.hint


def test_a_producer_whose_first_wait_uses_parity_0():
    (finding, ) = checked(FIRST_PARITY=0).findings
    assert finding.kind == "PhaseOffByOne" and "Deadlock" in finding.kinds
    assert finding.sites[0].line == line_of("tlx.barrier_wait(free[slot]")
    assert finding.sites[1].line == line_of("tlx.barrier_wait(full[slot]")
    assert "phase ^ 1" in finding.hint


def test_a_store_to_shared_memory_and_a_tma_store_without_a_fence():
    """The compiler puts the fence in; without it, it is missing."""
    assert checked(FENCE=False).ok
    grid, args, meta = pipeline_arguments(FENCE=False)
    (finding, ) = unfenced((pipeline, grid, args, meta)).findings
    assert finding.kind == "MissingFence"
    stored, sent = line_of("tlx.local_store(c_tile"), line_of("tlx.async_descriptor_store(c_desc")
    assert [site.line for site in finding.sites] == [stored, sent]
    assert 'fence("async_shared")' in finding.hint


@pytest.mark.long(but=["first_wait_with_parity_0-*"], everywhere=True)
@pytest.mark.parametrize("name, kind, lines", [
    ("released_before_the_wait", "OperandOverwritten", ("acc = tlx.async_dot(a_tiles", "tlx.async_descriptor_load(a_desc")),
    ("first_wait_with_parity_0", "PhaseOffByOne", ("tlx.barrier_wait(free[slot]", "tlx.barrier_wait(full[slot]")),
    ("not_waited_for", "CopyReadEarly", ("tlx.async_descriptor_load(a_desc", "acc = tlx.async_dot(a_tiles")),
])
def test_the_command_says_the_same(capsys, name, kind, lines):
    """As JSON for programs, and as text with the source lines of all tasks involved."""
    file = tma_pipeline.__file__
    assert main(["check", f"{file}:{name}", "--json", "--mend-time", "0"]) == 1
    (finding, ) = json.loads(capsys.readouterr().out)["findings"]
    assert finding["kind"] == kind
    assert [(site["file"], site["line"]) for site in finding["sites"][:2]] == [(file, line_of(text)) for text in lines]
    assert main(["check", f"{file}:{name}", "--mend-time", "0"]) == 1
    shown = capsys.readouterr().out
    assert shown.startswith(f"{kind}: ") and "\nMend: " in shown and "Shown by grid=(1,), K=" in shown
    assert all(text in shown for text in lines)


def test_the_walk_through_quotes_what_is_said():
    """docs/BUGS.md shows these three: each first line and mend, up to paths."""
    text = " ".join((Path(__file__).parents[2] / "docs" / "BUGS.md").read_text().split())
    for changes in (dict(RELEASE_FIRST=True), dict(FIRST_PARITY=0), dict(WAIT_FULL=False)):
        (finding, ) = checked(**changes).findings
        said = re.sub(r"\S*/tma_pipeline\.py", "tma_pipeline.py", f"{finding.kind}: {finding.message}").splitlines()
        assert " ".join(said[0].split()) in text, said[0]


@pytest.mark.parametrize("changes, kinds", [
    (dict(WAIT_FULL=False), {"UnwrittenRead", "CopyReadEarly"}),
    (dict(FULL_SHIFT=1), {"UnwrittenRead", "CopyReadEarly"}),
    (dict(WAIT_DOT=False), {"OperandOverwritten"}),
    (dict(RELEASE=False), {"TooFewArrivals"}),
    (dict(WAIT_FREE=False), {"TooManyArrivals", "CopyReadEarly", "OperandOverwritten"}),
    (dict(EXPECT=100), {"BytesNotExpected"}),
    (dict(EXPECT=20000), {"BytesNeverSent"}),
], ids=lambda value: next(iter(value)) if isinstance(value, dict) else "")
def test_each_switch_alone(changes, kinds):
    found = {finding.kind for finding in checked(**changes).findings}
    assert found and found <= kinds


def test_a_finding_is_replayed_by_its_seed_and_sizes():
    grid, args, meta = pipeline_arguments(8, RELEASE_FIRST=True)
    (finding, ) = mimw.check(pipeline, grid, *args, seeds=[3], **meta).findings
    assert finding.seed == 3 and finding.sizes["K"] < 8 * 64
    with pytest.raises(errors.OperandOverwritten):
        mimw.simulate(pipeline, finding.grid, *args[:3], finding.sizes["K"], seed=3, races=True, **meta)


def test_arrays_are_left_as_they_were():
    grid, args, meta = pipeline_arguments()
    assert mimw.check(pipeline, grid, *args, **meta).ok
    assert (args[2].base.array == 0).all()


@pytest.mark.long(but=["configuration3"], everywhere=True)
@pytest.mark.parametrize("configuration", [dict(), dict(ping_pong=True, bn=128), dict(stages=2, staging=1),
                                           dict(bm=64, consumers=1, stages=3)])
def test_the_library_gemm_is_right_under_every_interleaving(configuration):
    grid, args, meta = gemm_arguments(512, 256, 192, 2, **configuration)
    report = mimw.check(gemm.kernel, grid, *args, seeds=3, search="both", limit=4, **meta)
    assert report.ok and report.complete


@mimw.jit
def turns(x_ptr, ROUNDS: tl.constexpr, SAFE: tl.constexpr):
    """Two tasks use one ring of one slot by turns; without SAFE the second waits for phases that it cannot tell apart."""
    full = tlx.alloc_barriers(1)
    back = tlx.alloc_barriers(1)
    with tlx.async_tasks():
        with tlx.async_task("default"):  # giver
            for step in range(ROUNDS):
                if SAFE:
                    tlx.barrier_wait(back[0], (step & 1) ^ 1)
                tlx.barrier_arrive(full[0])
        with tlx.async_task(num_warps=1):  # taker
            for step in range(ROUNDS):
                tlx.barrier_wait(full[0], step & 1)
                tlx.barrier_arrive(back[0])


@pytest.mark.parametrize("safe", [True, False])
def test_a_phase_that_may_pass_unseen(safe):
    """The bug that the GEMM's ping-pong schedule once had: parities come round, and who is slow waits for the wrong one."""
    report = mimw.check(turns, 1, np.zeros(1, np.float32), 6, safe, search="both")
    assert report.ok is safe
    assert safe or {finding.kind for finding in report.findings} <= {"PhaseMissed", "TooFewArrivals", "WaitCycle"}


@mimw.jit
def counted(x_ptr, out_ptr, ATOMIC: tl.constexpr, ORDER: tl.constexpr):
    """Every program adds its part; the last one, by a counter, reads all parts."""
    me = tl.program_id(0)
    tl.store(x_ptr + 1 + me, me + 1)
    if ATOMIC:
        before = tl.atomic_add(x_ptr, 1, sem=ORDER)
    else:
        before = tl.load(x_ptr)
        tl.store(x_ptr, before + 1)
    if before == tl.num_programs(0) - 1:
        total = 0
        for other in range(tl.num_programs(0)):
            total += tl.load(x_ptr + 1 + other)
        tl.store(out_ptr, total)
    tlx.fence("gpu")


@pytest.mark.parametrize("atomic, order, ok", [
    (True, "acq_rel", True), (True, "release", False), (True, "acquire", False), (True, "relaxed", False), (False, "", False)])
def test_global_memory_between_programs(atomic, order, ok):
    """Right only if the counter is atomic, releases what was stored before and acquires what others released."""
    x, out = np.zeros(8, np.int32), np.zeros(1, np.int32)
    report = mimw.check(counted, 3, x, out, atomic, order, search="systematic", limit=100)
    assert report.ok is ok and report.complete
    assert ok or {finding.kind for finding in report.findings} == {"DataRace"}
    if ok:
        assert report.runs >= 6      # the three programs in each order


@mimw.jit
def picky(x_ptr, out_ptr):
    """Goes wrong only where program 2 counts before program 0 and after program 1."""
    me = tl.program_id(0)
    turn = tl.atomic_add(x_ptr, 1)
    if me == 2 and turn == 1:
        tl.atomic_add(x_ptr + 1, 1)
    elif me == 0 and turn == 2:
        tl.device_assert(tl.atomic_add(x_ptr + 1, 0) == 0, "the rare order")
    tlx.fence("gpu")


def test_the_search_finds_what_one_order_in_six_shows():
    x = np.zeros(8, np.int32)
    report = mimw.check(picky, 3, x, x, search="systematic", limit=300)
    (finding, ) = report.findings
    assert "the rare order" in finding.message and isinstance(finding.seed, tuple)
    with pytest.raises(errors.SimulationError, match="the rare order"):
        mimw.simulate(picky, 3, x, x, seed=finding.seed, races=True)


@mimw.jit
def second_first(x_ptr, n):
    """Goes wrong where program 1 counts before program 0 has begun."""
    for _ in range(n):
        turn = tl.atomic_add(x_ptr, 1)
        tl.device_assert((tl.program_id(0) == 0) | (turn > 0), "the rare order")
    tlx.fence("gpu")


def test_a_schedule_is_shrunk_too():
    """A schedule counts steps, so a smaller launch is searched for one of its own."""
    x = np.zeros(8, np.int32)
    (finding, ) = mimw.check(second_first, 4, x, 8, search="systematic").findings
    assert isinstance(finding.seed, tuple) and finding.grid == (2, ) and finding.sizes == {"n": 1}
    with pytest.raises(errors.SimulationError, match="the rare order"):
        mimw.simulate(second_first, finding.grid, x, finding.sizes["n"], seed=finding.seed, races=True)


def test_clusters_are_shrunk_as_wholes():
    grid, args, meta = 8, (np.ones(32, np.float32), ), dict(ctas_per_cga=(2, 1, 1))
    (finding, ) = mimw.check(sent_to_who_leaves, grid, *args, **meta).findings
    assert finding.kind == "PeerExited" and finding.grid == (2, )


def test_misuse_is_raised():
    with pytest.raises(errors.SimulatorMisuse, match="'random', 'systematic' or 'both'"):
        mimw.check(turns, 1, np.zeros(1, np.float32), 1, True, search="all")
    with pytest.raises(errors.LaunchError, match="none negative"):
        mimw.check(turns, (-1, ), np.zeros(1, np.float32), 1, True)


@pytest.mark.parametrize("case, kind", [(pipe_kernels.released_before_it_was_read, "SlotReusedEarly"),
                                        (pipe_kernels.chunk_kept, "TooFewArrivals")])
def test_the_walk_through_quotes_what_is_said_of_a_pipe(case, kind):
    """Every line of both reports, up to paths and line breaks."""
    text = " ".join((Path(__file__).parents[2] / "docs" / "BUGS.md").read_text().split())
    kernel, grid, args, meta = case()
    (finding, ) = mimw.check(kernel, grid, *args, seeds=[0], **meta).findings
    said = re.sub(r"\S*/pipe_kernels\.py", "pipe_kernels.py", f"{finding.kind}: {finding.message}\nMend: {finding.hint}")
    assert finding.kind == kind and "pipe 'kv', chunk " in said
    lines = [" ".join(line.split()) for line in said.splitlines() if line != "Mend: "]
    assert len(lines) >= 4 and [line for line in lines if line not in text] == []


def test_the_pipe_of_the_walk_through_without_a_mistake():
    kernel, grid, args, meta = pipe_kernels.right()
    assert mimw.check(kernel, grid, *args, seeds=2, **meta).ok
    mimw.simulate(kernel, grid, *args, **meta)
    rows = np.random.default_rng(0).standard_normal((6 * 16, 32)).astype(np.float32)
    assert np.allclose(args[1], rows.sum(1), atol=1e-5) and (args[2] == rows.max(1)).all()
