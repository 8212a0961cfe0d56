"""Runs in several processes: the same report in the same order, whatever happens in a copy, and one process where a copy would not
work."""

import json
import mmap
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

import mimw
from mimw.errors import SimulatorMisuse
from mimw.tools.search import processes
from mimw.tools.search.arrays import Arrays
from mimw.tools.search.processes import Crew, job_count
from tests.kernels import tma_pipeline
from tests.processes import python

ROOT = Path(__file__).parents[2]


@pytest.fixture
def eager(monkeypatch):
    """Copies are started at the first look. Tests run in processes with threads of their own, which do no harm here."""
    monkeypatch.setattr(processes, "START", 0.0)
    monkeypatch.setattr(processes, "WORTH", 0.0)
    monkeypatch.setattr(processes, "may_fork", lambda: True)


def test_results_come_in_order_from_several_processes(eager, tmp_path):
    """Behind the first run, after which copies start, none ends before three processes have one, however busy the machine is."""
    def run(number):
        (tmp_path / str(os.getpid())).touch()
        until = time.monotonic() + 30
        while number and len(list(tmp_path.iterdir())) < 3 and time.monotonic() < until:
            time.sleep(0.002)
        time.sleep(0.01 * (number % 3))
        return number, os.getpid()

    results = list(Crew(9, run, jobs=3))
    assert [number for number, _ in results] == list(range(9))
    assert len({process for _, process in results}) == 3


def test_a_copy_may_start_in_the_middle_of_a_run(eager):
    here = os.getpid()

    def run(number):
        if number == 0:
            crew.look()
            assert (os.getpid() == here) and crew.workers
            time.sleep(0.3)
        return os.getpid()

    crew = Crew(3, run, jobs=2)
    mine, *others = crew
    assert mine == here and here not in others
    assert not crew.workers


def test_more_numbers_than_a_pipe_holds(eager):
    crew = Crew(50_000, lambda number: number, jobs=2)
    assert list(crew) == list(range(50_000)) and crew.chunk == 5


def test_what_runs_print_comes_out_once_and_in_order(eager, capsys):
    def run(number):
        time.sleep(0.01 * (number % 2))
        print("run", number)

    list(Crew(6, run, jobs=3))
    assert capsys.readouterr().out == "".join(f"run {number}\n" for number in range(6))


def children() -> set[str]:
    return set(Path(f"/proc/self/task/{os.getpid()}/children").read_text().split())


def test_an_error_is_raised_where_it_would_be_in_one_process(eager):
    def run(number):
        if number == 3:
            raise KeyError("three")
        return number

    seen, before = [], children()
    with pytest.raises(KeyError, match="three") as caught:
        for result in Crew(6, run, jobs=3):
            seen.append(result)
    assert seen == [0, 1, 2] and caught.traceback[-1].name == "run"
    assert children() == before             # no copy is left; another test's process may be there


@pytest.mark.parametrize("end", [lambda: os._exit(3), lambda: os.kill(os.getpid(), signal.SIGKILL), lambda: threading.Lock()])
def test_the_runs_of_a_copy_that_ends_are_made_again(eager, end):
    """It ends, is ended, or has a result that does not pickle."""
    here = os.getpid()

    def run(number):
        return number if os.getpid() == here else end()

    assert list(Crew(8, run, jobs=3)) == list(range(8))


def test_a_copy_does_not_hear_the_keyboard_and_ends_with_the_iteration(eager):
    here = os.getpid()

    def run(number):
        if os.getpid() != here:
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(60)
        elif number:
            raise KeyboardInterrupt
        return number

    crew = Crew(4, run, jobs=2)
    begun = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        list(crew)
    assert time.monotonic() - begun < 30 and not crew.workers


def test_small_work_stays_in_one_process(monkeypatch):
    monkeypatch.setattr(processes, "may_fork", lambda: pytest.fail("asked although nothing is gained"))
    assert list(Crew(100, lambda number: number, jobs=8)) == list(range(100))


def test_work_that_takes_time_does_not(monkeypatch):
    asked = []
    monkeypatch.setattr(processes, "may_fork", lambda: asked.append(1))

    def run(number):
        time.sleep(0.06)
        crew.look()
        return number

    crew = Crew(6, run, jobs=2)
    assert list(crew) == list(range(6)) and asked == [1]


def test_no_run_starts_after_the_deadline_but_the_first(eager):
    past = time.monotonic() - 1
    assert list(Crew(5, lambda number: number, 1, past)) == [0]
    assert list(Crew(5, lambda number: number, 3, past)) == [0]

    def run(number):
        time.sleep(0.2)
        return number

    done = list(Crew(50, run, 2, time.monotonic() + 0.5))
    assert done == list(range(len(done))) and 2 <= len(done) < 50


# ---- where a copy would not work --------------------------------------------------------------------------------------------


def in_python(code: str) -> str:
    """What a fresh Python prints: no thread of the tests is in it."""
    return subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True, text=True, capture_output=True).stdout.strip()


def in_a_fork(code: str) -> str:
    """What a process without threads prints that has imported everything; it may fork itself, as the test of `--jobs` shows."""
    done = python("-c", code)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_a_plain_process_may_fork_though_numpy_has_threads():
    assert in_python("import numpy as np; a = np.ones((512, 512)); a @ a\n"
                     "from mimw.tools.search.processes import may_fork; print(may_fork()); "
                     "print((a @ a).sum())") == "True\n134217728.0"


