"""Operators whose plans are forgotten for a test.

Input: names of operators whose calls are planned (mimw.ops.planned). Output: none. For example:

    anew(monkeypatch, "topk")       what `mimw::topk` has planned is not known during the test, and what it plans not after it
"""

from mimw.ops.operator import OPERATORS
from mimw.ops.plans import Plans


def anew(monkeypatch, *names: str) -> None:
    for name in names:
        planned = OPERATORS[name].planned
        monkeypatch.setattr(planned, "plans", Plans(planned.plans.make))


__all__ = ["anew"]
