"""What a worker process does with one seed: make the program, run its stages, say what came of it, in plain data.

run_seed(17, stages=("sim", "check"), folder="/tmp/x")      # {"seed": 17, "family": "looped", "outcomes": [("sim", "ok", "")], ..}
"""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
import time
import traceback
import warnings
from typing import Any

from .families import ORDINARY, WORLDS, chosen
from .workers import Died, run_all

_STATE: dict[str, Any] = {"runs": 0, "cache": ""}
_KEEP = 150  # programs between two empty compile caches


def _prepare() -> str:
    """A folder of this process's own for sources and Triton's cache; made anew now and then, so that neither grows."""
    if _STATE["runs"] % _KEEP == 0:
        if _STATE["cache"]:
            shutil.rmtree(_STATE["cache"], ignore_errors=True)
        _STATE["cache"] = tempfile.mkdtemp(prefix="mimw-fuzz-")
        os.environ["TRITON_CACHE_DIR"] = _STATE["cache"]
    _STATE["runs"] += 1
    return _STATE["cache"]


def run_seed(
    seed: int, stages: tuple[str, ...], family: str | None = None, record=None, chip: str | None = None
) -> dict[str, Any]:
    """The outcomes of one program, for its own chip or for `chip`. A CUDA error ends the process after the answer, since the
    context is lost."""
    began = time.time()
    folder = _prepare()
    family, stages = chosen(seed, family), due(stages, seed)
    result: dict[str, Any] = {"seed": seed, "family": family, "outcomes": []}
    with (
        warnings.catch_warnings(),
        open(os.devnull, "w") as nowhere,
        contextlib.redirect_stdout(nowhere),
        contextlib.redirect_stderr(nowhere),
    ):
        warnings.simplefilter("ignore")
        try:
            if family == WORLDS:
                from .world_runs import judged

                result["outcomes"] = judged(seed, stages)
            elif family == ORDINARY:
                from .ordinary.judge import judged as under_plans

                found = under_plans(seed, stages, record)
                result["outcomes"] = found.outcomes
                result["loops"] = {"with products": found.loops, "orchestrated": found.orchestrated, "plans": found.plans}
                result["steps"] = found.seconds
            else:
                from .families import program_of
                from .launch import borrowed, run_program

                program, _ = program_of(seed, family, record)
                program = borrowed(program, chip) if chip else program
                result["outcomes"] = [(one.stage, one.kind, one.detail) for one in run_program(program, stages, folder)]
        except Exception:
            result["outcomes"] = [("generate", "broken", traceback.format_exc()[-900:])]
    result["seconds"] = time.time() - began
    lost = any(
        stage == "gpu" and kind.startswith("internal") and _says_cuda(detail)
        for stage, kind, detail in result["outcomes"]
    )
    result["lost"] = lost
    return result


def due(stages: tuple[str, ...], seed: int) -> tuple[str, ...]:
    """The stages that the program of a seed is to go through: "compile sm_90a/8" is for each eighth seed."""
    parts = [stage.partition("/") for stage in stages]
    return tuple(stage for stage, _, each in parts if seed % int(each or 1) == 0)


def _says_cuda(detail: str) -> bool:
    return any(
        word in detail for word in ("CUDA error", "illegal", "Triton Error [CUDA]", "launch failure", "misaligned")
    )


def run_mutant(job: tuple[int, int], family: str | None = None) -> dict[str, Any]:
    """The verdicts on the mutants of a seed's program, `job[1]` of them at most."""
    family = chosen(job[0], family)
    if family == WORLDS:
        from .world_runs import found

        began = time.time()
        return {"seed": job[0], "family": WORLDS, "mutants": found(*job), "seconds": time.time() - began}
    from .mutants import judged

    return judged(job[0], job[1], family, _prepare())


def run_record(job: tuple[int, tuple[int, ...]], stage: str, family: str) -> dict[str, Any]:
    """One stage of the program that a record makes."""
    return run_seed(job[0], (stage,), family, list(job[1]))


class Records:
    """A worker that runs records one after the other, and a new one after each that takes it down.

    with Records("sim", "looped", limit=60) as records:
        records.outcomes(17, [0, 3, 1])
    """

    def __init__(self, stage: str, family: str, limit: float):
        self.options, self.limit = {"stage": stage, "family": family}, limit
        self._next: list = []

    def __enter__(self):
        self._results = run_all(
            iter(self._next.pop, None), "tests.fuzz.worker:run_record", 1, self.limit, options=self.options
        )
        return self

    def __exit__(self, *_):
        self._results.close()

    def outcomes(self, seed: int, record) -> list[tuple[str, str, str]]:
        self._next.append((seed, tuple(record)))
        _, result = next(self._results)
        return [(self.options["stage"], result.kind, result.detail)] if isinstance(result, Died) else result["outcomes"]