def test_a_thread_that_has_ended_leaves_the_systems_list_later(monkeypatch):
    """A copy that was not made for its sake cost half a check, now and then."""
    listed = [["1", "2"], ["1", "2"], ["1"]]
    monkeypatch.setattr(processes.os, "listdir", lambda path: listed.pop(0))
    assert processes._alone(time.monotonic() + 60) and not listed
    monkeypatch.setattr(processes.os, "listdir", lambda path: ["1", "2"])
    assert not processes._alone(time.monotonic())


@pytest.mark.parametrize("why", ["threading.Timer(60, print).start()", "threading.Thread(target=event.wait).start()",
                                 "multiprocessing.current_process()._config['daemon'] = True", "del os.fork",
                                 "native_thread()"])
def test_one_process_where_a_copy_would_not_work(why):
    """A thread of Python, also one that only waits; a daemon; no fork; a thread that Python does not know."""
    code = f"""
import ctypes, multiprocessing.process as multiprocessing, os, threading
from mimw.tools.search.processes import may_fork
event = threading.Event()
def native_thread():
    libc, handle = ctypes.CDLL(None), ctypes.c_ulong()
    assert libc.pthread_create(ctypes.byref(handle), None, ctypes.cast(libc.pause, ctypes.c_void_p), None) == 0
{why}
print(may_fork(), flush=True)
os._exit(0)
"""
    assert in_a_fork(code) == "False"


def test_no_copies_where_they_would_write_one_memory(tmp_path):
    given = np.zeros(64, np.float32)
    path = tmp_path / "array"
    path.write_bytes(bytes(256))
    mapped = np.memmap(path, np.float32, "r+")
    assert not Arrays([given]).shared() and Arrays([given, mapped]).shared()
    assert Arrays([mimw.TensorDescriptor.from_tensor(mapped.reshape(8, 8), [8, 8])]).shared()
    assert not Arrays([np.memmap(path, np.float32, "r")]).shared() and not Arrays([np.memmap(path, np.float32, "c")]).shared()
    assert Arrays([np.frombuffer(mmap.mmap(-1, 4096), np.float32)]).shared()


def test_how_many_processes(monkeypatch):
    monkeypatch.delenv("MIMW_JOBS", raising=False)
    assert job_count(3) == 3 and job_count(None) == len(os.sched_getaffinity(0))
    monkeypatch.setenv("MIMW_JOBS", "5")
    assert job_count(None) == 5 and job_count(2) == 2
    monkeypatch.setenv("MIMW_JOBS", "many")
    with pytest.raises(SimulatorMisuse, match="MIMW_JOBS=many should be a number of processes"):
        job_count(None)
    for wrong in (0, -1, 1.5, True):
        with pytest.raises(SimulatorMisuse, match="jobs is"):
            job_count(wrong)


# ---- mimw.check -------------------------------------------------------------------------------------------------------------


@pytest.mark.long(but=["switch1-options1", "switch2-options2"], everywhere=True)
@pytest.mark.parametrize("switch, options", [
    (dict(), {}), (dict(RELEASE_FIRST=True), {}), (dict(FIRST_PARITY=0), {}), (dict(), dict(search="both", limit=5))])
def test_the_report_is_the_same_with_any_number_of_processes(eager, switch, options):
    from tests.kernels.tma_pipeline import pipeline, pipeline_arguments
    reports, calls = [], []
    for jobs in (1, 2, 3):
        grid, args, meta = pipeline_arguments(**switch)
        before = [np.array(getattr(one, "base", one)) for one in args if not isinstance(one, int)]
        seen = []
        report = mimw.check(pipeline, grid, *args, seeds=5, jobs=jobs, progress=lambda *now: seen.append(now), **options, **meta)
        after = [np.array(getattr(one, "base", one)) for one in args if not isinstance(one, int)]
        assert all(np.array_equal(one, other) for one, other in zip(before, after))
        reports.append(report)
        calls.append(seen)
    assert reports[0] == reports[1] == reports[2] and calls[0] == calls[1] == calls[2]
    assert str(reports[0]) == str(reports[2]) and reports[0].as_json() == reports[1].as_json()


def test_a_misuse_is_raised_as_in_one_process(eager):
    from tests.kernels.tma_pipeline import pipeline, pipeline_arguments
    grid, args, meta = pipeline_arguments()
    args[2].base.array.flags.writeable = False
    for jobs in (1, 2):
        with pytest.raises(SimulatorMisuse, match="read-only array"):
            mimw.check(pipeline, grid, *args, jobs=jobs, **meta)


def test_a_watcher_of_machines_sees_all(eager):
    from mimw.simulator.run import watching
    from tests.kernels.tma_pipeline import pipeline, pipeline_arguments
    grid, args, meta = pipeline_arguments()
    machines = []
    token = watching.set(machines.append)
    try:
        mimw.check(pipeline, grid, *args, seeds=4, rounds=False, jobs=3, **meta)
    finally:
        watching.reset(token)
    assert len(machines) == 4


def test_the_command_takes_jobs_and_really_uses_them():
    """In a process of its own, since copies are made by processes without threads only."""
    code = f"""
import contextlib, io, json, os
import mimw.tools.search.processes as processes
from mimw.cli import main
processes.START = processes.WORTH = 0.0
forked, fork = [], os.fork
def counted():
    process = fork()
    forked.append(process)
    return process
os.fork = counted
told = []
for jobs in "1", "3":
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        words = ["--jobs", jobs, "--json", "--mend-time", "0"]
        assert main(["check", {tma_pipeline.__file__ + ":released_before_the_wait"!r}, *words]) == 1
    told += [json.loads(out.getvalue()), len(forked)]
print(json.dumps(told))
"""
    one, before, three, after = json.loads(in_a_fork(code))
    assert one == three and before == 0 and after == 2
