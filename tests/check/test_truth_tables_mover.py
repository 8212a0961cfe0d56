"""Truth tables of copies by AMD's tensor data mover: a ring of two slots, and a buffer that is stored and written again.

The counter is the task's own (`s_wait_tensorcnt`), so each table has one task; what goes to another one takes a barrier besides.
"""

from dataclasses import replace

import pytest

from benchmarks.mutants import mutants
from mimw.compiler.passes import run_passes
from mimw.runtime.simulate import prepare
from mimw.target import target
from mimw.tools.check import Search
from tests.kernels.data_mover import rings

from .tables import right, rows, states


@states("tdm_load", "tdm_store", "tdm_wait")
def mover_ring(pending=1, early=False, again=True, finish=True, n=4):
    return rings(n, PENDING=pending, EARLY=early, AGAIN=again, FINISH=finish)


@rows("early", "again", "finish")
def test_a_ring_of_the_data_mover(early, again, finish):
    """Right iff a slot is filled when it has been read, and a store is waited for before its buffer is written and at the end."""
    assert right(mover_ring(early=early, again=again, finish=finish)) == (not early and again and finish)


@pytest.mark.parametrize("pending", [0, 1, 2])
def test_copies_that_may_still_run(pending):
    """Right iff all copies but the one for the next trip are waited for."""
    assert right(mover_ring(pending)) == (pending <= 1)


def test_a_wait_that_is_weak_is_not_seen_in_one_trip():
    """With one block the second copy is the one that nobody reads."""
    assert right(mover_ring(pending=1, n=1)) and not right(mover_ring(pending=2, n=1))


def test_mutants_of_the_waits():
    """Each wait dropped, or for one copy less, is noticed; but for the one behind the loop, which a later one stands in for."""
    kernel, grid, args, meta = mover_ring()
    launch = prepare(kernel, grid, args, {name: value for name, value in meta.items() if name != "target"}, "gfx1250")
    waits = [mutant for mutant in mutants(launch.recorded) if mutant.word == "tdm_wait" and "past" not in mutant.change]
    assert {mutant.change for mutant in waits} == {"drop", "wait for one less"} and len(waits) == 8
    left = [mutant for mutant in waits if Search(replace(launch, program=run_passes(mutant.program, target("gfx1250")))).all(
        1, "random", 0, shrink=False).ok]
    assert len(left) == 2 and len({mutant.site for mutant in left}) == 1
