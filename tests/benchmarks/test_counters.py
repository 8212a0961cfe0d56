"""Counters by ncu, whole but for the GPU and ncu: which calls run where, what is read out of ncu's table, which rows are kept."""

import json
import sys
from types import SimpleNamespace

import pytest

from benchmarks import counter_cases, counters, gemm, gpu

HEAD = ["ID", "Process ID", "Kernel Name", "Block Size", "Grid Size", *counters.METRICS.values()]


@pytest.fixture(autouse=True)
def said(monkeypatch):
    """What a fake torch and a fake mark were told, in order."""
    words = []
    event = SimpleNamespace(record=lambda: None, elapsed_time=lambda other: float(words[-1] == "slow"))
    profiler = SimpleNamespace(start=lambda: words.append("start"), stop=lambda: words.append("stop"))
    cuda = SimpleNamespace(is_available=lambda: True, get_device_name=lambda: "a chip", synchronize=lambda: None,
                           empty_cache=lambda: None, profiler=profiler, Event=lambda enable_timing: event)
    monkeypatch.setattr(counters, "torch", SimpleNamespace(cuda=cuda))
    monkeypatch.setattr(gpu, "torch", SimpleNamespace(cuda=cuda))
    monkeypatch.setattr(counters, "mark", lambda: lambda number: words.append(number))
    return words


def case_of(*names, sides, said):
    """A case whose calls say the last word of their names."""
    def measure():
        times = gemm.alternate({name: lambda name=name: said.append(name.split()[-1]) for name in names}, 200.0)
        return gpu.row_of("gemm-bf16-GH1", {"M": 1}, {"bm": 128}, {"mimw": 1.0, **times}, 0.0, "normal")

    return counter_cases.Case(measure, sides)


def test_each_wanted_call_runs_warm_and_then_behind_its_mark(said):
    timer = gemm.alternate
    facts = counters.run_here(case_of("mimw", "cuBLAS", "other", sides=("mimw", "cuBLAS"), said=said), 11)
    assert said == ["mimw", "start", 11, "mimw", "stop", "cuBLAS", "start", 12, "cuBLAS", "stop"]
    assert [(one["number"], one["side"], one["name"], one["chip"]) for one in facts] == [
        (11, "mimw", "gemm-bf16-GH1", "a chip"), (12, "cuBLAS", "gemm-bf16-GH1", "a chip")]
    assert gemm.alternate is timer


def table(*launches) -> str:
    """What ncu prints of launches given as (kernel, grid, values that are not 0)."""
    lines = ["==PROF== Connected", ",".join(f'"{name}"' for name in HEAD), ",".join('""' for _ in HEAD)]
    for number, (kernel, grid, values) in enumerate(launches):
        cells = [number, 7, kernel, "(384, 1, 1)", f"({grid}, 1, 1)", *(values.get(name, 0) for name in counters.METRICS)]
        lines.append(",".join(f'"{cell}"' for cell in cells))
    return "\n".join(lines)


LAUNCH = {"nanoseconds": "1,600,000", "clock": "1,500,000,000.00", "tensor": "93.5", "memory": 20, "l2": 75, "l2_hits": "n/a",
          "elapsed": "2,400,000", "active_least": "1,200,000", "active": "2,300,000", "active_most": "2,400,000", "conflicts": 5,
          "wavefronts": 100, "local_read": 2, "local_written": 1, "registers": 168, "bytes_read": "3,000", "bytes_written": 4,
          "stalled_barrier": 6, "stalled_long_scoreboard": 3, "stalled_wait": 1}
FACT = {"number": 12, "side": "mimw", "call": "mimw", "name": "gemm-bf16-GH1", "shape": {"M": 1}, "configuration": {},
        "chip": "a chip", "versions": {}, "date": "2026-01-02"}


