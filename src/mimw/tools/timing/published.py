"""Benchmarks of published scripts, under Triton's names.

Input: nothing. Output: `triton.testing` predicts where launches are simulated, in this process:

    answer_benchmarks()
    triton.testing.do_bench(step)           what `mimw.predict` says of the launches of step()
"""

from __future__ import annotations

from ...compiler.triton_port import published
from .bench import predicted_in_place_of
from .perf_report import predicted_marks


def answer_benchmarks() -> None:
    """Let `do_bench` and its kin and `perf_report` predict. Idempotent."""
    published.answer_benchmarks(predicted_in_place_of, predicted_marks)
