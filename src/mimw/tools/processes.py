"""Work in processes of its own, some at a time, each under a time limit: what hangs, crashes or fails ends nothing but itself.

Input: jobs, each a key and a function with its arguments. Output: an `Ended` for each, in the order in which they end:

    for one in run([("a", slow, (3, ))], processes=4, limit=30.0):
        print(one.key, one.how, one.value)              a done 7, or a hung None

A process is a fork of this one where this one has neither threads that matter nor touched a GPU, so it starts in milliseconds with
all that is imported here; else it is forked from a server that has imported nothing of a GPU either (Python's "forkserver", which
needs `if __name__ == "__main__":` in a script). It leads a group of its own, so that assemblers that it has started end with it,
and ends when its parent does, however that ends.
"""

from __future__ import annotations

import contextlib
import ctypes
import multiprocessing
import os
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from typing import Any

from .lifeline import end_with_parent

NOT_INITIALISED = 3     # CUDA_ERROR_NOT_INITIALIZED
PATIENCE = 10.0         # seconds in which a process that was killed should be gone
DONE, FAILED, CRASHED, HUNG = "done", "failed", "crashed", "hung"
_LAST_WORDS = 300       # characters


@dataclass(frozen=True)
class Ended:
    """The end of a job: `done` with a value; `failed` with an error; `crashed`, its process gone without a word; `hung`, ended
    by us after its time limit. `text` says more of the last three."""

    key: Any
    how: str
    value: Any = None
    text: str = ""
    seconds: float = 0.0


@dataclass
class _Running:
    key: Any
    process: multiprocessing.Process
    results: Connection
    said: Any
    begun: float
    deadline: float


def run(jobs: Iterable[tuple[Any, Callable, tuple]], processes: int, limit: float) -> Iterator[Ended]:
    """Each job's end. No more than `processes` run at a time, each for `limit` seconds at most."""
    context = multiprocessing.get_context("forkserver" if touched_a_gpu() else "fork")
    if context.get_start_method() == "forkserver":
        context.set_forkserver_preload(["torch", "mimw.tuning"])
    left, running = iter(jobs), []
    try:
        while True:
            while len(running) < processes and (job := next(left, None)) is not None:
                running.append(_start(context, *job, limit))
            if not running:
                return
            until = min(one.deadline for one in running) - time.monotonic()
            wait([item for one in running for item in (one.results, one.process.sentinel)], max(0.0, until))
            for one in list(running):
                if (ended := _ended(one, limit)) is not None:
                    running.remove(one)
                    yield ended
    finally:
        for one in running:
            _kill(one)


def alone(function: Callable, *args, limit: float) -> Ended:
    """One job."""
    return next(iter(list(run([("", function, args)], 1, limit))))


def touched_a_gpu() -> bool:
    """True if this process has started CUDA's driver, after which no copy of it can."""
    if "torch" not in sys.modules and "triton" not in sys.modules:
        return False
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return False
    return driver.cuCtxGetCurrent(ctypes.byref(ctypes.c_void_p())) != NOT_INITIALISED


def _start(context, key, function: Callable, args: tuple, limit: float) -> _Running:
    results, theirs = context.Pipe(duplex=False)
    said = tempfile.NamedTemporaryFile(prefix="mimw-tune-")     # noqa: SIM115  open until the process has ended
    sys.stdout.flush()
    sys.stderr.flush()
    parent = os.getpid() if context.get_start_method() == "fork" else None
    process = context.Process(target=_serve, args=(theirs, said.name, parent, dict(os.environ), function, args), daemon=False)
    process.start()
    theirs.close()
    now = time.monotonic()
    return _Running(key, process, results, said, now, now + limit)


def _serve(results: Connection, said: str, parent: int | None, environment: dict[str, str], function: Callable,
           args: tuple) -> None:
    """Run the job of this process, send its result, and end the process."""
    os.setsid()
    end_with_parent(parent)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.environ.update(environment)
    with open(said, "ab", 0) as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    sys.stdout = sys.stderr = open(1, "w", buffering=1, closefd=False)      # noqa: SIM115  whatever they were in the parent
    try:
        message = DONE, function(*args), ""
    except Exception as error:
        message = FAILED, None, f"{type(error).__name__}: {error}"
    results.send(message)
    results.close()
    os._exit(0)             # what a driver would still do at an exit may hang, too


def _ended(one: _Running, limit: float) -> Ended | None:
    """The end of the job; None while it runs."""
    seconds = time.monotonic() - one.begun
    if one.results.poll():
        try:
            how, value, text = one.results.recv()
        except (EOFError, OSError):
            how, value, text = CRASHED, None, ""
    elif not one.process.is_alive():
        how, value, text = CRASHED, None, ""
    elif time.monotonic() >= one.deadline:
        _kill(one)
        return Ended(one.key, HUNG, None, f"not done after {limit:g} seconds", seconds)
    else:
        return None
    one.process.join(PATIENCE)
    if how == CRASHED:
        text = f"{_status(one.process.exitcode)}{_last_words(one)}"
    _kill(one)
    return Ended(one.key, how, value, text, seconds)


def _status(code: int | None) -> str:
    if code is not None and code < 0:
        with contextlib.suppress(ValueError):
            return f"ended by {signal.Signals(-code).name}"
    return f"ended with status {code}"


def _last_words(one: _Running) -> str:
    with open(one.said.name, errors="replace") as file:
        said = " ".join(file.read().split())
    return f"; it said last: {said[-_LAST_WORDS:]}" if said else ""


def _kill(one: _Running) -> None:
    """The process and those that it has started are gone, unless the system cannot end them."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(one.process.pid, signal.SIGKILL)
    one.process.kill()      # one that has not come to lead its group yet; nothing if it has ended
    one.process.join(PATIENCE)
    one.results.close()
    one.said.close()
