"""The reversals that the search finds, against a search that holds each step against all that came before."""

import random

import pytest

from mimw.memory_model.past import ARRIVE, READ, WAIT, WRITE, Past, Thing
from mimw.simulator.machine.guide import Step
from mimw.simulator.search.explore import _reversals


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
