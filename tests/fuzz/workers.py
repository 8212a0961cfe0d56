"""Many programs at once, each worker a process of its own that a hang, a crash or a CUDA error costs alone.

Input: jobs, and a function of a job that a worker calls. Output: (job, result) as they finish. A worker that dies, or takes longer
than the limit for one job, is replaced; what it was at is reported as that job's failure:

    for job, result in run_all(range(100), "tests.fuzz.worker:run_seed", workers=4, limit=60, until=time.time() + 500): ...
"""

from __future__ import annotations

import importlib
import multiprocessing
import os
import time
from collections.abc import Callable, Iterable, Iterator
from multiprocessing.connection import wait
from typing import Any

_CONTEXT = multiprocessing.get_context("spawn")


class Died(Exception):
    """The worker ended, or was ended, while it was at a job: `kind` says how."""

    def __init__(self, kind: str, detail: str):
        self.kind, self.detail = kind, detail
        super().__init__(f"{kind}: {detail}")


def _loop(pipe, function: str, options: dict) -> None:
    module, name = function.split(":")
    call: Callable = getattr(importlib.import_module(module), name)
    while True:
        try:
            job = pipe.recv()
        except EOFError:
            return
        if job is None:
            return
        pipe.send(call(job, **options))


class _Worker:
    """One process; `job` is what it is at, since `began`."""

    def __init__(self, function: str, options: dict):
        for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):  # the processes are as many as the cores
            os.environ.setdefault(name, "1")
        os.environ.setdefault("CUDA_DEVICE_MAX_CONNECTIONS", "32")  # before CUDA starts: ranks of a world wait for each other
        self.pipe, theirs = _CONTEXT.Pipe()
        self.process = _CONTEXT.Process(target=_loop, args=(theirs, function, options), daemon=True)
        self.process.start()
        theirs.close()
        self.job: Any = None
        self.began, self.fresh = 0.0, True

    def give(self, job) -> None:
        self.job, self.began = job, time.time()
        self.pipe.send(job)

    def end(self) -> str:
        """Stop the process; gives how it ended."""
        self.process.join(0.5 if self.process.is_alive() else 5)
        code = self.process.exitcode
        if self.process.is_alive():
            self.process.kill()
            self.process.join(10)
        self.pipe.close()
        return f"exit code {code}"


def run_all(
    jobs: Iterable[Any],
    function: str,
    workers: int,
    limit: float,
    until: float = float("inf"),
    options: dict | None = None,
    start_limit: float = 120.0,
) -> Iterator[tuple[Any, Any]]:
    """Yield (job, result or `Died`). No job starts after `until`, and those that run then are waited for 15 s more."""
    options, source = options or {}, iter(jobs)
    pool: list[_Worker] = []
    ended = False
    try:
        while True:
            now = time.time()
            while not ended and len([one for one in pool if one.job is not None]) < workers and now < until:
                try:
                    job = next(source)
                except StopIteration:
                    ended = True
                    break
                idle = next((one for one in pool if one.job is None), None)
                if idle is None:
                    pool.append(idle := _Worker(function, options))
                idle.give(job)
            busy = [one for one in pool if one.job is not None]
            if not busy or now > until + 15:
                return
            ready = wait([one.pipe for one in busy], timeout=0.5)
            for one in busy:
                if one.pipe in ready:
                    try:
                        result = one.pipe.recv()
                    except (EOFError, ConnectionResetError):
                        result = Died("crash", one.end())
                        pool.remove(one)
                    job, one.job, one.fresh = one.job, None, False
                    if isinstance(result, dict) and result.get(
                        "lost"
                    ):  # the CUDA context is gone, and the process with it
                        one.process.kill()
                        one.end()
                        pool.remove(one)
                    yield job, result
                elif time.time() - one.began > limit + (start_limit if one.fresh else 0):
                    one.process.kill()
                    one.end()
                    pool.remove(one)
                    yield one.job, Died("hang", f"more than {limit:.0f} s")
    finally:
        for one in pool:
            one.process.kill()
        for one in pool:
            one.process.join(5)


def cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
