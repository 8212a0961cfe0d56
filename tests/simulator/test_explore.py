"""The reversals that the search finds, against a search that holds each step against all that came before."""

import random

import numpy as np
import pytest

import mimw
from mimw.runtime.simulate import prepare
from mimw.simulator import run
from mimw.simulator.machine.guide import Guide, Step
from mimw.simulator.memory_model.past import ARRIVE, READ, WAIT, WRITE, Past, Thing
from mimw.simulator.search.explore import _reversals
from tests.kernels.rings import summed


def dependent(earlier: str, before: int, mode: str, phase: int) -> bool:
    if earlier == mode == ARRIVE:
        return before != phase
    return earlier != mode or mode in (ARRIVE, WRITE)


def reversible(earlier: str, before: int, mode: str, phase: int) -> bool:
    if earlier == ARRIVE and mode == WAIT:
        return before < phase - 1
    return dependent(earlier, before, mode, phase)


def all_pairs(steps: list[Step]) -> list[tuple[int, int]]:
    """As `_reversals`, step by step from the definition: what comes before a step is a set of steps."""
    known, at_step, found = {}, [], []
    for index, step in enumerate(steps):
        for actor in step.enabled:
            if index and actor not in steps[index - 1].enabled:
                known.setdefault(actor, set()).update(at_step[index - 1])
        mine = known.setdefault(step.actor, set())
        for thing, mode, phase in step.touched:
            past = [(at, m, p) for at, one in enumerate(steps[:index]) for t, m, p in one.touched if t == thing]
            last = max((at for at, m, p in past if steps[at].actor != step.actor and reversible(m, p, mode, phase)), default=-1)
            if last >= 0 and last not in mine:
                enabled = steps[last].enabled
                found += [(last, enabled.index(step.actor))] if step.actor in enabled else \
                    [(last, choice) for choice in range(len(enabled))]
            for at, m, p in past:
                if dependent(m, p, mode, phase):
                    mine |= at_step[at]
        mine.add(index)
        at_step.append(set(mine))
    return found


def drawn(seed: int, restarts: bool) -> list[Step]:
    """A run of a few actors that come and go, on a few objects whose phases go on, or also begin again."""
    draw = random.Random(seed)
    actors, phases, steps = [f"task {i}" for i in range(draw.randint(1, 5))], [0, 0, 0], []
    for _ in range(draw.randint(1, 60)):
        enabled = draw.sample(actors, draw.randint(1, len(actors)))
        touched = []
        for _ in range(draw.choice((0, 1, 1, 1, 2, 3))):
            thing = draw.randrange(3)
            phases[thing] += draw.random() < 0.4
            if restarts and draw.random() < 0.1:
                phases[thing] = draw.randint(0, phases[thing])
            touched.append((thing, draw.choice((ARRIVE, ARRIVE, WAIT, WAIT, READ, WRITE)), phases[thing]))
        steps.append(Step(enabled, draw.randrange(len(enabled)), 0, touched))
    return steps


@pytest.mark.parametrize("restarts", [False, True])
def test_the_same_reversals_in_the_same_order_as_of_all_pairs(restarts):
    found = 0
    for seed in range(400):
        steps = drawn(seed, restarts)
        expected = all_pairs(steps)
        assert list(_reversals(steps)) == expected, seed
        found += len(expected)
    assert found > 1000


def step(actor: str, *touched, enabled=("a", "b")) -> Step:
    return Step(list(enabled), enabled.index(actor), 0, list(touched))


@pytest.mark.parametrize("first, second, tried", [
    (("x", ARRIVE, 0), ("x", ARRIVE, 0), False), (("x", ARRIVE, 0), ("x", ARRIVE, 1), True),
    (("x", WAIT, 0), ("x", WAIT, 0), False), (("x", READ, 0), ("x", READ, 0), False),
    (("x", WRITE, 0), ("x", READ, 0), True), (("x", WRITE, 0), ("y", WRITE, 0), False),
    (("x", ARRIVE, 0), ("x", WAIT, 1), False), (("x", ARRIVE, 0), ("x", WAIT, 2), True),
    (("x", WAIT, 0), ("x", ARRIVE, 0), True)])
def test_which_pairs_are_tried_the_other_way_round(first, second, tried):
    assert list(_reversals([step("a", first), step("b", second)])) == ([(0, 1)] if tried else [])


def test_what_something_orders_is_not_tried():
    """a writes x, tells b by y, b reads x."""
    write, tell, hear, read = ("x", WRITE, 0), ("y", ARRIVE, 0), ("y", WAIT, 1), ("x", READ, 0)
    assert list(_reversals([step("a", write), step("a", tell), step("b", hear), step("b", read)])) == []
    assert list(_reversals([step("a", write), step("b", read)])) == [(0, 1)]


def test_many_phases_are_few_things():
    """A step is held against a handful of joined steps, however many phases are over."""
    thing = Thing()
    for phase in range(1000):
        for mode in (ARRIVE, WAIT):
            assert len(thing.dependent(mode, phase)) <= 5 and len(thing.reversible(mode, phase)) <= 5
            thing.add(mode, phase, Past(1 << 2 * phase, 2 * phase, mode))
    assert max(past.last for past in thing.reversible(WAIT, 999)) == 2 * 997
    assert max(past.last for past in thing.dependent(ARRIVE, 999)) == 2 * 999 and not any(
        past.clock >> 2 * 999 & 1 for past in thing._but(999))


class Listing(Guide):
    """Writes down at each step who can go on, by a look at all of them."""

    def __init__(self, schedule):
        super().__init__(schedule)
        self.listed = []

    def choose(self, machine):
        actor = super().choose(machine)
        if actor is not None:
            able = [*machine.runnable, *(one for one in machine.inflight if one.ready())]
            self.listed.append([self.enabled.number(one) for one in able])
        return actor


def guided(ctas: int, schedule=(), kind=Guide) -> Guide:
    """The guide of a run of a ring of so many CTAs."""
    source, out = np.ones((1, 16), np.float32), np.zeros((ctas, 16), np.float32)
    args = mimw.TensorDescriptor.from_tensor(source, [1, 16]), out, 3
    launch, guide = prepare(summed, (ctas, ), args, dict(WIDTH=16, STAGES=2)), kind(schedule)
    run(launch.program, launch.grid, launch.values, seed=guide, races=True)
    assert (out == 3).all()
    return guide


@pytest.mark.parametrize("schedule", [(), ((1, 2), (9, 5), (40, 3), (41, 1), (60, 4))])
def test_who_could_go_on_is_known_of_each_step(schedule):
    guide = guided(6, schedule, Listing)
    steps, before = guide.steps, []
    assert len(steps) > 150 and len(guide.enabled._wholes) > 1
    for step, listed in zip(steps, guide.listed, strict=True):
        assert list(step.enabled) == listed and step.actor == listed[step.choice]
        assert set(step.came) == set(listed) - set(before)
        before = listed


def test_a_step_costs_what_it_changes():
    """Not a look at all CTAs: what a guide writes down of a step is as little with 64 as with 8."""
    def of_a_step(ctas):
        enabled = guided(ctas).enabled
        written = sum(len(tasks) + len(operations) for _, tasks, operations in enabled._wholes)
        return (written + sum(sum(map(len, changes)) for changes in enabled._changes if changes)) / len(enabled._changes)

    few, many = of_a_step(8), of_a_step(64)
    assert many < 1.5 * few < 6, (few, many)
