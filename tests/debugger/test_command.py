"""`mimw debug`: commands from the line, from a file and from the standard input; what each prints and refuses."""

import io
import sys

import pytest

from mimw.cli import main
from tests.kernels import debugged, two_tasks
from tests.kernels.lines import line_of

CASE = f"{debugged.__file__}:case"
LOAD = line_of(debugged.row_sums, "tile = tlx.local_load(ring[slot])")


def said(capsys, *words, status=0):
    assert main(["debug", *words]) == status
    return capsys.readouterr().out


def test_a_walk(capsys):
    told = said(capsys, CASE, "--do", f"b {LOAD} if row == 5; b; c; p row, slot; c; rc; cl 1; rc; n; rn; t; rt; ph full; rph; "
                                      "s 2; rs; u wait; ru load; g 3; w")
    parts = told.split("(mimw) ")
    assert parts[1].endswith(f"stop 1: line {LOAD} if row == 5\n") and f"stop 1: line {LOAD}" in parts[2]
    assert "breakpoint" in parts[3] and parts[4] == "p row, slot\n(3, 1)\n" and f"debugged.py:{LOAD}" in parts[5]
    assert "breakpoint" in parts[6] and "this is the beginning" in parts[8] and parts[19].startswith("g 3\nevent 3,")


@pytest.mark.parametrize("command, expected", [
    ("w", "> add"), ("tasks", "> add"), ("l", "add > "), ("barriers", "full[0]  phase"), ("buffers", "by tma_load of 'load'"),
    ("waits", "could have come from"), ("flights", "TMA load of 'load'"), ("pipes", "this kernel has no pipes"), ("v", "rows"),
    ("p ring[1]", "float32[1, 64]: min 192"), ("row + 1", "4"), ("task load", "load > "), ("task load 0,0,0", "load > "),
    ("task 4", "these CTAs run: (0, 0, 0)"), ("task no such", "has no task 'no such' now"), ("h", "back     rs rn rt"),
    ("help", "move     s [N]"), ("b nowhere", "is no line, barrier, buffer or task"), ("b ring[1]", "stop 1: a write of ring[1]"),
    ("g x", "'x' is no number"),
    ("p", "p needs an expression"), ("u", "u needs a line"), ("1 / 0", "ZeroDivisionError"), ("cl 9", "there is no stop 9")])
def test_looks_and_refusals(capsys, command, expected):
    assert expected in said(capsys, CASE, "--do", f"c; {command}")


def test_a_task_whose_name_ends_in_a_number(capsys):
    told = said(capsys, f"{two_tasks.__file__}:copy", "--args", "fp32[128]", "fp32[128]", "SIZE=128", "--do",
                "u task 1; u wait default; task default; task task 1; b wait task 1")
    assert "task 'task 1' of CTA (0, 0, 0) is about to do" in told and "default >" in told and "task 1 >" in told
    assert "stop 1: a wait of 'task 1'" in told


def test_commands_of_a_file_and_of_the_standard_input(capsys, tmp_path, monkeypatch):
    script = tmp_path / "walk.txt"
    script.write_text("# to the breakpoint\nc\n\np row\nq\np 1 + 1\n")
    told = said(capsys, CASE, "--commands", str(script))
    assert told.endswith("(mimw) p row\n3\n(mimw) q\n")
    monkeypatch.setattr(sys, "stdin", io.StringIO("c\np row\n"))
    assert said(capsys, CASE, "--commands", "-").endswith("(mimw) p row\n3\n")
    monkeypatch.setattr(sys, "stdin", io.StringIO("p N\n"))
    assert said(capsys, CASE).endswith("(mimw) p N\n64\n")


def test_the_run_of_a_finding(capsys):
    told = said(capsys, f"{debugged.__file__}:early", "--find", "--do", "p row")
    assert "in an error\nSlotReusedEarly" in told and "p row\n2" in told
    told = said(capsys, f"{debugged.__file__}:wrong", "--find", "--do", "rs 2; p sums.count")
    assert "in an error\nWrongResult" in told and told.endswith("p sums.count\n7\n")      # past its breakpoint
    assert main(["debug", CASE, "--find", "--do", "w"]) == 1
    assert "nothing found" in capsys.readouterr().err


def test_a_kernel_with_arguments_and_its_page(capsys, tmp_path):
    page = tmp_path / "run.html"
    words = [f"{two_tasks.__file__}:copy", "--args", "fp32[128]", "fp32[128]", "SIZE=128"]
    told = said(capsys, *words, "--html", str(page))
    assert f"page: {page}" in told and "(mimw)" not in told and "slider" in page.read_text()
    other = tmp_path / "again.html"
    assert f"page: {other}" in said(capsys, *words, "--do", f"s 3; page {other}") and other.exists()


@pytest.mark.parametrize("more, message", [(["--commands", "no_such_file"], "--commands no_such_file: No such file"),
                                           (["--html", "a.txt"], "should end in .html")])
def test_refused_before_the_run(capsys, more, message):
    assert main(["debug", CASE, *more]) == 1
    assert message in capsys.readouterr().err
