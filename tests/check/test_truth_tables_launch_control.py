"""Truth tables of cluster launch control: when a kernel that takes over the work of CTAs which have not started is right."""

import inspect
import itertools
from dataclasses import replace

import numpy as np
import pytest
import triton.language as tl

import mimw
import mimw.tlx as tlx
from benchmarks.mutants import mutants
from mimw.compiler.passes import PASSES, Context, run_passes
from mimw.errors import KernelError
from mimw.runtime.simulate import prepare
from mimw.target import target
from mimw.tools.search import Search

from .tables import SWITCHES, right, states

TILES, SIZE, HANDS = 6, 16, 3      # of three tiles two are there from the start, as the systematic search has it
CHIP = dict(target="sm_100a")
PAIR = CHIP | dict(ctas_per_cga=(2, 1, 1))


@mimw.jit
def by_hand(x_ptr, EXPECT: tl.constexpr, WAIT: tl.constexpr, FREE: tl.constexpr, FENCE: tl.constexpr, LEAVE: tl.constexpr):
    """One task asks, both read each answer; all that the three words of a context do is written out."""
    answer = tlx._alloc_clc_responses(1)
    full = tlx.alloc_barriers(1)
    free = tlx.alloc_barriers(1, 2)
    with tlx.async_tasks():
        with tlx.async_task("default"):
            tile, phase = tl.program_id(0), 0
            while tile != -1:
                tl.store(x_ptr + tile * 16 + tl.arange(0, 16), 1.0)
                if WAIT:
                    tlx.barrier_wait(full[0], phase)
                tile, _, _ = tlx._clc_query(answer[0])                                  # read
                if FENCE:
                    tlx.fence("async_shared")
                tlx.barrier_arrive(free[0], pred=tile != -1)
                phase ^= 1
        with tlx.async_task(num_warps=1):
            tile, phase = tl.program_id(0), 0
            while tile != -1:
                if FREE:
                    tlx.barrier_wait(free[0], phase ^ 1)
                tlx.barrier_expect_bytes(full[0], EXPECT)
                tlx._clc_issue(answer[0], full[0])                                      # ask
                tlx.barrier_wait(full[0], phase)
                tile, _, _ = tlx._clc_query(answer[0])                                  # look
                tlx.barrier_arrive(free[0], pred=tile != -1)
                phase ^= 1
            if not LEAVE:
                tlx.barrier_expect_bytes(full[0], EXPECT)
                tlx._clc_issue(answer[0], full[0])                                      # again
                tlx.barrier_wait(full[0], phase)


@states("clc_issue", "clc_query", "barrier_wait", "barrier_arrive", "barrier_expect")
def asked(expect=16, wait=True, free=True, fence=True, leave=True):
    return by_hand, HANDS, (np.zeros(TILES * SIZE, np.float32), expect, wait, free, fence, leave), CHIP


@pytest.mark.parametrize("expect, wait, free", list(itertools.product((8, 16), SWITCHES, SWITCHES)))
def test_requests(expect, wait, free):
    """Right iff 16 bytes are expected, each reader waits for them, and each answer is read before the next request."""
    assert right(asked(expect, wait, free), limit=64) == (expect == 16 and wait and free)


@pytest.mark.parametrize("fence", SWITCHES)
def test_the_fence_between_an_answers_read_and_the_next_request(fence):
    """Right either way: where the author has none the compiler puts one in."""
    assert right(asked(fence=fence), limit=64)


@pytest.mark.parametrize("leave", SWITCHES)
def test_a_request_after_a_refusal(leave):
    """Right iff a CTA asks for nothing once a request was refused."""
    assert right(asked(leave=leave), "random") == leave


