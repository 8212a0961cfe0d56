"""Each thing that can be wrong has a class of its own: the smallest program that shows it, its lines, and what the compiler says
where it knows without running."""


import numpy as np
import pytest
import triton
import triton.language as tl

import mimw
import mimw.tlx as tlx
from mimw import errors
from mimw.runtime.compile_kernel import compile_kernel
from tests.kernels.clusters import sent_to_who_leaves
from tests.kernels.lines import line_of, lines_with
from tests.kernels.tma_pipeline import pipeline, pipeline_arguments

PAIR = dict(ctas_per_cga=(2, 1, 1))


def floats(*shape):
    return np.ones(shape, np.float32)


def ints(*shape):
    return np.zeros(shape, np.int32)


def halves():
    return mimw.TensorDescriptor.from_tensor(np.ones((64, 32), np.float16), [16, 32])


@mimw.jit
def waiting_for_each_other(x_ptr):
    one = tlx.alloc_barriers(1)
    other = tlx.alloc_barriers(1)
    with tlx.async_tasks():
        with tlx.async_task("default"):
            tlx.barrier_wait(one[0], 0)                   # first
            tlx.barrier_arrive(other[0])
            tlx.barrier_wait(other[0], 1)
        with tlx.async_task(num_warps=1):
            tlx.barrier_wait(other[0], 0)                 # second
            tlx.barrier_arrive(one[0])
            tlx.barrier_arrive(one[0])


@mimw.jit
def filling(x_desc, n, EXPECT: tl.constexpr, MORE: tl.constexpr):
    """Expects, and copies once, or twice if n > 1, which nobody can know before."""
    tiles = tlx.local_alloc((16, 32), tl.float16, 2)
    full = tlx.alloc_barriers(1)
    tlx.barrier_expect_bytes(full[0], EXPECT)             # expect
    tlx.async_descriptor_load(x_desc, tiles[0], [0, 0], full[0])
    tlx.async_descriptor_load(x_desc, tiles[1], [16, 0], full[0], pred=n > 1)     # second copy
    if MORE:
        for _ in range(n):
            tlx.barrier_arrive(full[0])                   # too many
    tlx.barrier_wait(full[0], 0)                          # wait


@mimw.jit
def loaded_back(x_ptr, x_desc, y_ptr):
    """A task stores to global memory, and has TMA load that: no fence of the compiler's stands between."""
    line, full, at = tlx.local_alloc((32, ), tl.float32, 1), tlx.alloc_barriers(1), tl.arange(0, 32)
    tl.store(x_ptr + at, tl.zeros((32, ), tl.float32))          # stored
    tlx.barrier_expect_bytes(full[0], 128)
    tlx.async_descriptor_load(x_desc, line[0], [0], full[0])    # loaded
    tlx.barrier_wait(full[0], 0)
    tl.store(y_ptr + at, tlx.local_load(line[0]))


@mimw.jit
def counted(x_ptr, n, COUNT: tl.constexpr):
    """n arrivals, which nobody can know before, on a barrier made for COUNT."""
    ready = tlx.alloc_barriers(1, arrive_count=COUNT)
    with tlx.async_tasks():
        with tlx.async_task("default"):
            tlx.barrier_wait(ready[0], 0)                 # wait
        with tlx.async_task(num_warps=1):
            for _ in range(n):
                tlx.barrier_arrive(ready[0])              # arrive


@mimw.jit
def given_back_early(x_ptr, y_ptr, STEPS: tl.constexpr):
    """The reader gives the slot back, then reads it."""
    tile = tlx.local_alloc((128, ), tl.float32, 1)
    full = tlx.alloc_barriers(1)
    free = tlx.alloc_barriers(1)
    with tlx.async_tasks():
        with tlx.async_task("default"):
            for step in range(STEPS):
                tlx.barrier_wait(full[0], step & 1)
                tlx.barrier_arrive(free[0])               # release
                tl.store(y_ptr + tl.arange(0, 128), tlx.local_load(tile[0]))       # read
        with tlx.async_task(num_warps=4):
            for step in range(STEPS):
                tlx.barrier_wait(free[0], (step & 1) ^ 1)
                tlx.local_store(tile[0], tl.load(x_ptr + tl.arange(0, 128)))       # write
                tlx.barrier_arrive(full[0])


@mimw.jit
def made_in_a_loop(x_ptr):
    for _ in range(2):
        bar = tlx.alloc_barriers(1)                       # made
        tlx.cluster_barrier()
        tlx.barrier_arrive(bar, 1, remote_cta_rank=tlx.cluster_cta_rank() ^ 1)     # used
        tlx.barrier_wait(bar, 0)


