"""Runs side by side in forked processes, their results in order.

Input: a function of a run's number, and how many runs and processes there are. Output: the results, in the order of the numbers.

    crew = Crew(8, run, jobs=2)             run(0) ... run(7), each in this process or in a copy of it
    for result in crew: ...                 in the order of the numbers, whichever run ended first
    crew.look()                             called often inside of `run`: the moment at which copies are worth it may be in a run

No process is forked before the runs have taken a while (START), so small checks stay in one process. From then on this process
and `jobs - 1` copies each take the next number, until none is left. A copy has everything that this process has (the recorded
program, the arrays, which it writes for itself alone), and hands back results that pickle. What a run prints comes out in order,
too.

A run that goes wrong in a copy (an error that is no result, no memory, an end by a signal) is made again in this process, so
errors are raised where they would be in one process, and with their traceback. Copies do not hear the keyboard's interrupt; they
are ended with the iteration, however it ends, and with this process, whatever ends it.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import io
import math
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection, Pipe, wait
from pathlib import Path
from typing import Any

import numpy as np

from ...errors import SimulatorMisuse
from ..lifeline import end_with_parent

START = 0.05        # seconds of work before a copy may be worth its start
WORTH = 0.1         # seconds that copies must be expected to save
LEAVES = 0.02       # seconds within which a thread that has ended leaves the system's list
AGAIN, DONE = "again", "done"
_NUMBER = 4         # bytes of a number in the pipe that hands them out
_MOST = 10_000      # numbers handed out at once: they have to fit into a pipe


def job_count(jobs: int | None) -> int:
    """The number of processes that is asked for: `jobs`, or MIMW_JOBS, or as many as this process may use cores."""
    text = os.environ.get("MIMW_JOBS") if jobs is None else None
    if text:
        if not text.isdigit() or not int(text):
            raise SimulatorMisuse(f"MIMW_JOBS={text} should be a number of processes, 1 or more")
        return int(text)
    if jobs is None:
        return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if isinstance(jobs, bool) or not isinstance(jobs, int) or jobs < 1:
        raise SimulatorMisuse(f"jobs is {jobs!r}; it may be a number of processes, 1 or more")
    return jobs


def may_fork() -> bool:
    """True if a copy of this process would work: only the thread that forks lives on in a copy, and a lock that another one
    holds is never released there; a copy of a process with a CUDA context cannot use it."""
    if not hasattr(os, "fork") or threading.active_count() > 1 or threading.current_thread() is not threading.main_thread():
        return False
    processes, torch = sys.modules.get("multiprocessing.process"), sys.modules.get("torch")
    if processes is not None and processes.current_process().daemon:
        return False        # who made it wants no further processes from it
    if torch is not None and torch.cuda.is_initialized():
        return False
    _end_openblas_threads()
    try:
        return _alone(time.monotonic() + LEAVES)
    except OSError:
        return False


def _alone(deadline: float) -> bool:
    """True if this process has one thread; those of torch and of drivers count, which Python does not know. A thread that has
    been joined is on the system's list a moment longer."""
    while len(os.listdir("/proc/self/task")) > 1:
        if time.monotonic() >= deadline:
            return False
        time.sleep(0.001)
    return True


def _end_openblas_threads() -> None:
    """numpy's OpenBLAS ends its threads before a fork anyway, and starts them again when it wants them. Ended before, they are not
    mistaken for others."""
    for path in (Path(np.__file__).parents[1] / "numpy.libs").glob("libscipy_openblas*"):
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(str(path)).blas_thread_shutdown_()      # the one that numpy has loaded already


