"""The families at the edges: a few seeds of each are right, their planted mistakes are found, and a wrong simulator is."""

import ml_dtypes
import numpy as np
import pytest

from mimw.compiler.triton_port import interpreter
from tests.fuzz.__main__ import main
from tests.fuzz.draws import Draws
from tests.fuzz.edges import EDGES
from tests.fuzz.families import GROUPS, WORLDS, chosen, group, program_of
from tests.fuzz.launch import compiled, differs, guarded, load, reference, run_program
from tests.fuzz.mutants import judged, mutants
from tests.fuzz.prelude import filled
from tests.fuzz.reproduction import written
from tests.fuzz.worker import due, run_mutant, run_seed
from tests.processes import python

SEEDS = (1, 2)
# How many kinds of mistakes the first 150 programs of a family can be given; none where nothing is synchronised.
MISTAKES = {"boxes": 4, "picks": 2, "tickets": 7, "rates": 20, "exits": 5, "whiles": 6, "overlays": 6, "planes": 5, "bodies": 2,
            "columns": 1, "weights": 1, "odd_buffers": 1}


def bad(program, folder, stages=("sim", "check")):
    return [one for one in run_program(program, stages, folder) if one.bad]


@pytest.mark.parametrize("family", EDGES)
def test_right_programs_are_right(family, tmp_path):
    for seed in SEEDS:
        assert bad(program_of(seed, family)[0], tmp_path) == []


@pytest.mark.gpu
@pytest.mark.parametrize("family", EDGES)
def test_they_are_right_on_a_gpu(family, tmp_path):
    for seed in SEEDS:
        assert bad(program_of(seed, family)[0], tmp_path, ("gpu", )) == []


@pytest.mark.parametrize("family", ["boxes", "casts", "locals", "rates"])
def test_they_compile(family, tmp_path):
    program = next(one for seed in range(20) if (one := program_of(seed, family)[0]).chip == "sm_90a")
    outcome = guarded("compile", lambda: compiled(program, load(program, tmp_path), "sm_90a"))
    assert not outcome.bad, outcome


@pytest.mark.parametrize("family", MISTAKES)
def test_planted_mistakes_are_found(family, tmp_path):
    found = judged(next(seed for seed in range(3, 40) if program_of(seed, family)[0].breaks), 2, family, str(tmp_path))["mutants"]
    assert found and [one for one in found if one["verdict"] != "found"] == []


def test_every_kind_of_mistake_is_drawn():
    """And each stands in its program once, so that it can be planted."""
    kinds = {family: set() for family in EDGES}
    for family in EDGES:
        for seed in range(150):
            program, _ = program_of(seed, family)
            for one in mutants(program, {}):
                assert one.source != program.kernel
                kinds[family].add(one.change)
    assert {family: len(whys) for family, whys in kinds.items() if whys} == MISTAKES


# ---- the reference -------------------------------------------------------------------------------------------------------


def test_the_references_do_without_mimw():
    code = ("import sys; sys.modules['mimw'] = None; sys.modules['triton'] = None\nfrom tests.fuzz.edges import EDGES\n"
            "from tests.fuzz.families import program_of\nfrom tests.fuzz.launch import reference\n"
            "print(sum(len(reference(program_of(seed, family)[0])[0]) for family in EDGES for seed in range(3)))")
    done = python("-c", code, timeout=120)
    assert done.returncode == 0 and int(done.stdout) > 80, done.stderr


def seen(family, tmp_path, seeds=25):
    """The kinds of failures of the first programs of a family."""
    return {one.kind for seed in range(seeds) for one in bad(program_of(seed, family)[0], tmp_path, ("sim", ))}


def test_a_cast_that_does_not_saturate_is_found(tmp_path, monkeypatch):
    monkeypatch.setattr(interpreter, "cast_float", lambda data, target, rounding="RTNE": np.asarray(data).astype(target)[()])
    assert seen("casts", tmp_path) == {"mismatch"}


def test_a_maximum_that_hands_a_nan_on_is_found(tmp_path, monkeypatch):
    from mimw.simulator.words import tiles
    monkeypatch.setitem(tiles._FP32, "maxnumf", np.maximum)
    assert "mismatch" in seen("nonfinite", tmp_path)


def test_the_numbers_at_which_a_type_turns():
    numbers = filled(("edges", 3), (4, 16), np.int16)
    assert numbers.shape == (4, 16) and {-32768, 32767, 0, -1} <= set(numbers.reshape(-1).tolist())
    floats = filled(("edges", 3, ("nan", )), (64, ), ml_dtypes.float8_e5m2).astype(np.float32)
    assert np.isinf(floats).any() and not np.isnan(floats).any() and 57344 in floats
    assert filled(("listed", (1, 2, 3)), (4, ), np.int32).tolist() == [1, 2, 3, 1]


def test_what_differs():
    nan, top = np.float32("nan"), (1 << 63) - 1
    assert differs(np.array([nan, 1]), np.array([nan, 1]), 0.0) == ""
    assert "1 of 2" in differs(np.array([nan, 1]), np.array([1, 1]), 0.0)
    assert differs(np.array([top]), np.array([top - 1]), 0.0) and not differs(np.array([nan, 1.0]), np.array([nan, 1.01]), 0.1)


# ---- the command ---------------------------------------------------------------------------------------------------------


def test_groups_of_families(capsys):
    assert {chosen(seed, "edges") for seed in range(200)} == {*EDGES, WORLDS} == set(group("edges"))
    assert {*EDGES, WORLDS, "plain", "mesh"} <= set(group("all")) and set(GROUPS) == {"blackwell", "amd", "edges", "all"}
    assert main(["0", "6", "--family", "edges", "--stages", "sim", "--jobs", "1"]) == 0
    assert "6 programs, 0 failures" in capsys.readouterr().out


def test_a_world_among_the_others():
    seed = next(seed for seed in range(400) if chosen(seed, "edges") == WORLDS)
    assert run_seed(seed, ("sim", ), "edges")["family"] == run_mutant((seed, 0), "edges")["family"] == WORLDS


def test_a_stage_for_some_of_the_programs():
    stages = "sim", "compile sm_90a/4"
    assert [due(stages, seed) for seed in (3, 8)] == [("sim", ), ("sim", "compile sm_90a")]


def test_a_failure_as_a_file(tmp_path):
    """It holds all that it needs, special numbers included."""
    for family in ("nonfinite", "boxes"):
        file = tmp_path / f"{family}.py"
        file.write_text(written(program_of(2, family)[0], "sim", "mismatch", "planted"))
        done = python(file, timeout=120)
        assert done.stdout.strip() == "no failure", done.stderr


def test_a_record_is_a_program():
    """Any shorter one makes a valid one, too, whose reference runs."""
    for family in EDGES:
        _, draws = program_of(5, family)
        assert program_of(5, family, draws.record)[0] == program_of(5, family)[0]
        for length in (0, len(draws.record) // 2):
            reference(program_of(5, family, draws.record[:length])[0])
    assert Draws(record=[]).pick("ab") == "a"
