"""What benchmarks share: command lines, candidates in turn or tried, rows of JSON."""

import json
import platform
import sys
from types import SimpleNamespace

import pytest

from benchmarks import driver, gpu

FAKE_GPU = SimpleNamespace(cuda=SimpleNamespace(is_available=lambda: True, get_device_name=lambda: "a chip"))


def test_a_command_line_has_the_options_that_are_asked_for(tmp_path):
    one = driver.command("One.", rounds=3).parse_args(["--rounds", "5"])
    assert vars(one) == {"rounds": 5, "results": driver.RESULTS}
    other = driver.command("Other.", tune=True, ms=20.0).parse_args(["--tune", "--ms", "7.5", "--results", str(tmp_path / "new")])
    assert vars(other) == {"tune": True, "ms": 7.5, "results": tmp_path / "new"}


@pytest.mark.parametrize("name, made", [("rows.jsonl", False), ("rows", True)])
def test_results_that_are_a_file_are_refused_with_the_folder(name, made, tmp_path, capsys):
    file = tmp_path / name
    if made:
        file.touch()
    with pytest.raises(SystemExit):
        driver.command("One.").parse_args(["--results", str(file)])
    said = capsys.readouterr().err
    assert f"{file} is a file, and rows go to a folder" in said and f"name the folder, {tmp_path}, or a new one" in said


def test_cases_are_named_or_all():
    parser = driver.command("One.")
    driver.some_of(parser, "tokens", (256, 512), int)
    assert parser.parse_args([]).tokens == []
    assert parser.parse_args(["512", "256"]).tokens == [512, 256]


def test_an_unknown_case_is_refused_with_those_there_are(capsys):
    parser = driver.command("One.")
    driver.some_of(parser, "shapes", {"GH1": (1, 2), "GH2": (3, 4)})
    with pytest.raises(SystemExit):
        parser.parse_args(["GH3"])
    assert "GH3 is none of GH1, GH2" in capsys.readouterr().err


def test_every_round_begins_with_another_candidate():
    asked = []
    found = driver.in_turn({name: lambda name=name: asked.append(name) or len(asked) for name in "abc"}, 2)
    assert asked == list("abcbca") and found == {"a": [1, 6], "b": [2, 4], "c": [3, 5]}


def test_rows_are_appended_and_their_folder_is_made(tmp_path):
    file = tmp_path / "new" / "rows.jsonl"
    driver.append({"b": 1, "a": 2}, file)
    assert driver.append({"b": 1, "a": 2}, file, sort_keys=False) == '{"b": 1, "a": 2}'
    assert file.read_text() == '{"a": 2, "b": 1}\n{"b": 1, "a": 2}\n'


def test_a_kept_row_has_the_facts_of_the_machine_and_is_printed(tmp_path, capsys):
    driver.keep_row({"name": "one", "seconds": 2.5}, tmp_path / "rows.jsonl")
    printed = capsys.readouterr().out
    assert printed == (tmp_path / "rows.jsonl").read_text()
    row = json.loads(printed)
    assert row["seconds"] == 2.5 and row["python"] == platform.python_version()
    assert row.keys() == {"name", "seconds", "cores", "date", "python", "numpy", "triton"}


def test_a_row_of_times_has_the_baselines_beside_ours(tmp_path, monkeypatch):
    monkeypatch.setattr(gpu, "torch", FAKE_GPU)
    row = gpu.row_of("gemm", {"M": 8}, {"bm": 4}, {"cuBLAS": 30.0, "mimw": 20.0, "Gluon": 10.0}, 0.25, "ones")
    assert (row.microseconds, row.chip, row.ratios()) == (20.0, "a chip", {"cuBLAS": 1.5, "Gluon": 0.5})
    gpu.keep(row, tmp_path / "rows" / "gemm.jsonl")
    written = json.loads((tmp_path / "rows" / "gemm.jsonl").read_text())
    assert written["baselines"] == {"cuBLAS": 30.0, "Gluon": 10.0} and written["error"] == 0.25
    assert written["versions"]["code"] == driver.code() and len(driver.code()) == 8
    assert written.keys() == {"name", "shape", "configuration", "microseconds", "baselines", "error", "inputs", "chip", "versions",
                              "date"}


def test_a_search_goes_on_past_a_candidate_that_fails(capsys):
    def measure(chosen):
        if chosen == "bad":
            raise ValueError("too large")
        return chosen.upper()

    assert list(gpu.tried("GH1", ["one", "bad", "two"], measure, go_on=True)) == ["ONE", "TWO"]
    assert capsys.readouterr().out == "GH1 bad: ValueError: too large\n"
    rows = gpu.tried("GH1", ["one", "bad"], measure, go_on=False)
    assert next(rows) == "ONE"
    with pytest.raises(ValueError, match="too large"):
        next(rows)


def test_the_last_line_of_a_table():
    assert gpu.summary([0.5, 2.0, 1.0], "cuBLAS") == "geometric mean of 3 ratios to cuBLAS: 1.000, lowest 0.500"
    assert gpu.summary([1.5], "torch.topk", digits=2) == "geometric mean of 1 ratios to torch.topk: 1.50, lowest 1.50"


@pytest.mark.parametrize("torch", [None, SimpleNamespace(cuda=SimpleNamespace(is_available=lambda: False))])
def test_without_a_gpu_a_benchmark_says_so(torch, monkeypatch, capsys):
    monkeypatch.setattr(gpu, "torch", torch)
    monkeypatch.setattr(sys, "argv", ["benchmark"])
    with pytest.raises(SystemExit):
        gpu.parsed(driver.command("One."))
    assert "needs torch and a CUDA device" in capsys.readouterr().err
