"""What a run costs and keeps as it grows: in CTAs at a time, in trips, in CTAs in all; and that every seed picks what it did.

Times are CPU seconds of runs taken in turns, best of two, or of up to fifteen where a ratio looks too large:
other work on the machine only adds to a time. The bounds are ratios within one process.
"""

import gc
import tracemalloc
from random import Random

import numpy as np
import pytest

import mimw
from benchmarks.growth import seconds
from mimw.compiler.collector import resting_collector
from mimw.runtime.simulate import prepare
from mimw.simulator import run
from mimw.simulator.machine import machine as machines
from mimw.simulator.machine.machine import Machine
from mimw.simulator.run import watching
from tests.kernels.made_anew import WIDTH, everything, of_everything
from tests.kernels.rings import summed

pytestmark = pytest.mark.usefixtures("little_to_collect")


def launched(ctas, trips, stages=4):
    source, out = np.ones((1, 256), np.float32), np.zeros((ctas, 256), np.float32)
    described = mimw.TensorDescriptor.from_tensor(source, [1, 256])
    launch = prepare(summed, (ctas, ), (described, out, trips), dict(WIDTH=256, STAGES=stages, MEET=True))
    return launch, out


def timed(ctas, trips, **options):
    """Run the launch, for `seconds`."""
    launch, out = launched(ctas, trips)

    def once():
        out[:] = 0
        run(launch.program, launch.grid, launch.values, **options)
        assert (out == trips).all()
    return once


def kept(ctas, trips, stages=4, **options):
    """The most bytes of Python and numpy that a run held at a time."""
    launch, _ = launched(ctas, trips, stages)
    gc.collect()
    tracemalloc.start()
    run(launch.program, launch.grid, launch.values, **options)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return most


@pytest.mark.parametrize("seed, races", [(0, False), (1, True)])
def test_an_operation_costs_the_same_however_many_ctas_are_there(seed, races):
    """8 and 128 CTAs, four doublings: an operation may not take three times as long, where scanned lists cost up to 16 times. What
    it takes to start and end 16 times as many CTAs is left out."""
    def of_each(best):
        """CPU seconds that one more trip of one CTA takes among 8 and among 128, from the times of `shapes`."""
        return (best[1] - best[0]) / (8 * 80), (best[3] - best[2]) / (128 * 5)

    shapes = [(8, 80), (8, 160), (128, 5), (128, 10)]
    best = seconds(*(timed(*shape, seed=seed, races=races) for shape in shapes), rounds=1,
                   enough=lambda best: of_each(best)[1] < 2.8 * of_each(best)[0])
    few, many = of_each(best)
    assert many < 2.8 * few, (few, many)


@pytest.mark.parametrize("races", [False, True])
def test_twice_the_trips_take_twice_the_time(races):
    once, twice = seconds(timed(4, 100, races=races), timed(4, 200, races=races), rounds=1,
                          enough=lambda best: best[1] < 2.6 * best[0])
    assert twice < 2.6 * once, (once, twice)


@pytest.mark.parametrize("seed, races", [(0, False), (3, True)])
def test_memory_is_flat_in_trips(seed, races):
    kept(2, 40)
    few, many = kept(2, 100, seed=seed, races=races), kept(2, 400, seed=seed, races=races)
    assert many - few < 250_000, (few, many)        # free lists of Python; what a trip makes is three times that


@pytest.mark.parametrize("races", [False, True])
def test_memory_is_flat_in_trips_that_make_everything_anew(races):
    """Buffers, barriers and tasks. A trip's two tasks took 12 KB, and with races its clocks, one longer than the other, 170 KB."""
    def held(trips):
        args, _ = of_everything(trips)
        launch = prepare(everything, (1, ), args, dict(WIDTH=WIDTH))
        gc.collect()
        tracemalloc.start()
        run(launch.program, launch.grid, launch.values, races=races)
        most = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return most

    held(10)
    few, many = held(20), held(80)
    assert many - few < 60 * 1_000, (few, many)


