"""A search on a device that is none: what fails ends nothing but itself, what was killed goes on, what was pruned says why."""

import json
import os
import signal
import time

import pytest

from mimw.tools.processes import touched_a_gpu
from mimw.tuning import TuningError, engine, tune
from tests.tuning.fakes import Fake, compiled, predicted

pytestmark = pytest.mark.skipif(touched_a_gpu(), reason="steps are replaced here, which only a fork inherits")


@pytest.fixture(autouse=True)
def steps(monkeypatch):
    monkeypatch.setattr(engine.work, "predicted", predicted)
    monkeypatch.setattr(engine.work, "compiled", compiled)


def states(report):
    return {one.chosen.kind: one.state for one in report.found[report.problems[0]]}


def texts(report):
    return {one.chosen.kind: one.text for one in report.found[report.problems[0]]}


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    """One search with everything in it, and what it told."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(engine.work, "predicted", predicted)
        patched.setattr(engine.work, "compiled", compiled)
        told = []
        operator = Fake(["good", "better", "hangs", "crashes", "fails", "wrong", "spills", "large", "impossible", "unpredicted",
                         "raises", "slow", "slower"], tmp_path_factory.mktemp("search"), today="used")
        report = tune(operator, ["8:causal"], "fp16", keep=0.8, jobs=3, time_limit=0.5, tell=told.append)
    return operator, report, told


def test_whatever_goes_wrong_ends_nothing_but_itself(found):
    _, report, _ = found
    assert states(report) == {
        "used": "measured", "good": "measured", "better": "measured", "unpredicted": "measured", "hangs": "hung",
        "crashes": "crashed", "fails": "failed", "wrong": "wrong", "spills": "spills", "large": "refused", "impossible": "refused",
        "raises": "failed", "slow": "pruned", "slower": "pruned"}


def test_each_says_why(found):
    said = texts(found[1])
    assert said["hangs"] == "not done after 0.5 seconds"
    assert said["crashes"] == "ended by SIGKILL; it said last: an illegal instruction was met"
    assert said["fails"] == "RuntimeError: no such layout" and said["wrong"] == "wrong: error 1.0e+00"
    assert said["spills"] == "64 bytes of local memory a thread, 0 are let through"
    assert said["large"].startswith("300000 bytes of shared memory, 67552 more") and said["impossible"] == "n must be even"
    assert said["slow"] == "predicted 500.0 us, 6.250 x the best (80.0 us); kept: the best 8 of 10, up to 100.0 us"
    assert "SimulatorMisuse" in said["raises"]


def test_only_what_is_left_is_compiled_and_only_what_compiles_well_is_measured(found):
    operator, *_ = found
    assert not {"large", "slow", "slower", "impossible", "raises"} & set(operator.noted("compiled"))
    assert set(operator.noted("compiled")) - set(operator.noted("measured")) == {"spills"}
    assert operator.noted("measured")[:2] == ["better", "good"], "what is predicted to be best comes first"


def test_the_report_and_its_best(found):
    _, report, told = found
    best = report.best(report.problems[0])
    assert (best.chosen.kind, best.microseconds, best.ratio) == ("better", 80.0, 1.25)
    text = str(report)
    assert "fake 8:causal fp16 on a chip: 14 candidates, 4 measured" in text and "kind=used *" in text
    assert "best: kind=better (1.250 x the library's own choice, by their ratios to baseline)" in text
    assert "not predicted: kind=unpredicted: the bounds of a loop depend on data" in text
    assert "left out, hung: kind=hangs: not done after 0.5 seconds" in text
    assert report.rows() == [{"n": 8, "configuration": {"kind": "better", "n": 0}}]
    assert told[0] == "fake 8:causal fp16 on a chip: 14 candidates"
    assert "2 do not fit, 2 pruned by prediction, 9 go on" in told
    assert told[-1].endswith("; the best so far 80.0 us, 1.250 x baseline: kind=better")
    assert json.loads(json.dumps(report.as_json()))["problems"][0]["candidates"][0]["configuration"] == {"kind": "better", "n": 0}


def test_a_search_goes_on_where_it_was(tmp_path):
    operator, journal = Fake(["good", "crashes", "spills"], tmp_path), tmp_path / "journal"
    first = tune(operator, ["8"], journal=journal, jobs=2)
    lines = journal.read_text().splitlines(keepends=True)
    kept = [line for line in lines if json.loads(line)["step"] != "measured on a chip"][:-1]
    journal.write_text("".join(kept) + lines[-1][:40])          # killed while it wrote
    operator.seen.unlink()
    told = []
    again = tune(operator, ["8"], journal=journal, jobs=2, tell=told.append)
    assert states(again) == states(first) and told[0].endswith(f"3 candidates, 3 of them known from {journal}")
    assert operator.noted("predicted") == [] and len(operator.noted("compiled")) == 1 and len(operator.noted("measured")) == 2
    operator.seen.unlink()
    assert states(tune(operator, ["8"], journal=journal)) == states(first) and not operator.seen.exists()
    operator.source = "another"     # of another version of the kernel nothing is known
    tune(operator, ["8"], journal=journal, measure=False)
    assert len(operator.noted("predicted")) == 3


def test_a_killed_search_leaves_no_process_and_goes_on(tmp_path):
    operator, journal = Fake(["good", "hangs"], tmp_path), tmp_path / "journal"
    child = os.fork()
    if not child:
        try:
            tune(operator, ["8"], journal=journal, jobs=1)
        finally:
            os._exit(0)
    deadline = time.monotonic() + 20
    while "hangs" not in operator.noted("measured") and time.monotonic() < deadline:
        time.sleep(0.02)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    report = tune(operator, ["8"], journal=journal, time_limit=0.3)
    assert states(report) == {"good": "measured", "hangs": "hung"}
    assert operator.noted("measured") == ["good", "hangs", "hangs"] and len(operator.noted("compiled")) == 2


def test_without_a_device_it_ranks_and_says_so(tmp_path):
    report = tune(Fake(["good", "better", "spills"], tmp_path, device=None), ["8"])
    assert states(report) == {"good": "ranked", "better": "ranked", "spills": "spills"} and report.rows() == []
    assert report.best(report.problems[0]).chosen.kind == "better" and "nothing was measured: there is no GPU here" in str(report)


def test_a_gpu_of_another_kind_measures_nothing(tmp_path):
    told = []
    report = tune(Fake(["good"], tmp_path), ["8"], target="sm_100a", tell=told.append)
    assert report.device is None and told[0] == "a chip is no sm_100a: nothing is measured"


def test_what_the_library_uses_is_measured_whatever_is_predicted(tmp_path):
    report = tune(Fake(["good", "better"], tmp_path, today="slow"), ["8"], keep=0.1, least=1)
    assert states(report) == {"slow": "measured", "good": "pruned", "better": "measured"}


def test_fields_are_set(tmp_path):
    report = tune(Fake(["good"], tmp_path, device=None), ["8"], fields={"n": (1, 2)}, journal=None)
    assert [one.chosen.n for one in report.found[report.problems[0]]] == [1, 2]
    with pytest.raises(TuningError, match="has no 'm'.*\n.*kind, n"):
        tune(Fake(["good"], tmp_path, device=None), ["8"], fields={"m": (1, )})


@pytest.mark.parametrize("shape, dtype, said", [
    ("8x8", None, "'8x8' is no shape of fake"), ("0", None, "'0' is no shape"), ("8:full", None, "knows no 'full'"),
    ("8", "fp8", "not tuned for 'fp8'")])
def test_refuses(tmp_path, shape, dtype, said):
    with pytest.raises(TuningError, match=said):
        tune(Fake([], tmp_path), [shape], dtype)


def test_a_journal_that_is_none(tmp_path):
    (tmp_path / "notes").write_text("my notes\nof today\n")
    with pytest.raises(TuningError, match="line 1, is no line"):
        tune(Fake(["good"], tmp_path), ["8"], journal=tmp_path / "notes")
    assert (tmp_path / "notes").read_text() == "my notes\nof today\n"
