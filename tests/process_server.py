"""The process that `tests.processes` forks from: it imports what every command needs once, then becomes what it is asked for.

    python process_server.py PATH FD [MODULE...]        listens at PATH, until nobody writes to the pipe FD any more
    in, one JSON object a line:    {"argv": ["-m", "mimw", "doctor"], "env": {...}, "cwd": ..., "out": file, "err": file}
    out, two lines for each:       the number of the child's process, then its `returncode` and the CPU seconds that it took

All workers of the tests share it: each connection is served by a fork, which asks nothing of the others.
A child ends as an interpreter does, with its exit status, traceback, `atexit` and flushed streams, but for taking all modules
apart, which would cost more than most of what the tests ask.
"""

import atexit
import gc
import json
import os
import runpy
import select
import socket
import sys
import threading
from contextlib import suppress
from importlib import import_module

PRELOADED = ("triton.backends.compiler", "triton.backends.amd.compiler", "triton.backends.nvidia.compiler", "mimw",
             "mimw.compiler.pipeline", "mimw.runtime.aliases", "mimw.runtime.autotune", "mimw.runtime.simulate",
             "mimw.runtime.watchdog", "mimw.tools.check", "mimw.tools.timing", "mimw.tle", "mimw.tlx", "mimw.cli.probes",
             "rich.console", "rich.table",
             *(f"mimw.cli.{name}" for name in ("check", "compile", "doctor", "explain", "run", "simulate", "timeline")))


def serve(path: str, alive: str, *more: str) -> None:
    """Fork a child for each connection, until there is nobody to serve. Who connects early waits for the imports."""
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(f"{path}.new")
    listening.listen()
    os.rename(f"{path}.new", path)
    for name in (*PRELOADED, *more):
        import_module(name)
    from triton.runtime.cache import triton_key

    from mimw.compiler.pipeline import compiler_hash
    triton_key(), compiler_hash()  # what the first compilation of each would read all of Triton for
    gc.freeze()
    while int(alive) not in select.select([listening, int(alive)], [], [])[0]:
        connection, _ = listening.accept()
        if not os.fork():
            listening.close()
            os.close(int(alive))
            answer(connection)
            os._exit(0)
        connection.close()
        with suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass


def answer(connection: socket.socket) -> None:
    """Fork a child for each job of one process of the tests, until that one has ended."""
    asked, answers = connection.makefile("r"), connection.makefile("w")
    while line := asked.readline():
        job = json.loads(line)
        child = os.fork()
        if not child:
            os.close(connection.fileno())
            os._exit(ended(job))
        print(child, file=answers, flush=True)
        _, status, took = os.wait4(child, 0)
        print(os.waitstatus_to_exitcode(status), took.ru_utime + took.ru_stime, file=answers, flush=True)


def ended(job: dict) -> int:
    """Run `job`, and what is left to do at the end of a process; gives its exit status."""
    status = 0
    try:
        become(job)
    except SystemExit as end:
        if isinstance(end.code, str):
            print(end.code, file=sys.stderr)
        status = 1 if isinstance(end.code, str) else int(end.code or 0) & 0xFF
    except BaseException:
        sys.excepthook(*sys.exc_info())
        status = 1
    threading._shutdown()
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    return status


def become(job: dict) -> None:
    """Run `job` as `python *argv` would."""
    for number, name in ((1, "out"), (2, "err")):
        os.dup2(os.open(job[name], os.O_WRONLY | os.O_CREAT | os.O_APPEND), number)
    os.environ.clear()
    os.environ.update(job["env"])
    os.chdir(job["cwd"])
    kind, *rest = job["argv"]
    own = sys.path.index("")
    sys.path[:own + 1] = [*filter(None, job["env"].get("PYTHONPATH", "").split(os.pathsep))]
    if kind == "-c":
        code, sys.argv[:] = rest[0], ["-c", *rest[1:]]
        sys.path.insert(0, "")
        exec(compile(code, "<string>", "exec"), {"__name__": "__main__", "__builtins__": __builtins__})
    elif kind == "-m":
        sys.argv[:] = ["-m", *rest[1:]]
        sys.path.insert(0, os.getcwd())
        runpy.run_module(rest[0], run_name="__main__", alter_sys=True)
    else:
        sys.argv[:] = [kind, *rest]
        sys.path.insert(0, os.path.dirname(os.path.realpath(kind)))
        runpy.run_path(kind, run_name="__main__")


if __name__ == "__main__":
    serve(*sys.argv[1:])
    os._exit(0)  # as its children
