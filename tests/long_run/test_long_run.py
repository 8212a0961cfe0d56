"""The long run finds what is wrong, repeats it, goes on where it was, and draws the same again: on the simulator, tiny."""

import json

import pytest

torch = pytest.importorskip("torch", reason="operators need torch: make test TORCH=torch==VERSION+cpu")

from mimw import ops  # noqa: E402
from tests.long_run import __main__ as command  # noqa: E402
from tests.long_run import worker  # noqa: E402
from tests.long_run.draws import Draw  # noqa: E402


@pytest.fixture(autouse=True)
def here(monkeypatch):
    """One process, this one."""

    class Context:
        Queue = __import__("queue").Queue

        class Process:
            def __init__(self, target, daemon, args):
                self.start, self.terminate = lambda: target(*args), lambda: None

    monkeypatch.setattr(command.multiprocessing, "get_context", lambda kind: Context)


def run(tmp_path, capsys, *words):
    status = command.main(["--device", "cpu", "--processes", "1", "--journal", str(tmp_path / "journal"), "--operators", "swiglu",
                           "--repeats", "1", *words])
    return status, capsys.readouterr().out.splitlines()


def test_it_runs_and_goes_on(tmp_path, capsys):
    status, printed = run(tmp_path, capsys, "--launches", "2", "--seed", "3")
    assert status == 0 and printed[-1].startswith("2 launches of 1 operators") and printed[-2] == "swiglu 2"
    assert json.loads((tmp_path / "journal").read_text()) == {"seed": 3, "processes": 1, "families": 4, "process": 0, "next": 2}
    status, printed = run(tmp_path, capsys, "--launches", "3", "--seed", "3")
    assert status == 0 and printed[-1].startswith("3 launches") and printed[-2] == "swiglu 1"


def test_it_stops_at_what_is_wrong(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(ops, "swiglu", lambda gate, up: gate + up)
    status, printed = run(tmp_path, capsys, "--launches", "9", "--seed", "3")
    assert status == 1 and "WRONG: case 0, swiglu: result 0 differs by" in printed[0]
    assert printed[-1] == "python -m tests.long_run --seed 3 --only 0 --operators swiglu"
    assert command.main([*printed[-1].split()[3:5], "--only", "0", "--device", "cpu", "--operators", "swiglu"]) == 1


def test_every_operator_is_drawn():
    names = {"norm": {"layer_norm", "rms_norm"}, "softmax": {"softmax", "log_softmax"}}
    covered = {name for operator in worker.operators() for name in names.get(operator, {operator})}
    assert covered == set(ops.__all__) - {"Available", "Explanation", "SimulationWarning", "TopK", "available", "explain"}


def test_a_case_is_the_same_wherever_it_is_drawn():
    one, other = (Draw(1, 7, "cpu", ("rope", "topk")) for _ in range(2))
    assert one.operator == other.operator and torch.equal(one.normal(3), other.normal(3)) and one.said == other.said