class Crew:
    """`run(number)` for the numbers below `count`; iterate once. After `deadline`, a time of `time.monotonic`, no further run is
    started but the first. `allowed()` is asked once, before the first fork."""

    def __init__(self, count: int, run: Callable[[int], Any], jobs: int = 1, deadline: float = math.inf,
                 allowed: Callable[[], bool] = lambda: True):
        self.count, self.run, self.jobs, self.deadline, self.allowed = count, run, jobs, deadline, allowed
        self.begun = time.monotonic()
        self.taken = self.done = 0
        self.next_look = self.begun + START if jobs > 1 else math.inf
        self.workers: dict[Connection, int] = {}        # what a copy writes to, and its process id
        self.pipe = -1                                  # a pipe with the numbers that nobody has taken
        self.chunk = 1

    def look(self) -> None:
        """Start copies now if that is worth it."""
        if time.monotonic() >= self.next_look:
            self._consider()

    def __iter__(self) -> Iterator[Any]:
        try:
            while self.taken < self.count and not self.workers and not (self.taken and self._over()):
                self.taken += 1
                result = self.run(self.taken - 1)
                self.done += 1
                self.look()
                yield result
            if self.workers:
                yield from self._together()
        finally:
            self._end()

    def _over(self) -> bool:
        return time.monotonic() >= self.deadline

    def _consider(self) -> None:
        now, left = time.monotonic(), self.count - self.taken
        self.next_look = now + START
        helpers = min(self.jobs - 1, left)
        each = (now - self.begun) / max(1, self.done)
        if helpers < 1 or left * each * helpers / (helpers + 1) < WORTH:
            return
        self.next_look = math.inf
        if may_fork() and self.allowed():
            self._start(helpers)

    # ---- copies -----------------------------------------------------------------------------------------------------

    def _start(self, helpers: int) -> None:
        self.pipe, giver = os.pipe()
        self.chunk = -(-(self.count - self.taken) // _MOST)
        with open(giver, "wb") as numbers:
            for first in range(self.taken, self.count, self.chunk):
                numbers.write(first.to_bytes(_NUMBER, "little"))
        sys.stdout.flush()
        sys.stderr.flush()
        here = os.getpid()
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            for _ in range(helpers):
                read, write = Pipe(duplex=False)
                try:
                    process = os.fork()
                except OSError:         # no memory, or no more processes: those that there are do it
                    read.close()
                    write.close()
                    break
                if not process:
                    self._serve(write, here)
                write.close()
                self.workers[read] = process
        finally:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})

    def _serve(self, results: Connection, parent: int) -> None:
        """Make the runs of this copy, send the result of each, and end the copy."""
        try:
            end_with_parent(parent)
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
            gc.freeze()         # what the copy was born with is never looked through, so its pages stay shared
            self.next_look = math.inf
            for other in self.workers:
                other.close()
            for number in self._numbers():
                results.send((number, self._quietly(number)))
            results.send(DONE)
        except BaseException:   # the reader has gone, or a result does not pickle: the run is made again there
            os._exit(1)
        os._exit(0)

    def _numbers(self) -> Iterator[int]:
        """The next number that nobody has taken, until there are none or it is too late."""
        while taken := os.read(self.pipe, _NUMBER):
            first = int.from_bytes(taken, "little")
            for number in range(first, min(self.count, first + self.chunk)):
                if self._over():
                    return
                yield number

    def _quietly(self, number: int):
        """(result, what it printed), or AGAIN."""
        printed = io.StringIO()
        try:
            with contextlib.redirect_stdout(printed):
                return self.run(number), printed.getvalue()
        except Exception:
            return AGAIN

    # ---- this process -----------------------------------------------------------------------------------------------

    def _together(self) -> Iterator[Any]:
        """The results that are still to come, in order; this process takes numbers, too."""
        known: dict[int, Any] = {}
        following = self.taken
        for number in self._numbers():
            known[number] = self._quietly(number)
            self._hear(known, 0)
            while following in known:
                yield self._told(following, known.pop(following))
                following += 1
        while self.workers:
            self._hear(known, None)
            while following in known:
                yield self._told(following, known.pop(following))
                following += 1
        for number in range(following, self.count):         # gaps: of a copy that has ended, or because it was too late
            if number in known or not self._over():
                yield self._told(number, known.pop(number, AGAIN))

    def _hear(self, known: dict[int, Any], timeout: float | None) -> None:
        """Read what copies have sent; without a timeout, once at least."""
        while self.workers and (ready := wait(list(self.workers), timeout)):
            for worker in ready:
                try:
                    message = worker.recv()
                except Exception:       # it has ended before its time
                    message = DONE
                if message == DONE:
                    self._reap(worker)
                else:
                    known[message[0]] = message[1]
            timeout = 0

    def _told(self, number: int, result):
        if result == AGAIN:
            return self.run(number)
        value, printed = result
        if printed:
            sys.stdout.write(printed)
        return value

    def _reap(self, worker: Connection) -> None:
        process = self.workers.pop(worker)
        worker.close()
        with contextlib.suppress(ChildProcessError):
            os.waitpid(process, 0)

    def _end(self) -> None:
        """No copy lives on."""
        for worker, process in list(self.workers.items()):
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
            self._reap(worker)
        if self.pipe >= 0:
            os.close(self.pipe)
            self.pipe = -1
