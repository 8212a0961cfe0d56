"""A smaller program that fails in the same way, as one file that reproduces it alone.

Input: a seed, its family and the failing stage and kind. Output: the shortest record of draws found whose program still
fails so, and its file. In a record smaller numbers mean simpler choices, and a shorter one means that the rest are the
simplest, so shrinking is taking spans out, setting numbers to zero and halving them, as long as the failure stays:

    small = shrunk(Failure(17, "looped", "gpu", "mismatch"), still_fails)
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from .families import ORDINARY, WORLDS, program_of
from .reproduction import written
from .worker import Records


@dataclass(frozen=True)
class Failure:
    """What failed: the program of `seed` in `family`, at `stage`, with `kind`."""

    seed: int
    family: str
    stage: str
    kind: str


def shrunk(failure: Failure, fails: Callable[[list[int]], bool], until: float = float("inf")) -> list[int]:
    """The smallest record found. `fails(record)` says whether its program fails as the failure does."""
    program_of = _drawn(failure.family)
    _, draws = program_of(failure.seed, failure.family)
    best, spans = list(draws.record), list(draws.spans)

    def attempt(record: list[int]) -> bool:
        nonlocal best, spans
        if record == best or time.time() > until or not fails(record):
            return False
        try:
            _, replayed = program_of(failure.seed, failure.family, record)
        except Exception:
            return False
        best, spans = list(replayed.record), list(replayed.spans)  # what was really asked for: shorter, and clipped
        return True

    progress = True
    while progress and time.time() < until:
        before = size(best)
        _take_out_spans(attempt, lambda: spans, lambda: best)
        _cut(attempt, lambda: best)
        _lower(attempt, lambda: best)
        progress = size(best) < before
    return best


def _drawn(family: str) -> Callable:
    """The function that makes a program of a family from a seed and a record."""
    if family != ORDINARY:
        return program_of
    from .ordinary.draw import drawn

    return lambda seed, family, record=None: drawn(seed, record)


def size(record: Sequence[int]) -> tuple[int, int]:
    return len(record), sum(record)


def _take_out_spans(attempt, spans, best) -> None:
    """Statements, from the largest to the smallest."""
    tried: set[tuple[int, int]] = set()
    while True:
        left = sorted(
            (span for span in spans() if span not in tried and span[1] > span[0]), key=lambda span: span[0] - span[1]
        )
        if not left:
            return
        start, end = left[0]
        tried.add((start, end))
        record = best()
        if attempt(record[:start] + record[end:]) or attempt(record[:start] + [0] * (end - start) + record[end:]):
            tried.clear()


def _cut(attempt, best) -> None:
    """The tail, then ever smaller stretches."""
    length = max(1, len(best()) // 2)
    while length >= 1:
        start = len(best()) - length
        while start >= 0:
            record = best()
            attempt(record[:start] + record[start + length :])
            start = min(start, len(best())) - length
        length //= 2


def _lower(attempt, best) -> None:
    """Each number: none, half, one less."""
    for index in range(len(best())):
        for smaller in (lambda number: 0, lambda number: number // 2, lambda number: number - 1):
            record = best()
            if index < len(record) and record[index] > 0:
                attempt([*record[:index], smaller(record[index]), *record[index + 1 :]])


# ---- the command ---------------------------------------------------------------------------------------------------------


def shrink_all(failures, options, most: int = 5, seconds: float = 120.0) -> list[Path]:
    """A small file for the first failures of each stage and kind, in `options.out`."""
    folder, done, paths = Path(options.out), set(), []
    folder.mkdir(parents=True, exist_ok=True)
    for seed, family, stage, kind in failures:
        if (family, stage, kind) in done or len(done) >= most or stage in ("generate", "reference"):
            continue
        if family == WORLDS:  # these print their source
            continue
        done.add((family, stage, kind))
        failure = Failure(seed, family, stage, kind)
        path = folder / f"{family}_{seed}_{stage.replace(' ', '_')}.py"
        path.write_text(reproduced(failure, options.limit, seconds))
        print(f"shrunk {seed} {family} {stage}: {path}", flush=True)
        paths.append(path)
    return paths


def reproduced(failure: Failure, limit: float, seconds: float) -> str:
    """The text of the small file."""
    detail = {"": ""}
    with Records(failure.stage, failure.family, limit) as records:

        def fails(record: list[int]) -> bool:
            for stage, kind, text in records.outcomes(failure.seed, record):
                if (stage, kind) == (failure.stage, failure.kind):
                    detail[""] = text
                    return True
            return False

        record = shrunk(failure, fails, time.time() + seconds)
    program, _ = _drawn(failure.family)(failure.seed, failure.family, record)
    if failure.family == ORDINARY:
        about = detail[""].replace("\n", "\n# ")
        return f"# {failure.kind}\n# {about}\n{program.source}\n# {program.grid}, {program.sizes}, {program.constants}\n"
    return written(program, failure.stage, failure.kind, detail[""])
