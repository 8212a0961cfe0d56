"""A row holds what makes a measurement worth reading."""

import json

from mimw.testing.benchmark import Row


def test_a_row_is_one_line_of_json(tmp_path):
    row = Row("gemm", {"m": 8192}, {"BM": 128}, microseconds=100.0, baselines={"cuBLAS": 110.0}, error=0.01,
              inputs="standard normal", chip="NVIDIA H200")
    row.write(tmp_path / "rows.jsonl")
    row.write(tmp_path / "rows.jsonl")
    lines = [json.loads(line) for line in (tmp_path / "rows.jsonl").read_text().splitlines()]
    assert [line["baselines"] for line in lines] == [{"cuBLAS": 110.0}] * 2
    assert row.ratios() == {"cuBLAS": 1.1}
    assert set(lines[0]) == {"name", "shape", "configuration", "microseconds", "baselines", "error", "inputs", "chip",
                             "versions", "date"}
    assert lines[0]["versions"]["triton"].startswith("3.9.")
