"""Random programs on several GPUs: a few are right, and found wrong when broken; every statement and every break is drawn."""

import pytest

from tests.fuzz.worker import run_mutant, run_seed
from tests.fuzz.world_runs import found, judged, launch
from tests.fuzz.worlds import world_program

SEEDS = (3, 4, 15, 26)


@pytest.mark.parametrize("seed", SEEDS)
def test_right_programs_are_right(seed):
    assert judged(seed, ("sim", "check")) == [("sim", "ok", ""), ("check", "ok", "")]


@pytest.mark.gpu
@pytest.mark.parametrize("seed", SEEDS)
def test_they_are_right_on_a_gpu(seed):
    """At all ranks side by side on one."""
    assert judged(seed, ("gpu", )) == [("gpu", "ok", "")]


@pytest.mark.parametrize("seed", SEEDS)
def test_broken_ones_are_found(seed):
    results = found(seed, 2)
    assert len(results) == 2 and all(one["verdict"] == "found" for one in results), results


def test_a_wrong_reading_is_seen(monkeypatch):
    """The sums of a program are compared with numpy's."""
    from tests.fuzz import world_runs
    monkeypatch.setattr(world_runs.WorldProgram, "expected", lambda self: self.inputs() + 100)
    assert judged(3, ("sim", ))[0][1] == "mismatch"


def test_every_statement_and_break_is_drawn():
    programs = [world_program(seed) for seed in range(150)]
    whys = {one.why for program in programs for one in program.breaks}
    assert len(whys) == 16, sorted(whys)
    words = " ".join(program.kernel for program in programs)
    for word in ("async_store(", "v = tle.reshard(", "v = tl.reshape(tle.reshard(", "v = tl.sum(tle.reshard(", 'fence("sys")',
                 "atomic_add", "distributed_barrier(mesh0[:, 1])", "world_barrier", 'op="set"',
                 *(f'compare="{compare}"' for compare in ("ge", "gt", "eq", "ne"))):
        assert word in words, word
    assert {program.gpus for program in programs} == {2, 3, 4, 5}
    assert all(program.broken(which) != program.kernel for program in programs[:40] for which in range(len(program.breaks)))


def test_the_command_takes_them():
    result = run_seed(15, ("compile", ), "worlds")
    assert result["family"] == "worlds" and result["outcomes"] == [("compile", "skipped", "of programs on one GPU")]
    assert run_mutant((15, 0), "worlds")["mutants"] == []
    assert launch(world_program(15))[1][0] in (1, 2)
