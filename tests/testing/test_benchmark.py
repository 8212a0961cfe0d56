"""A row holds what makes a measurement worth reading."""

import json
from collections import Counter
from itertools import pairwise, permutations

import pytest

from mimw.testing import benchmark
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


@pytest.mark.parametrize("count", range(1, 8))
def test_each_candidate_follows_each_other_one_and_begins_as_often(count):
    orders = benchmark._orders(list(range(count)))
    assert all(sorted(order) == list(range(count)) for order in orders)
    follows = Counter(pair for order in orders for pair in pairwise(order))
    assert set(follows) == set(permutations(range(count), 2))
    assert len({*follows.values()}) <= 1
    assert {*Counter(order[0] for order in orders).values()} == {2}
