"""The long run of programs of several GPUs, short: it makes its cases, counts runs, and says what it finds."""

import pytest

from tests import world_soak
from tests.fuzz import world_runs
from tests.fuzz.worlds import world_program


@pytest.mark.parametrize("only", ["mesh of rows: gather", "collectives: all_gather direct, 3 ranks", "dispatch, 3 ranks"])
def test_a_case(only, capsys, monkeypatch):
    monkeypatch.setattr(world_soak, "SEEDS", 1)
    assert world_soak.main(["--seconds", "0.01", "--only", only]) == 0
    assert "runs of 1 of 1 cases, 0 with findings" in capsys.readouterr().out


def test_what_is_wrong_is_told(capsys, monkeypatch):
    program = world_program(4)
    broken = world_runs.launch(program, program.broken(0))
    monkeypatch.setattr(world_soak, "cases", lambda: iter([("worlds: a broken one", lambda: (*broken, {}))]))
    assert world_soak.main(["--seconds", "0.01", "--first", "5"]) == 1
    assert "FOUND worlds: a broken one, seeds from 5" in capsys.readouterr().out


def test_all_cases_have_names_of_their_own():
    names = [name for name, _ in world_soak.cases()]
    assert len(names) == len(set(names)) > 60 and {name.split(",")[0].split(":")[0] for name in names} == {
        "gather", "collectives", "dispatch", "products", "mesh of rows", "mesh of columns", "worlds"}
