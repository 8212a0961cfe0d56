"""A plugin of pytest: the tests run in processes forked from the one that has collected them.

    python -m pytest --forked 2         two workers; --forked 0, as without the option, runs all tests in this process
    python -m pytest --forked 2 -x      the first failure ends all

Input: the collected tests. Output: pytest's own reports and warnings, as if one process had run them. Importing Triton, torch and
all tests takes as long as a thousand tests: it is done once, and what a worker says of a test that passes is a few numbers. A
worker takes one module of tests after the other, so that what a module shares is made once, and at the end half of what another
has left. Where a signal ends one another takes its place and runs that test again: ended twice, the test fails, by name; once, a
warning says so. Both have the modules that the process had run, in their order, and where Python was. (One
that ended so was found: benchmarks/notes/test-suite.md, "A worker that died".) On a GPU each worker starts CUDA for itself, so the
process that collects must not: where something has made it do so, all tests run there, and a warning says so. A worker whose
device refuses all launches, behind a test that failed, makes place for another one, and so does one that has taken much memory,
behind its module (tests/worker_memory.py). At the end stands how long the tests took:

    2770 tests: 3891 s in 15 processes
"""

from __future__ import annotations

import atexit
import ctypes
import faulthandler
import multiprocessing
import os
import pickle
import selectors
import signal
import struct
import sys
import tempfile
import traceback
import warnings
from itertools import groupby

import pytest

from tests import gpu_workers
from tests.worker_memory import WorkerMemory

NOBODY = -1
SPENT = 75         # the exit status of a worker that makes place for another one


class Share:
    """In memory that all workers share: what each has left of its module, the test that it runs, and the one behind."""

    def __init__(self, items: list, workers: int) -> None:
        self.starts = [next(tests)[0] for _, tests in groupby(enumerate(items), lambda numbered: numbered[1].path)] + [len(items)]
        self.lock = multiprocessing.Lock()
        self.following = multiprocessing.RawValue(ctypes.c_int, 0)      # the next module that nobody has
        self.ranges = multiprocessing.RawArray(ctypes.c_int, 2 * workers)
        self.running = multiprocessing.RawArray(ctypes.c_int, [NOBODY] * workers)
        self.behind = multiprocessing.RawArray(ctypes.c_int, [NOBODY] * workers)
        self.again = multiprocessing.RawArray(ctypes.c_int, [NOBODY] * workers)     # under which the process before has died

    def take(self, worker: int) -> int:
        """The number of the next test of this worker, or NOBODY."""
        with self.lock:
            if self._left(worker) <= 0 and not self._module(worker) and not self._steal(worker):
                return NOBODY
            self.ranges[2 * worker] += 1
            return self.ranges[2 * worker] - 1

    def _left(self, worker: int) -> int:
        return self.ranges[2 * worker + 1] - self.ranges[2 * worker]

    def _module(self, worker: int) -> bool:
        index = self.following.value
        if index + 1 == len(self.starts):
            return False
        self.following.value = index + 1
        self.ranges[2 * worker:2 * worker + 2] = self.starts[index:index + 2]
        return True

    def _steal(self, worker: int) -> bool:
        other = max(range(len(self.running)), key=self._left)
        if self._left(other) < 2:
            return False
        end = self.ranges[2 * other + 1]
        middle = end - self._left(other) // 2
        self.ranges[2 * other + 1] = middle
        self.ranges[2 * worker:2 * worker + 2] = [middle, end]
        return True