@mimw.jit
def spinning(flag_ptr):
    while tl.atomic_add(flag_ptr, 0) == 0:                # spin
        pass
    tlx.clock64()


@mimw.jit
def endless(flag_ptr):
    flag = 0
    while flag == 0:                                      # never ends
        flag = tl.load(flag_ptr)
    tlx.clock64()


@mimw.jit
def dividing(x_ptr, n):
    tl.store(x_ptr, 5 // n)                               # divide
    tlx.clock64()


@mimw.jit
def reading(x_ptr, y_ptr, AT: tl.constexpr):
    tile = tlx.local_alloc((32, ), tl.float32, 1)
    tlx.local_store(tile[0], tl.load(x_ptr + AT + tl.arange(0, 32)))      # load
    other = tlx.local_alloc((32, ), tl.float32, 1)
    tl.store(y_ptr + tl.arange(0, 32), tlx.local_load(other[0]))          # read


@mimw.jit
def meeting(x_ptr):
    with tlx.async_tasks():
        with tlx.async_task("default"):
            tlx.named_barrier_arrive(9, 256)              # one count
        with tlx.async_task(num_warps=4):
            tlx.named_barrier_wait(9, 288)                # another


@mimw.jit
def round_again(x_ptr, n):
    """Nothing tells the giver that the taker has looked."""
    full = tlx.alloc_barriers(1)
    with tlx.async_tasks():
        with tlx.async_task("default"):
            for _ in range(n):
                tlx.barrier_arrive(full[0])               # give
        with tlx.async_task(num_warps=1):
            for step in range(n):
                tlx.barrier_wait(full[0], step & 1)       # take


@mimw.jit
def read_while_running(x_ptr, y_ptr, pending, n):
    """The dot of the round before is read where n says so."""
    a = tlx.local_alloc((64, 64), tl.float16, 1)
    at = tl.arange(0, 64)[:, None] * 64 + tl.arange(0, 64)[None, :]
    tlx.local_store(a[0], tl.load(x_ptr + at))
    acc = tl.zeros((64, 64), tl.float32)
    for step in range(n):
        acc = tlx.async_dot(a[0], a[0], acc)
        acc = tlx.async_dot_wait(1, acc)
    tl.store(y_ptr + at, acc)                             # read


def case(kernel, *args, grid=1, **meta):
    return kernel, grid, args, meta


def ring(**changes):
    grid, args, meta = pipeline_arguments(**changes)
    return pipeline, grid, args, meta


ONE_LINE = floats(32)
# class -> (launch, texts of the lines that the finding names)
CASES = {
    errors.WaitCycle: (case(waiting_for_each_other, floats(1)), ("# first", "# second")),
    errors.PhaseOffByOne: (ring(FIRST_PARITY=0), ("tlx.barrier_wait(free[slot]", "tlx.barrier_wait(full[slot]")),
    errors.TooFewArrivals: (case(counted, floats(1), 2, 3), ("# wait", )),
    errors.TooManyArrivals: (case(filling, halves(), 3, 2048, True), ("# too many", )),
    errors.BytesNeverSent: (case(filling, halves(), 0, 2048, False), ("# wait", )),
    errors.BytesNotExpected: (case(filling, halves(), 2, 512, False), ("tiles[0], [0, 0]", )),
    errors.SlotReusedEarly: (case(given_back_early, floats(128), floats(128), 3), ("# read", "# write")),
    errors.BarrierNotReady: (case(made_in_a_loop, floats(1), grid=2, **PAIR), ("# used", "# made")),
    errors.OperandOverwritten: (ring(WAIT_DOT=False), ("acc = tlx.async_dot(a_tiles", "tlx.async_descriptor_load(a_desc")),
    errors.PeerExited: (case(sent_to_who_leaves, floats(32), grid=2, **PAIR), ("# send", )),
    errors.MissingFence: (case(loaded_back, ONE_LINE, mimw.TensorDescriptor.from_tensor(ONE_LINE, [32]), floats(32)),
                          ("# stored", "# loaded")),
    errors.CopyReadEarly: (ring(WAIT_FULL=False), ("tlx.async_descriptor_load(", "acc = tlx.async_dot(a_tiles")),
    errors.Livelock: (case(spinning, ints(1), seeds=2), ("# spin", )),      # a thousand trips a run
    errors.EndlessLoop: (case(endless, ints(1)), ("# never ends", )),
    errors.UnwrittenRead: (case(reading, floats(32), floats(32), 0), ("# read", )),
    errors.OutOfBounds: (case(reading, floats(32), floats(32), 8), ("# load", )),
    errors.DivisionByZero: (case(dividing, ints(1), 0), ("# divide", )),
    errors.BarrierMisuse: (case(meeting, floats(1)), ("# one count", "# another")),
    errors.PhaseMissed: (case(round_again, floats(1), 6), ("# give", "# take")),
}


@pytest.mark.parametrize("kind", CASES, ids=lambda kind: kind.__name__)
def test_each_has_its_class_and_lines(kind):
    (kernel, grid, args, meta), texts = CASES[kind]
    findings = mimw.check(kernel, grid, *args, search="both", limit=20, **meta).findings
    found = [finding for finding in findings if finding.kind == kind.__name__]
    assert found, [finding.kind for finding in findings]
    named = {site.line for finding in found for site in finding.sites}
    wanted = {line for text in texts for line in lines_with(kernel, text)}
    assert (wanted <= named if kind is not errors.CopyReadEarly else wanted & named), (wanted, named)
    assert found[0].hint or kind in (errors.OutOfBounds, errors.TooFewArrivals, errors.WaitCycle,
                                     errors.BytesNeverSent), "a finding says how to mend it"


def test_every_class_is_shown_somewhere():
    """Those without a case are general, or shown in test_wrong_programs.py, test_truth_tables*.py, test_illegal_copies.py,
    test_results.py, simulator/, passes/, words/."""
    elsewhere = {errors.SimulationError, errors.Deadlock, errors.DataRace, errors.SourceOverwritten, errors.UnfinishedAtExit,
                 errors.AsyncDotReadEarly, errors.SimulatorMisuse, errors.RequestAfterRefusal, errors.RankDied,
                 errors.WorkLost, errors.RankMissing, errors.SignalNeverSent, errors.SignalReusedEarly, errors.ScopeTooNarrow,
                 errors.MissingSystemFence, errors.SignalOvertakesData, errors.PeerUnreachable, errors.PartlyOverwritten,
                 errors.IllegalCopy, errors.BufferMisuse, errors.WrongResult}
    every = {one for one in vars(errors).values() if isinstance(one, type) and issubclass(one, errors.SimulationError)}
    assert every == elsewhere | set(CASES)


# ---- what is known without running: the same classes, from the compiler ---------------------------------------------

@mimw.jit
def known(x_ptr, x_desc, KIND: tl.constexpr):
    tiles = tlx.local_alloc((16, 32), tl.float16, 2)
    bars = tlx.alloc_barriers(2, arrive_count=2 if KIND == "TooFewArrivals" else 1)
    if KIND == "TooManyArrivals":
        tlx.barrier_arrive(bars[0], 2)
    elif KIND == "BytesNeverSent":
        tlx.barrier_expect_bytes(bars[0], 2048)
        tlx.async_descriptor_load(x_desc, tiles[0], [0, 0], bars[0])
    elif KIND == "BytesNotExpected":
        tlx.barrier_expect_bytes(bars[0], 512)
        tlx.async_descriptor_load(x_desc, tiles[0], [0, 0], bars[0])
    elif KIND == "TooFewArrivals":
        tlx.barrier_arrive(bars[0])
    tlx.barrier_wait(bars[0], 0)
    if KIND == "WaitCycle":
        tlx.barrier_arrive(bars[0])


def refused(kernel, *types, **constants):
    signature = dict(zip(kernel.arg_names, types)) | dict.fromkeys(constants, "constexpr")
    with pytest.raises(triton.CompilationError) as caught:
        compile_kernel(kernel, signature, constants, target="sm_90a")
    return caught.value.__cause__


@pytest.mark.parametrize("kind", ["TooFewArrivals", "TooManyArrivals", "BytesNeverSent", "BytesNotExpected", "WaitCycle"])
def test_the_compiler_and_check_name_the_same_class(kind):
    """The compiler refuses what it knows; `mimw.check` reports the same, without a run."""
    error = refused(known, "*fp32", "tensordesc<fp16[16,32]>", KIND=kind)
    assert type(error).__name__ == kind and isinstance(error, errors.KernelError) and error.sites and error.hint
    (finding, ) = mimw.check(known, 1, floats(1), halves(), kind).findings
    assert finding.kind == kind and finding.seed is None and finding.sites == error.sites


def test_slots_that_are_never_released_are_refused():
    grid, args, meta = pipeline_arguments(RELEASE=False)
    report = mimw.check(pipeline, grid, *args, **meta)
    (finding, ) = report.findings
    assert finding.kind == "TooFewArrivals" and report.runs == 0
    assert "the slots of 'free' are not released" in finding.message
    assert {site.line for site in finding.sites} == {
        line_of(pipeline, "free = tlx.alloc"), line_of(pipeline, "tlx.barrier_wait(free[slot]")}