def few_at_a_time(monkeypatch, resident):
    init = Machine.__init__
    monkeypatch.setattr(Machine, "__init__", lambda self, *args, **fields: init(self, *args, **{**fields, "resident": resident}))


@pytest.mark.parametrize("races, of_each", [(False, 6_000), (True, 20_000)])
def test_memory_is_flat_in_ctas(monkeypatch, races, of_each):
    """What a CTA that has ended leaves behind is a name for messages where it has touched global memory, not its 32 KiB of buffers
    with as much about them, and its barriers."""
    few_at_a_time(monkeypatch, 8)
    kept(2, 8, 32)
    few, many = kept(32, 8, 32, races=races), kept(96, 8, 32, races=races)
    assert many - few < 64 * of_each, (few, many)


def test_the_collector_finds_nothing_that_grows():
    """It rests during a run, so a run may not make cycles for each operation or CTA."""
    found = []
    for ctas, trips in ((2, 20), (2, 200), (40, 20)):
        launch, _ = launched(ctas, trips)
        gc.collect()
        run(launch.program, launch.grid, launch.values, races=True)
        found.append(gc.collect())
    assert max(found) < 200, found


def test_the_collector_is_as_it_was_before_also_after_errors():
    assert gc.isenabled()
    with pytest.raises(KeyError), resting_collector():
        with resting_collector():
            assert not gc.isenabled()
        assert not gc.isenabled()
        raise KeyError
    assert gc.isenabled()
    gc.disable()
    try:
        with resting_collector():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()


class Plain:
    """The scheduler in its plainest form: lists that are searched from their start. The other one must choose as it does."""

    def __init__(self, machine):
        self.machine, self.random, self.due, self.steps = machine, Random(), [], []
        start, land, pick = machine.start, machine.land, machine._next_task
        machine.start, machine.land, machine._next_task = self.started(start), self.landed(land), self.picked(pick)
        self.flying = []

    def started(self, start):
        def wrapped(operation):
            self.flying.append(operation)
            return start(operation)
        return wrapped

    def landed(self, land):
        def wrapped(operation):
            if self.ready:
                assert operation is self.ready.pop()
            self.flying.remove(operation)
            return land(operation)
        return wrapped

    def picked(self, pick):
        ready = self.machine._ready

        def chosen():
            """What a search through all that is blocked and all that flies gives, for the same draw."""
            machine = self.machine
            self.random.setstate(machine.random.getstate())
            found = None
            if not machine.eager:
                found = next((operation for task in machine.blocked for operation in task.wait.needs()
                              if operation.ready() and not operation.landed), None)
            able = [operation for operation in self.flying if operation.ready()]
            found = found or able[int(self.random.random() * len(able))]
            self.ready.append(found)
            self.steps.append(found)
            return ready()
        self.ready = []
        self.machine._ready = chosen
        return pick


@pytest.mark.parametrize("seed", range(8))
def test_an_indexed_queue_lands_what_a_search_finds(seed):
    launch, _ = launched(5, 30)
    plain = []
    token = watching.set(lambda machine: plain.append(Plain(machine)))
    try:
        run(launch.program, launch.grid, launch.values, seed=seed)
    finally:
        watching.reset(token)
    assert not plain[0].flying and (seed or plain[0].steps)


def test_constants_run_once_and_count_as_ever():
    launch, _ = launched(2, 10)
    counts = run(launch.program, launch.grid, launch.values).counts
    values, done = machines.constants(launch.program)
    assert {op.name for op in done} >= {"constant", "make_range", "splat"}
    per_cta = sum(op.name == "make_range" for op in launch.program.walk())
    assert counts["make_range"] == 2 * per_cta
    assert counts["yield"] >= 2 * 10 and counts["constant"] > 2 * 10
    for value in values.values():
        assert not isinstance(value, np.ndarray) or not value.flags.writeable