@mimw.jit
def by_context(x_ptr, CONSUMERS: tl.constexpr, STAGES: tl.constexpr, SAME: tl.constexpr, BOTH: tl.constexpr,
               OTHERS: tl.constexpr):
    """A producer and its consumers, in clusters of two or alone."""
    context = tlx.clc_create_context(CONSUMERS, STAGES)
    with tlx.async_tasks():
        with tlx.async_task("default"):
            tile, turn = tl.program_id(0), 0
            while tile != -1:
                tl.store(x_ptr + tile * 16 + tl.arange(0, 16), 1.0)
                tile = tlx.clc_consumer(context, (turn // STAGES) & 1 if SAME else 0, BOTH, turn % STAGES)
                turn += 1
        with tlx.async_task(num_warps=1):
            tile, turn = tl.program_id(0), 0
            while tile != -1:
                if OTHERS or tlx.cluster_cta_rank() == 0:
                    tlx.clc_producer(context, (turn // STAGES) & 1 ^ 1, BOTH, turn % STAGES)
                tile = tlx.clc_consumer(context, (turn // STAGES) & 1, BOTH, turn % STAGES)
                turn += 1


def shared_out(consumers=2, stages=1, same=True, meta=CHIP, both=True, others=True):
    return by_context, TILES, (np.zeros(TILES * SIZE, np.float32), consumers, stages, same, both, others), meta


@pytest.mark.parametrize("consumers, stages", list(itertools.product((1, 2, 3), (1, 2))))
def test_consumers_of_a_context(consumers, stages):
    """Right iff the context was told of the two tasks that consume."""
    assert right(shared_out(consumers, stages), "random") == (consumers == 2)


@pytest.mark.parametrize("same, stages", list(itertools.product(SWITCHES, (1, 2))))
def test_phases_of_a_context(same, stages):
    """Right iff a consumer goes by the phases of the producer."""
    assert right(shared_out(stages=stages, same=same), "random") == same


@states("clc_issue_all", "clc_query", "remote_arrive", "barrier_wait", "barrier_expect")
def shared_out_in_pairs(consumers=4, stages=1, others=True):
    return shared_out(consumers, stages, meta=PAIR, others=others)


@pytest.mark.parametrize("consumers, stages", list(itertools.product((2, 4), (1, 2))))
def test_consumers_in_a_cluster(consumers, stages):
    """Right iff the context was told of the consumers of both CTAs."""
    assert right(shared_out_in_pairs(consumers, stages), "random") == (consumers == 4)


@pytest.mark.parametrize("others", SWITCHES)
def test_producers_in_a_cluster(others):
    """Right iff every CTA calls clc_producer, which expects the answer there."""
    assert right(shared_out_in_pairs(others=others), "random") == others


def found(launch, seeds=12):
    kernel, grid, args, meta = launch
    return mimw.check(kernel, grid, *args, seeds=seeds, shrink=False, rounds=False, **meta).findings[0]


def lines_of(kernel, *texts) -> set[int]:
    lines, first = inspect.getsourcelines(kernel.fn)
    return {first + number for text in texts for number, line in enumerate(lines) if text in line}


@pytest.mark.parametrize("launch, kinds, lines", [
    (asked(wait=False), "CopyReadEarly", ("# read", "# ask")),
    (asked(free=False), "SlotReusedEarly TooManyArrivals PhaseMissed", ("# ask", )),
    (asked(leave=False), "RequestAfterRefusal", ("# again", ))], ids=["nobody waits", "no free barrier", "asks again"])
def test_a_planted_mistake_has_its_class_and_both_lines(launch, kinds, lines):
    finding = found(launch)
    assert finding.kind in kinds.split() and finding.hint
    named = {site.line for site in finding.sites}
    assert lines_of(by_hand, *lines) <= named and len(named) > 1, str(finding)


IN_PAIRS = " in each of the 2 CTAs of a cluster, 4 in all"


@pytest.mark.parametrize("launch, kinds, told, ctas", [
    (shared_out(3), "TooFewArrivals", 3, ""), (shared_out(1), "TooManyArrivals SlotReusedEarly PhaseMissed", 1, ""),
    (shared_out_in_pairs(5), "TooFewArrivals", 5, IN_PAIRS),
    (shared_out_in_pairs(2), "CopyReadEarly TooManyArrivals SlotReusedEarly PhaseMissed", 2, IN_PAIRS)])
def test_a_wrong_number_of_consumers_is_said(launch, kinds, told, ctas):
    finding = found(launch)
    assert finding.kind in kinds.split()
    assert f"has num_consumers={told}, but 2 tasks call clc_consumer on it{ctas}: 'default' and 'task 1'" in str(finding)


def test_the_compilers_fence_is_needed():
    """Without the pass that puts it in, `check` names the read and the request."""
    kernel, grid, args, _ = asked(fence=False)
    launch = prepare(kernel, grid, args, {}, "sm_100a")
    program = launch.recorded
    for step in PASSES:
        if step.name != "fence_handovers":
            program = step(program, Context(target("sm_100a")))
    finding = Search(replace(launch, program=program)).all(4, "random", 4, shrink=False).findings[0]
    assert finding.kind == "MissingFence"
    assert lines_of(by_hand, "# read", "# look") & {site.line for site in finding.sites}
    assert lines_of(by_hand, "# ask") <= {site.line for site in finding.sites}


# What may be changed without harm, and why; every other mutant of the two kernels is found.
HARMLESS = {
    ("barrier_wait", "duplicate"): "the phase is over",
    ("fence", "drop"): "the compiler puts it in",
    ("fence", "release early"): "the compiler puts one in",
    ("barrier_arrive", "drop predicate"): "after a refusal nobody waits for the stage, so one arrival more does not matter",
    ("remote_arrive", "drop predicate"): "as above",
    ("barrier_wait", "wait late"): "the producer has itself waited for the answer before, so the stage's phase is the next one",
    ("barrier_expect", "swap"): "bytes may come before they are expected, in one phase",
}


@pytest.mark.long(but=["one"], everywhere=True)
@pytest.mark.parametrize("launch", [shared_out(), shared_out(stages=2), shared_out_in_pairs(stages=2)], ids=["one", "two", "pairs"])
def test_mutants(launch):
    kernel, grid, args, meta = launch
    launch = prepare(kernel, grid, args, {name: value for name, value in meta.items() if name != "target"}, "sm_100a")
    tried, survivors = 0, set()
    for mutant in mutants(launch.recorded):
        tried += 1
        try:
            program = run_passes(mutant.program, target("sm_100a"))
        except KernelError:
            continue
        search = Search(replace(launch, program=program))
        if all(search.all([seed], "random", 0, shrink=False).ok for seed in range(8)):
            survivors.add((mutant.word, mutant.change.partition(" (")[0]))
    assert tried > 20 and survivors <= set(HARMLESS), survivors - set(HARMLESS)
