"""The benchmark of the operators' host time, whole but for the GPU: launches are left out, as without one."""

import json
import sys

import pytest

torch = pytest.importorskip("torch", reason="operators need torch: make test TORCH=torch==VERSION+cpu")

from benchmarks import ops_overhead  # noqa: E402
from mimw.ops.launching import Launch  # noqa: E402


def test_a_row_for_each_case(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(Launch, "__call__", Launch.__call__)     # put back after the test
    monkeypatch.setattr(torch, "set_num_threads", lambda count: None)
    monkeypatch.setattr(ops_overhead, "CALLS", 2)
    monkeypatch.setattr(sys, "argv", ["ops_overhead", "matmul", "topk", "--rounds", "1", "--results", str(tmp_path)])
    ops_overhead.main()
    rows = [json.loads(line) for line in (tmp_path / "ops_overhead.jsonl").read_text().splitlines()]
    assert [row["case"] for row in rows] == ["matmul", "topk"]
    for row in rows:
        assert set(row["microseconds"]) == {"torch", "mimw", "mimw, operator", "mimw, gradient"}
        assert row["above_torch"] == round(row["microseconds"]["mimw"] - row["microseconds"]["torch"], 2)
