"""Whether a program with joined scales gives the results of its author's, but for roundings.

Input: a `Plain` launch whose scales were joined, and the launches of its proof. Output: a line for each of these, as the
certificate keeps them, and what is wrong. For example:

    lines, wrong = within(plain, pairs, run)
    lines[0]        {"sizes": {"K": 256}, .., "others": 913, "apart": 0.25, "of_bound": 0.49}: 913 elements have other bits, the
                    most that one is apart is 0.25, and the most of its own bound 0.49

Three programs run on the same arrays: the author's, the one with joined scales, and the one that computes bounds
(`compiler/orchestrate/rounding_bounds.py`). An element that is further from the author's than its bound is a mistake of the
rewriting: a scale that is missing, or another one's.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...compiler.orchestrate.rounding_bounds import rounding
from ...errors import SimulationError
from ...runtime.host import element_name
from .comparisons import Pair
from .inputs import as_array, equal_bits
from .loaded import changed
from .plain import Plain, with_program


def within(plain: Plain, launches: Sequence[Pair], run: Callable[..., None]) -> tuple[list[dict[str, Any]], str]:
    """The lines of the launches, and a sentence on the first element that is further away than its bound. `run` runs some
    programs of a launch; a launch at which the author's kernel fails has no line."""
    lines: list[dict[str, Any]] = []
    seen = set()
    for pair in launches:
        key = repr((pair.sizes, pair.grid, pair.programs))
        if key in seen:
            continue
        seen.add(key)
        author, joined, bounds = (plain.with_values(changed(plain.arguments, pair.sizes)) for _ in range(3))
        try:
            run(author.author, pair.grid, pair.programs)
        except SimulationError:
            continue
        if joined.rewritten is None or not joined.rewritten.joins:      # another specialisation, of which nothing is joined
            continue
        run(joined.launch, pair.grid, pair.programs)
        found = joined.rewritten.bounds
        run(with_program(bounds.launch, found.program, plain.chip), pair.grid, pair.programs)
        line: dict[str, Any] = {"sizes": dict(pair.sizes), "grid": list(pair.grid), "others": 0, "apart": 0.0, "of_bound": 0.0}
        for name, value in author.arguments.items():
            if as_array(value) is None:
                continue
            wrong = _compare(line, name, *(as_array(one.arguments[name]) for one in (author, joined, bounds)), name in found.names)
            if wrong:
                return [*lines, line], f"the program with joined scales is not the plain kernel's but for roundings: {wrong}"
        lines.append(line)
    return lines, ""


def _compare(line: dict[str, Any], name: str, author: np.ndarray, joined: np.ndarray, bound: np.ndarray, has_bound: bool) -> str:
    """A sentence on the first element that is too far away; notes in `line` how far the others are."""
    others = np.argwhere(~equal_bits(author, joined))
    if not len(others):
        return ""
    if not has_bound:
        return f"{name} has other bits, and no product with joined scales is stored there"
    at = tuple(others.T)
    relative, least = rounding(element_name(author.dtype))
    wanted, ours, most = (array[at].astype(np.float64) for array in (author, joined, bound))
    apart, most = np.abs(wanted - ours), most * (1 + 2 * relative) + least
    bad = np.flatnonzero(~(apart <= most))
    if len(bad):
        first = bad[0]
        place = ", ".join(map(str, others[first]))
        return (f"{name}[{place}] is {ours[first]:.6g}, {wanted[first]:.6g} in the plain kernel, and roundings are at most "
                f"{most[first]:.3g}")
    line["others"] += len(others)
    line["apart"] = max(line["apart"], float(apart.max()))
    line["of_bound"] = max(line["of_bound"], round(float((apart / most).max()), 3))
    return ""
