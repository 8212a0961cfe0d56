"""Python processes for tests. Importing Triton and mimw takes a second each time; these are forked from a process that has done so.

    done = python("-m", "mimw", "run", "script.py", MIMW_SIMULATE="1")      what subprocess.run(..., text=True) gives
    done = python("-c", "import mimw; print(mimw.__version__)")
    done = python("program.py", "argument")
    done = mimw("run", "script.py", torch=True)         torch is one of the modules that it has imported: a second and a half

Each is a process of its own, in nothing but the modules it has already imported unlike a fresh one: streams, environment, working
folder, `sys.argv`, `sys.path`, `__main__`, exit status. What is about starting, importing or pipes starts a fresh one instead.
"""

import atexit
import fcntl
import functools
import json
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

_SERVER = Path(__file__).with_name("process_server.py")
# Workers are forks of the process that imports this: the first that asks starts a server for all, which lives as long as one of
# them does, since each holds this pipe. To import Triton and torch takes 2 and 9 CPU seconds.
_FOLDER = tempfile.mkdtemp(prefix="mimw-processes-")
_ALIVE, _HELD = os.pipe()
_OWNER = os.getpid()
seconds: list[float] = []       # of CPU, of each process that ran: no child of this one, so not among its times


class _Server:
    """A connection of this process to the server, or to the one with more modules."""

    def __init__(self, *more: str):
        path = Path(_FOLDER, "-".join(("server", *more)))
        with open(f"{path}.lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not path.exists():
                code = f"exec(compile(open({str(_SERVER)!r}).read(), {str(_SERVER)!r}, 'exec'))"
                self.started = subprocess.Popen([sys.executable, "-c", code, path, str(_ALIVE), *more], pass_fds=[_ALIVE],
                                                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
                while not path.exists():
                    assert self.started.poll() is None, "the server has ended before it listened"
                    time.sleep(0.01)
        self.connection = socket.socket(socket.AF_UNIX)
        self.connection.connect(str(path))
        self.answers = self.connection.makefile("rb", buffering=0)      # nothing is read ahead of `select`

    def run(self, job: dict, timeout: float) -> int:
        self.connection.sendall(json.dumps(job).encode() + b"\n")
        child = int(self.answers.readline())
        ready, _, _ = select.select([self.answers], [], [], timeout)
        if not ready:
            os.kill(child, signal.SIGKILL)
        status, took = self.answers.readline().split()
        seconds.append(float(took))
        if not ready:
            raise subprocess.TimeoutExpired(job["argv"], timeout)
        return int(status)


@atexit.register
def end() -> None:
    """Nothing of the servers is left behind the process that all workers are forks of. Called by conftest.py, where `tests.forked`
    has that process end without looking further."""
    if os.getpid() == _OWNER:
        shutil.rmtree(_FOLDER, ignore_errors=True)


@functools.cache
def _server(torch: bool) -> _Server:
    return _Server(*("torch", "triton.testing", "mimw.ops") if torch else ())


def python(*argv, timeout: float = 300, torch: bool = False, **variables: str) -> subprocess.CompletedProcess:
    """Run `python *argv` with `variables` added to the environment, and wait for it; TimeoutExpired after so many seconds. A module
    of many tests whose processes import torch says `torch`: such a process is forked from one that has done so."""
    words = [str(word) for word in argv]
    with tempfile.TemporaryDirectory() as folder:
        out, err = Path(folder, "out"), Path(folder, "err")
        status = _server(torch).run({"argv": words, "env": {**os.environ, **variables}, "cwd": os.getcwd(), "out": str(out),
                                "err": str(err)}, timeout)
        return subprocess.CompletedProcess(words, status, *(path.read_text() if path.exists() else "" for path in (out, err)))


def mimw(*argv, **options) -> subprocess.CompletedProcess:
    """The command `mimw`."""
    return python("-m", "mimw", *argv, **options)
