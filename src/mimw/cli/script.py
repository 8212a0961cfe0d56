"""Runs a user's script or module as `python` would: same `sys.argv`, `sys.path[0]` and `__main__`.

Input: a command line with a script or `-m MODULE`. Output: the words of mimw apart from the words of the script; then
the run of the script:

    split_at_script(["run", "a.py", "-m", "4", "--help"])        ["run", "a.py"], ["-m", "4", "--help"]
"""

from __future__ import annotations

import ast
import os
import runpy
import sys
from argparse import ArgumentParser, Namespace
from contextlib import AbstractContextManager, nullcontext
from importlib.util import find_spec

from .errors import CommandError

SCRIPT_COMMANDS = ("run", "simulate")
_OPTIONS_WITH_VALUE = ("--seed", "--timeline", "--watchdog", "--target", "--gpus", "--bench")


def split_at_script(argv: list[str]) -> tuple[list[str], list[str]]:
    """Cut the command line behind the script (or `-m MODULE`): what follows is the script's, whatever it looks like."""
    if not argv or argv[0] not in SCRIPT_COMMANDS:
        return argv, []
    index = 1
    while index < len(argv):
        word = argv[index]
        if word == "-m":
            index += 2
            break
        if word in _OPTIONS_WITH_VALUE:
            index += 2
        else:
            index += 1
            if not word.startswith("-"):
                break
    return argv[:index], argv[index:]


def add_script_arguments(parser: ArgumentParser, script_help: str) -> None:
    """`SCRIPT [args]` or `-m MODULE [args]`; the args never reach argparse, they are in `options.rest`."""
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("script", metavar="SCRIPT", nargs="?", help=script_help)
    what.add_argument("-m", dest="module", metavar="MODULE", help="run a module, as `python -m MODULE` does")
    parser.add_argument("--target", metavar="CHIP", help="the chip that is simulated, or compiled for without a GPU: sm_100a, ... "
                                                         "(default MIMW_TARGET or sm_90a)")
    parser.add_argument("--watchdog", metavar="SECONDS",
                        help="end the process, with a report of each waiting task, if a launch takes longer (exit status 124)")
    parser.add_argument("--bench", metavar="SECONDS",
                        help="what a report of triton.testing.perf_report may take, whose times are predicted where launches are "
                             "simulated (default 20; 0 leaves reports out)")
    parser.usage = f"{parser.prog} [options] (SCRIPT | FILE:FUNCTION | -m MODULE) [args of the script]"


def aim(options: Namespace) -> None:
    """Let launches be for the chip that `--target` names, in this process and those that it starts."""
    if options.target is not None:
        from ..target import target
        os.environ["MIMW_TARGET"] = target(options.target).name


def limit_benchmarks(options: Namespace) -> None:
    """Give reports of benchmarks the seconds of `--bench`, in this process and those that it starts."""
    if options.bench is not None:
        from ..tools.timing.perf_report import seconds
        os.environ["MIMW_BENCH"] = options.bench
        seconds()       # refuses what is no number before the script starts


def reach() -> None:
    """Let simulated launches follow addresses into every tensor that is alive, in this process and those that it starts: a script
    knows nothing of `memory=`."""
    os.environ.setdefault("MIMW_MEMORY", "tensors")


def without_a_gpu() -> AbstractContextManager[None]:
    """Meanwhile tensors that the script asks for on "cuda" are the CPU's, if launches are simulated."""
    from ..runtime.simulating import simulating
    from ..runtime.torch_without_gpu import cuda_is_the_cpu
    return cuda_is_the_cpu() if simulating() else nullcontext()


def watch(options: Namespace) -> None:
    """Have launches watched, in this process and those that it starts, if `--watchdog` asks for it."""
    if options.watchdog is None:
        return
    from ..runtime.watchdog import keep_stderr, seconds
    os.environ["MIMW_WATCHDOG"] = options.watchdog
    seconds()       # refuses what is no number before the script starts
    keep_stderr()


def run_script(options: Namespace) -> None:
    """Run what the options name, with `options.rest` as its arguments."""
    if options.module:
        sys.argv, sys.path[0] = ["-m", *options.rest], os.getcwd()
        check_module(options.module)
        runpy.run_module(options.module, run_name="__main__", alter_sys=True)
        return
    path = existing_file(options.script)
    if names := only_definitions(path):
        kernel = next(iter(names))
        raise CommandError(f"{options.script} only defines {', '.join(names)}, so running it does nothing. Name what to launch, "
                           f"{options.script}:FUNCTION, where FUNCTION() returns (kernel, grid, args, meta), or "
                           f"{options.script}:{kernel} --args ...")
    sys.argv, sys.path[0] = [options.script, *options.rest], os.path.dirname(path)
    runpy.run_path(path, run_name="__main__")


def only_definitions(path: str) -> tuple[str, ...]:
    """The functions of a file that does nothing but define and import; none if it does anything else, or does not parse."""
    quiet = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Import, ast.ImportFrom)
    try:
        with open(path, encoding="utf-8") as text:
            body = ast.parse(text.read()).body
    except (OSError, SyntaxError, ValueError):
        return ()
    for node in body:
        plain = (isinstance(node, (ast.Assign, ast.AnnAssign)) and not any(isinstance(one, ast.Call) for one in ast.walk(node))
                 or isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant))
        if not plain and not isinstance(node, quiet):
            return ()
    return tuple(node.name for node in body if isinstance(node, ast.FunctionDef))


def check_module(name: str) -> None:
    """CommandError if there is no such module. The package that it is in is imported, as by `python -m`; its errors are its own."""
    try:
        found = find_spec(name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise
        found = None
    if found is None:
        raise CommandError(f"no module {name!r} here ({os.getcwd()}), nor installed.")


def existing_file(name: str) -> str:
    """The real path of a file, as Python puts it in `sys.path[0]` and as source lookups need it after a chdir.
    CommandError if there is none."""
    if os.path.isdir(name):
        raise CommandError(f"{name!r} is a folder; name a file in it, {os.path.join(name, 'FILE.py')}.")
    if not os.path.isfile(name):
        raise CommandError(f"no file {name!r} here ({os.getcwd()}).")
    return os.path.realpath(name)