class Worker:
    """A process that runs tests, and says what came of them through a pipe."""

    def __init__(self, session, share: Share, number: int) -> None:
        self.session, self.share, self.number, self.read = session, share, number, b""
        self.pipe, write = os.pipe()
        self.trace = tempfile.TemporaryFile()       # what is left of a process that dies: its modules, then its stack
        for stream in (sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__):
            stream.flush()
        self.process = os.fork()
        if not self.process:
            os.close(self.pipe)
            self.pipe = write
            os._exit(self._run())
        os.close(write)

    def _run(self) -> int:
        try:
            atexit._clear()
            faulthandler.enable(self.trace)
            self._own_files()
            plugins = self.session.config.pluginmanager
            plugins.unregister(name="terminalreporter")
            plugins.register(said := Said(self), "mimw-said")
            said.begun = True
            self._tests(said)
            atexit._run_exitfuncs()
            return SPENT if said.spent else 0
        except BaseException:
            os.write(2, traceback.format_exc().encode())
            return 1

    def _own_files(self) -> None:
        """The files into which output is caught, and the folder for temporary ones, are not those of the other workers."""
        capture = self.session.config.pluginmanager.getplugin("capturemanager")
        capture.stop_global_capturing()
        capture.start_global_capturing()
        folders = self.session.config._tmp_path_factory
        folders._basetemp = folders.getbasetemp() / f"worker{os.getpid()}"
        folders._basetemp.mkdir(0o700)

    def _tests(self, said: Said) -> None:
        """A test is told of the one behind it, so that it leaves in place what both need: two are taken from the share. A worker
        that is spent leaves the one behind to the next."""
        items, share, number = self.session.items, self.share, self.number
        again, share.again[number] = share.again[number], NOBODY
        if again != NOBODY:
            share.running[number] = again
        else:
            share.running[number] = share.take(number) if share.behind[number] == NOBODY else share.behind[number]
        module, memory = None, WorkerMemory()
        while share.running[number] != NOBODY:
            if module != (module := items[share.running[number]].nodeid.partition("::")[0]):
                os.write(self.trace.fileno(), f"    {module}\n".encode())
            if again == NOBODY or share.behind[number] == NOBODY:
                share.behind[number] = share.take(number)
            again = NOBODY
            item, behind = items[share.running[number]], share.behind[number]
            said.spent = behind != NOBODY and items[behind].path != item.path and memory.is_spent()
            item.config.hook.pytest_runtest_protocol(
                item=item, nextitem=None if behind == NOBODY or said.spent else items[behind])
            if said.spent:
                share.running[number] = NOBODY
                return
            share.running[number] = behind

    def say(self, kind: str, *what) -> None:
        message = pickle.dumps((kind, what))
        message = memoryview(struct.pack("<I", len(message)) + message)
        while message:
            message = message[os.write(self.pipe, message):]

    def heard(self) -> list | None:
        """What the worker has said since; None once it has ended."""
        more = os.read(self.pipe, 1 << 20)
        messages, self.read = [], self.read + more
        while len(self.read) >= 4 and len(self.read) >= 4 + (length := struct.unpack_from("<I", self.read)[0]):
            messages.append(pickle.loads(self.read[4:4 + length]))
            self.read = self.read[4 + length:]
        return messages if more else None


class Said:
    """In a worker, in place of pytest's terminal. Of a phase that passed it says the number of the test, and what differs."""

    def __init__(self, worker: Worker) -> None:
        self.worker, self.config, self.begun, self.spent = worker, worker.session.config, False, False

    def pytest_runtest_logreport(self, report):
        if report.passed and not report.longrepr and not hasattr(report, "wasxfail"):
            self.worker.say("passed", self.worker.share.running[self.worker.number],
                            {name: getattr(report, name) for name in
                             ("when", "sections", "duration", "start", "stop", "user_properties")})
        else:
            self.worker.say("not_passed", self.config.hook.pytest_report_to_serializable(config=self.config, report=report))
        self.spent = self.spent or report.failed and gpu_workers.is_broken()

    def pytest_warning_recorded(self, warning_message, when, nodeid, location):
        if self.begun:      # pytest tells each new plugin of what was before
            said = warning_message
            self.worker.say("warning", str(said.message), said.category, said.filename, said.lineno, nodeid, location)


