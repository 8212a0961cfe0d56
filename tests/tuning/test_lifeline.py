"""Workers end with the process that started them, whatever ends it; also one that is gone before its worker has begun."""

import os
import select
import signal
import time

import pytest

from mimw.tools.lifeline import end_with_parent
from mimw.tools.processes import run
from mimw.tools.search import processes
from mimw.tools.search.processes import Crew

LIMIT = 20.0        # seconds in which a machine that does other things, too, should have ended a process


def a_check(busy):
    """Runs of `mimw.check`, two of them in copies."""
    processes.START = processes.WORTH = 0.0
    processes.may_fork = lambda: True
    list(Crew(4, lambda number: number and busy(), jobs=3))


def a_search(busy):
    """Steps of `mimw tune`, each in a process."""
    list(run([(number, busy, ()) for number in range(3)], 3, 60.0))


@pytest.mark.parametrize("start, ends", [(a_check, signal.SIGTERM), (a_check, signal.SIGHUP), (a_check, signal.SIGKILL),
                                         (a_search, signal.SIGTERM), (a_search, signal.SIGKILL)])
def test_workers_end_with_what_started_them(start, ends):
    """Who is there holds the pipe open: three begin, the first is ended, and nobody is left to write."""
    read, write = os.pipe()

    def busy():
        os.write(write, b"b")
        time.sleep(60)

    child = os.fork()
    if not child:
        for one in (signal.SIGTERM, signal.SIGHUP):
            signal.signal(one, signal.SIG_DFL)
        try:
            start(busy)
        finally:
            os._exit(0)
    os.close(write)
    heard = b"".join(_read(read) for _ in range(3))
    os.kill(child, ends)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -ends
    assert heard == b"bbb" and _read(read) == b"", "a worker is left"
    os.close(read)


def _read(pipe: int) -> bytes:
    """A byte; nothing once nobody can write."""
    ready, _, _ = select.select([pipe], [], [], LIMIT)
    return os.read(pipe, 1) if ready else b"?"


def test_who_has_lost_its_parent_already_ends():
    child = os.fork()
    if not child:
        end_with_parent(os.getpid())        # nobody's parent is itself
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 1
