"""`--html`: the page of what a command found, beside what the command prints."""

import json

import pytest

from mimw.cli import main
from tests.kernels import tma_pipeline

FILE = tma_pipeline.__file__


def test_check_writes_a_page_of_what_it_found_and_of_nothing(tmp_path, capsys):
    path = tmp_path / "page.html"
    assert main(["check", f"{FILE}:released_before_the_wait", "--seeds", "1", "--mend-time", "0", "--html", str(path)]) == 1
    assert f"page: {path}" in capsys.readouterr().out and "OperandOverwritten" in path.read_text()
    assert main(["check", f"{FILE}:right_pipeline", "--seeds", "1", "--no-rounds", "--json", "--html", str(path)]) == 0
    told = capsys.readouterr()
    assert json.loads(told.out)["ok"] and f"page: {path}" in told.err and "nothing found in 1 run" in path.read_text()


def test_the_timeline_of_a_run_that_fails_ends_at_the_error(tmp_path, capsys, monkeypatch):
    for name in ("MIMW_SIMULATE", "MIMW_TIMELINE"):
        monkeypatch.setenv(name, "")
    path = tmp_path / "page.html"
    assert main(["simulate", "--timeline", str(path), f"{FILE}:first_wait_with_parity_0"]) == 1
    told, page = capsys.readouterr(), path.read_text()
    assert f"timeline, up to the error: {path}" in told.err and "WaitCycle" in told.err
    assert "WaitCycle" in page and 'class="found"' in page and 'id="N1"' in page


@pytest.mark.parametrize("command, said", [("explain", "places of the compiled kernel"), ("predict", "Longest waits")])
def test_explain_and_predict(command, said, tmp_path, capsys):
    path = tmp_path / "page.html"
    assert main([command, f"{FILE}:right_pipeline", "--html", str(path)]) == 0
    assert f"page: {path}" in capsys.readouterr().out and said in path.read_text()


def test_what_cannot_be_written_is_refused_before_the_work(tmp_path, capsys):
    for wrong, said in (("page.pdf", "should end in .html"), (f"{tmp_path}/none/page.html", "there is no folder")):
        assert main(["check", f"{FILE}:right_pipeline", "--html", wrong]) == 2
        assert said in capsys.readouterr().err
