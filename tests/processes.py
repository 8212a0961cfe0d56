"""Python processes for tests. Importing Triton and mimw takes a second each time; these are forked from a process that has done so.

    done = python("-m", "mimw", "run", "script.py", MIMW_SIMULATE="1")      what subprocess.run(..., text=True) gives
    done = python("-c", "import mimw; print(mimw.__version__)")
    done = python("program.py", "argument")
    done = mimw("run", "script.py", torch=True)         torch is one of the modules that it has imported: a second and a half

Each is a process of its own, in nothing but the modules it has already imported unlike a fresh one: streams, environment, working
folder, `sys.argv`, `sys.path`, `__main__`, exit status. What is about starting, importing or pipes starts a fresh one instead.
"""

import atexit
import functools
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

_SERVER = Path(__file__).with_name("process_server.py")
seconds: list[float] = []       # of CPU, of each process that ran: no child of this one, so not among its times


class _Server:
    """One for this process, and one with more modules; it ends when its standard input does."""

    def __init__(self, *more: str):
        code = f"exec(compile(open({str(_SERVER)!r}).read(), {str(_SERVER)!r}, 'exec'))"
        self.process = subprocess.Popen([sys.executable, "-c", code, *more], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        bufsize=0)  # nothing is read ahead of `select`

        atexit.register(self.end)

    def end(self) -> None:
        self.process.stdin.close()
        self.process.wait()

    def run(self, job: dict, timeout: float) -> int:
        self.process.stdin.write(json.dumps(job).encode() + b"\n")
        child = int(self.process.stdout.readline())
        ready, _, _ = select.select([self.process.stdout], [], [], timeout)
        if not ready:
            os.kill(child, signal.SIGKILL)
        status, took = self.process.stdout.readline().split()
        seconds.append(float(took))
        if not ready:
            raise subprocess.TimeoutExpired(job["argv"], timeout)
        return int(status)


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
