"""One process of a long run: draws its cases, calls, compares, reports.

Input: a `Plan` and the numbers of cases. Output: a `Report` for each case, with the problem if there is one. For example:

    only(Plan(1, "cuda"), 4711)         one case, printed
"""

from __future__ import annotations

import time
import traceback
import warnings
from dataclasses import dataclass

LEAST = 1e-3    # what is 0 but for rounding, as the gradient of the queries of a single key, is allowed as much as this


@dataclass(frozen=True)
class Plan:
    """What settles the cases of a run, each called `repeats` times; `families` as in draws.py, `some` operators or, empty, all."""

    seed: int
    device: str
    some: tuple[str, ...] = ()
    repeats: int = 4
    families: int = 4


@dataclass(frozen=True)
class Report:
    """`case` counts the cases of this process; no operator: the process has ended, with `case` as its next one."""

    process: int
    case: int
    operator: str | None
    problem: str | None = None


def operators(some: tuple[str, ...] = ()) -> dict:
    """Name -> what draws a case of it."""
    from . import attentions, products, rows
    known = products.CASES | rows.CASES | attentions.CASES
    return {name: known[name] for name in some} if some else known


def problem_of(found: tuple, expected: tuple, allowed: float) -> str | None:
    """What is wrong, in words."""
    import torch
    for at, (one, other) in enumerate(zip(found, expected, strict=True)):
        if one.shape != other.shape:
            return f"result {at} is {tuple(one.shape)}, it must be {tuple(other.shape)}"
        if one.numel() == 0:
            continue
        one, other = one.double(), other.double()
        error = torch.where(one == other, 0.0, (one - other).abs())     # infinities that are alike do not differ
        largest, error = float(torch.where(other.isinf(), 0.0, other.abs()).max()), float(error.max())
        limit = allowed * max(largest, LEAST)
        if not error <= limit:
            return f"result {at} differs by {error:.3g} at most, at values up to {largest:.3g}; {limit:.3g} is allowed"
    return None


def tried(plan: Plan, number: int, known: dict) -> tuple[str, list, str | None]:
    """(operator, what was drawn, the problem)."""
    from .draws import Draw
    draw = Draw(plan.seed, number, plan.device, tuple(known), plan.families)
    try:
        case = known[draw.operator](draw)
        expected = case.expected()
        for _ in range(plan.repeats):
            problem = problem_of(case.found(), expected, case.allowed)
            if problem:
                return draw.operator, draw.said, problem
    except Exception:
        return draw.operator, draw.said, traceback.format_exc()[-3000:]
    return draw.operator, draw.said, None


def work(reports, plan: Plan, process: int, processes: int, first: int, cases: int, until: float) -> None:
    """Cases number process, process + processes, ... of the whole run, from the one called `first` on."""
    warnings.simplefilter("ignore")
    known, case = operators(plan.some), first
    while case < cases and time.time() < until:
        operator, said, problem = tried(plan, case * processes + process, known)
        reports.put(Report(process, case, operator, problem and f"{problem}\ndrawn: {said}"))
        if problem:
            return
        case += 1
    reports.put(Report(process, case, None))


def only(plan: Plan, number: int) -> bool:
    """Whether the case is wrong; prints what it is."""
    operator, said, problem = tried(plan, number, operators(plan.some))
    print(f"{operator}, drawn: {said}\n{problem or 'right'}", flush=True)
    return problem is not None
