"""The tables of rows that were kept, beside goals: which row counts, and what is below."""

import json

from benchmarks.driver import RESULTS
from benchmarks.orchestrate_recorded import tables


def test_the_newest_row_counts_and_what_is_below_its_goal_is_named(tmp_path):
    def row(name, plain, hand):
        baselines = {"plain": plain, "hand": hand}
        return {"name": f"orchestrate-{name}", "date": "2026-11-29", "microseconds": 100.0, "baselines": baselines}

    rows = [row("gemm-a", 90.0, 90.0), row("attention-full-1", 129.0, 94.4), row("gemm-a", 101.0, 98.0), row("cast", 110.0, 1.0),
            row("slow", 79.0, 1.0)]
    (tmp_path / "orchestrate.jsonl").write_text("".join(f"{json.dumps(one)}\n" for one in rows))
    other = {"name": "others-vllm-bmm", "date": "2026-11-30", "package": "vllm", "version": "1"}
    kept = [other | {"in_turn_us": {"plain": 220.0, "ours": 200.0, "hand": 100.0}}, other | {"in_turn_us": {"plain": 220.0}}]
    (tmp_path / "orchestrate_others.jsonl").write_text(json.dumps(kept[0]))
    lines = list(tables(tmp_path, ["gemm-a", "gemm-b", "attention-full-1", "cast", "slow"]))
    assert lines[2:7] == ["| gemm-a | 2026-11-29 | 1.01 | 1.0 | 0.98 | 0.97 |  |", "| gemm-b | not measured | | | | | |",
                          "| attention-full-1 | 2026-11-29 | 1.29 | 1.3 | 0.94 | 0.95 | plain and hand |",
                          "| cast | 2026-11-29 | 1.10 | 1.0 | 0.01 |  |  |",
                          "| slow | 2026-11-29 | 0.79 | 1.0 | 0.01 |  | plain (kept) |"]
    assert "1 of 34 measured, 1 at 1.1" in lines[8] and "| vllm-bmm | vllm 1 | 2026-11-30 | 1.10 | 0.50 |" in lines
    (tmp_path / "orchestrate_others.jsonl").write_text(json.dumps(kept[1]))
    lines = list(tables(tmp_path, []))
    assert "| vllm-bmm | vllm 1 | 2026-11-30 | stays plain |  |" in lines and "| fla-chunk-intra | | not measured | | |" in lines
    other |= {"name": "others-fla-chunk-intra", "is_used": False, "because": "ptxas spills"}
    (tmp_path / "orchestrate_others.jsonl").write_text(json.dumps(other))
    assert "| fla-chunk-intra | vllm 1 | not measured | stays plain: ptxas spills | |" in list(tables(tmp_path, []))


def test_every_row_of_the_repository_is_in_them():
    from benchmarks.orchestrate import CASES
    lines = "\n".join(tables(RESULTS, CASES))
    assert lines.count("\n| ") > 60 and "| fp8-joined-4096x4096x4096 | 2026-" in lines
