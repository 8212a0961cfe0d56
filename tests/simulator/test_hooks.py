"""`Hooks`: how a caller takes part in a run."""

import numpy as np
import pytest
import triton.language as tl

import mimw
from mimw.errors import UnwrittenRead
from mimw.runtime.simulate import prepare
from mimw.simulator import Guide, Hooks, run, watching
from mimw.simulator.machine.interpreter import prepare as made_ready
from mimw.simulator.machine.poison import DataNeeded
from mimw.tlx import async_task, async_tasks, local_alloc, local_load


@mimw.jit
def numbered(y_ptr):
    tl.store(y_ptr + tl.program_id(0), tl.program_id(0) + 1)


@mimw.jit
def numbered_by_tasks(y_ptr):
    with async_tasks():
        with async_task("default"):
            tl.store(y_ptr + 2 * tl.program_id(0), 1)
        with async_task(num_warps=4):
            tl.store(y_ptr + 2 * tl.program_id(0) + 1, 1)


@mimw.jit
def reads_what_nobody_has_written(y_ptr):
    tile = local_alloc((16, ), tl.float32, 1)
    tl.store(y_ptr + tl.arange(0, 16), local_load(tile[0]) * 0)


def launched(kernel, size: int, grid: int, **how):
    y = np.zeros(size, np.float32)
    launch = prepare(kernel, (grid, ), (y, ), {}, "sm_90a")
    return run(launch.program, launch.grid, launch.values, **how), y


def test_the_clusters_that_run_in_their_order():
    seen = []

    def look(machine) -> bool:
        seen.append({cta.index[0] for cta in machine.ctas.values()})
        return True

    _, y = launched(numbered, 4, 4, hooks=Hooks(clusters=([(3, 0, 0)], [(1, 0, 0)]), look=look))
    assert y.tolist() == [0, 2, 0, 4] and set.union(*seen) == {1, 3}


@pytest.mark.parametrize("seed", [0, 3, Guide(())])
def test_a_look_before_each_step_until_it_says_no(seed):
    steps, machines, token = [], [], watching.set(lambda machine: machines.append(machine))

    def look(machine) -> bool:
        assert machine is machines[0]
        steps.append(machine.step)
        return len(steps) < 3

    try:
        _, y = launched(numbered_by_tasks, 8, 4, seed=seed, hooks=Hooks(look=look))
    finally:
        watching.reset(token)
    assert steps == [0, 1, 2] and y.all() and machines[0].step > 3


@pytest.mark.parametrize("seed", [0, 3])
def test_a_look_changes_nothing(seed):
    found = [launched(numbered_by_tasks, 8, 4, seed=seed, trace=True, hooks=hooks)[0].trace.events
             for hooks in (None, Hooks(), Hooks(look=lambda machine: True))]
    assert found[0] and found[0] == found[1] == found[2]


class Stores:
    """Skips the stores of a program."""

    given: dict = {}

    def code(self, block, num_warps, done):
        code = made_ready(block, num_warps, done)
        code.steps = [step for step in code.steps if step[0].name != "store"]
        return code


def test_what_is_skipped_is_not_done():
    _, y = launched(numbered, 4, 4, hooks=Hooks(skipped=Stores()))
    assert not y.any()
    assert launched(numbered, 4, 4)[1].all()


def test_what_is_needed_of_what_was_skipped_is_said():
    with pytest.raises(DataNeeded):
        launched(reads_what_nobody_has_written, 16, 1, hooks=Hooks(skipped=Stores()))
    with pytest.raises(UnwrittenRead):
        launched(reads_what_nobody_has_written, 16, 1)