class Hearing:
    """In the process that collected the tests: what a worker says becomes calls of pytest's hooks."""

    def __init__(self, session, share: Share) -> None:
        self.session, self.share, self.hook, self.dead = session, share, session.config.hook, set()

    def passed(self, number: int, phase: dict) -> None:
        item = self.session.items[number]
        self.hook.pytest_runtest_logreport(report=pytest.TestReport(
            item.nodeid, item.location, dict.fromkeys(item.keywords, 1), "passed", None, **phase))

    def not_passed(self, data: dict) -> None:
        report = self.hook.pytest_report_from_serializable(config=self.session.config, data=data)
        self.hook.pytest_runtest_logreport(report=report)

    def warning(self, text: str, category: type, filename: str, lineno: int, nodeid: str, location) -> None:
        message = warnings.WarningMessage(text, category, filename, lineno)
        self.hook.pytest_warning_recorded.call_historic(kwargs={
            "warning_message": message, "when": "runtest", "nodeid": nodeid, "location": location})

    def died(self, worker: Worker) -> bool:
        """Whether a process that has ended left tests to another: the one that it ran failed by that, the second time."""
        status, number = os.waitpid(worker.process, 0)[1], self.share.running[worker.number]
        if not status and number == NOBODY:
            return False
        if os.waitstatus_to_exitcode(status) == SPENT and number == NOBODY:
            return True
        if number == NOBODY:
            raise RuntimeError(f"a worker ended with status {status} outside of any test")
        item = self.session.items[number]
        worker.trace.seek(0)
        left = worker.trace.read().decode(errors="replace")
        end = f"the process of this test ended: {os.waitstatus_to_exitcode(status)}\nit had run tests of\n{left}"
        if number in self.dead or os.waitstatus_to_exitcode(status) > 0:       # it, too, if it was no signal
            self.hook.pytest_runtest_logreport(report=pytest.TestReport(item.nodeid, item.location, {}, "failed", end, "call"))
        else:
            self.dead.add(number)
            self.share.again[worker.number] = number
            self.warning(f"{item.nodeid} runs again: {end}", pytest.PytestWarning, str(item.path), 0, item.nodeid, item.location)
        self.share.running[worker.number] = NOBODY
        return True


class Forked:
    """Starts the workers, and listens to them until all have ended."""

    def __init__(self, workers: int) -> None:
        self.count, self.seconds, self.tests = workers, 0.0, 0

    def pytest_runtest_logreport(self, report):
        self.seconds += report.duration
        self.tests += report.when == "setup"

    def pytest_terminal_summary(self, terminalreporter):
        if self.tests:
            terminalreporter.write_line(f"{self.tests} tests: {self.seconds:.0f} s in {self.count} processes")

    def pytest_runtestloop(self, session):
        if session.config.option.collectonly or session.testsfailed or len(session.items) < 2:
            return None
        if not gpu_workers.starts_in_a_fork():
            session.config.issue_config_time_warning(pytest.PytestWarning(
                "all tests run in one process: it has started CUDA, which does not survive a fork"), 2)
            self.count = 1
            return None
        session.config._tmp_path_factory.getbasetemp()
        share = Share(session.items, self.count)
        hearing, workers = Hearing(session, share), {}
        with selectors.DefaultSelector() as ready:
            def start(number: int) -> None:
                workers[number] = Worker(session, share, number)
                ready.register(workers[number].pipe, selectors.EVENT_READ, number)

            for number in range(self.count):
                start(number)
            try:
                while workers and not (session.shouldfail or session.shouldstop):
                    for key, _ in ready.select():
                        said = workers[key.data].heard()
                        for kind, what in said or ():
                            getattr(hearing, kind)(*what)
                        if said is None:
                            ready.unregister(key.fd)
                            if hearing.died(workers.pop(key.data)):
                                start(key.data)
            finally:
                for worker in workers.values():
                    os.kill(worker.process, signal.SIGTERM)
                    os.waitpid(worker.process, 0)
        if session.shouldfail:
            raise session.Failed(session.shouldfail)
        if session.shouldstop:
            raise session.Interrupted(session.shouldstop)
        return True


# Each worker has a core to itself: threads of torch and processes of its compiler would wait for those of others. Torch reads
# these when it is imported, behind `pytest_configure`. Asked by NVML how many GPUs there are, the process that collects starts no
# CUDA.
_ALONE = {"OMP_NUM_THREADS": "1", "TORCHINDUCTOR_COMPILE_THREADS": "1", "PYTORCH_NVML_BASED_CUDA_CHECK": "1"}


def pytest_addoption(parser):
    parser.addoption("--forked", type=int, default=0, metavar="N", help="run the tests in N forks of this process")


def pytest_configure(config):
    if workers := config.getoption("forked"):
        config.pluginmanager.register(Forked(workers), "mimw-forked")
        config.pluginmanager.register(gpu_workers, "mimw-gpu-workers")
        for name, value in _ALONE.items():
            os.environ.setdefault(name, value)


def _leave(statuses: list[int]) -> None:
    """The process that collected ends as its workers do, at once: what Triton's bindings say of objects that still live, three
    dozen lines, is about nothing that a test did."""
    if statuses:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(statuses[-1])


_STATUSES: list[int] = []
atexit.register(_leave, _STATUSES)      # registered before all that has to clean up, so called behind it


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session, exitstatus):
    if session.config.getoption("forked"):
        _STATUSES.append(int(exitstatus))