def test_ncus_table_becomes_rows():
    """Marks say whose launches follow; a launch of less than 5 % of its call has no row."""
    text = table(("counters_mark", 11, {}), ("other", 132, LAUNCH), ("counters_mark", 12, {}), ("gemm", 132, LAUNCH),
                 ("add", 9, LAUNCH | {"nanoseconds": 400000}), ("small", 9, LAUNCH | {"nanoseconds": 900}))
    one, other = counters.rows_of([FACT], counters.launches_of("text of the program\n" + text))
    assert (one["kernel"], one["microseconds"], one["mhz"], one["tensor"], one["l2_hits"]) == ("gemm", 1600.0, 1500, 0.935, 0.0)
    assert one["stalls"] == {"barrier": 0.6, "long_scoreboard": 0.3, "wait": 0.1} and one["sm_active"] == [0.5, 0.9583, 1.0]
    assert (one["bytes"], one["local_bytes"], one["conflicts"], one["registers"]) == (3004, 96, 0.05, 168)
    assert (one["launches"], one["share"], other["kernel"], other["share"]) == (3, 0.7996, "add", 0.1999)
    assert "number" not in one and counters.launches_of("ncu: no table") == {}


def test_the_fastest_of_several_baselines_of_a_kind(said):
    case = case_of("mimw", "triton slow", "triton fast", sides=("triton", "none"), said=said)
    assert [one["call"] for one in counters.run_here(case, 1)] == ["triton fast"]


def test_the_command(tmp_path, monkeypatch, capsys):
    """Compiled by processes, then profiled by one under ncu; what fails there is a line, and does not end the others."""
    lines = []

    def fake(line, **_):
        lines.append(line)
        if line[0] == "ncu":
            counters.append(FACT, tmp_path / "facts")
            (tmp_path / "facts").rename(counters.os.environ[counters.FACTS])
        return SimpleNamespace(stdout=table(("counters_mark", 12, {}), ("gemm", 132, LAUNCH)) + "\nsparse: no time left\n"
                               if line[0] == "ncu" else "compiled\n")

    monkeypatch.setattr(counters, "ncu", lambda: "ncu")
    monkeypatch.setenv(counters.FACTS, "")
    monkeypatch.setattr(counters.subprocess, "run", fake)
    words = ["counters", "gemm-fp16-GH3", "norm-LN6", "cross-entropy", "--jobs", "2", "--results", str(tmp_path),
             "--report", str(tmp_path / "new" / "ncu.txt")]
    monkeypatch.setattr(sys, "argv", words)
    counters.main()
    printed = capsys.readouterr().out.splitlines()
    row, = map(json.loads, (tmp_path / "counters.jsonl").read_text().splitlines())
    assert row["tensor"] == 0.935 and "counters_mark" in (tmp_path / "new" / "ncu.txt").read_text()
    assert [line[line.index("benchmarks.counters") + 1:line.index("--seconds")] for line in lines] == [
        ["gemm-fp16-GH3", "cross-entropy"], ["norm-LN6"], words[1:4]]
    assert lines[2][1:5] == ["--clock-control", "none", "--profile-from-start", "off"] and printed[:2] == ["compiled"] * 2
    assert "sparse: no time left" in printed and printed[-1].startswith("gemm-bf16-GH1                mimw     gemm")
    assert "tensor 94%" in printed[-1] and "SMs 50% to 100%  barrier 60%, long_scoreboard 30%" in printed[-1]


def test_a_case_that_fails_does_not_end_the_others(said, tmp_path, monkeypatch, capsys):
    good = case_of("mimw", sides=("mimw", ), said=said)
    monkeypatch.setattr(counters, "CASES", {"bad": counter_cases.Case(lambda: 1 / 0, ()), "good": good})
    counters.run_all_here(["bad", "good"], tmp_path / "facts.jsonl", 60.0)
    counters.run_all_here(["good"], None, -1.0)
    assert capsys.readouterr().out.splitlines() == ["bad: ZeroDivisionError: division by zero", "good: mimw", "good: no time left"]
    assert json.loads((tmp_path / "facts.jsonl").read_text())["number"] == 11
