"""The benchmark of the operators' host time, whole but for the GPU: launches are left out, as without one."""

import json
import sys

import pytest

torch = pytest.importorskip("torch", reason="operators need torch: make test TORCH=torch==VERSION+cpu")

from benchmarks import ops_overhead  # noqa: E402
from mimw.ops import log  # noqa: E402
from mimw.ops.launching import Launch  # noqa: E402
from mimw.ops.plans import look  # noqa: E402


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
        assert set(row["microseconds"]) == {"torch", "mimw", "mimw, operator", "mimw, gradient", "mimw, logged"}
        assert row["above_torch"] == round(row["microseconds"]["mimw"] - row["microseconds"]["torch"], 2)
    assert [row["questions"] for row in rows] == [{"explain": 2, "log": 0}, {"explain": 1, "log": 0}]


def test_tensors_of_a_gpu_ask_nothing():
    class OfAGpu:
        shape, dtype = (4, ), torch.float32
        stride = data_ptr = get_device = staticmethod(lambda: 0)

    assert ops_overhead.questions(lambda: look(OfAGpu())) == {"explain": 0, "log": 0}
    assert ops_overhead.questions(lambda: look(torch.zeros(4))) == {"explain": 1, "log": 0}
    with ops_overhead.logged():
        assert ops_overhead.questions(lambda: log.left_to_torch("matmul", "nothing", ()))["log"] >= 2
    assert not log.LOGGER.handlers
