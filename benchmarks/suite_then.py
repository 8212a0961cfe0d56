"""How long the tests take today that stood at an earlier commit: what has been added since does not count, what was slow then does.

    python -m benchmarks.suite_then [COMMIT] [--forked 2] [--warm]

    at 185b2c0: 1234 test functions in 190 files; 1200 of them stand today, in 188 files
    ... pytest's own lines ...
    1200 of 1234 functions, 6543 tests: 143.2 s, 271.0 CPU s

Input: a commit of this repository; its tests are read from git, by file and function, and a file that was moved since is found by
git where it is now. Output: those tests, run alone in the order of their names, cold (`--warm` takes what LLVM and ptxas made in
an earlier run), and the time from the first import to the last report. How many cases a function has is today's number. Without a
COMMIT it is the one of the goal, 170 s on two quiet cores, at which the whole suite took 226 s.
"""

from __future__ import annotations

import argparse
import ast
import io
import os
import subprocess
import tarfile
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]
GOAL = "185b2c0"

Function = tuple[str, str]      # a file, from the repository's root, and a function of it


def _git(*words: str) -> bytes:
    run = subprocess.run(["git", "-C", str(ROOT), *words], capture_output=True)
    if run.returncode:
        raise SystemExit(f"git {' '.join(words)}: {run.stderr.decode().strip()}\n"
                         "(a shallow clone has no history: git fetch --unshallow)")
    return run.stdout


def functions_of(source: str) -> set[str]:
    """The test functions of a module; those of a class, as `Class.function`."""
    found = set()
    for node in ast.parse(source).body:
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test"):
            found.add(node.name)
        elif isinstance(node, ast.ClassDef) and node.name.startswith("Test"):
            found |= {f"{node.name}.{inner.name}" for inner in node.body
                      if isinstance(inner, ast.FunctionDef) and inner.name.startswith("test")}
    return found


def functions_at(commit: str) -> set[Function]:
    """The test functions of a commit, each in the file in which it would stand today."""
    moved = dict(line.split("\t")[1:] for line in
                 _git("diff", "--find-renames", "--diff-filter=R", "--name-status", commit, "--", "tests").decode().splitlines())
    with tarfile.open(fileobj=io.BytesIO(_git("archive", commit, "tests"))) as archive:
        sources = {member.name: archive.extractfile(member).read().decode() for member in archive
                   if Path(member.name).match("test_*.py")}
    return {(moved.get(name, name), function) for name, source in sources.items() for function in functions_of(source)}


def standing(functions: set[Function], root: Path = ROOT) -> set[Function]:
    """Those of `functions` that the working tree has."""
    files = {file for file, _ in functions if (root / file).exists()}
    today = {(file, function) for file in files for function in functions_of((root / file).read_text())}
    return functions & today


class Only:
    """A plugin of pytest: of the collected tests those of `functions`, the others are deselected."""

    def __init__(self, functions: set[Function], root: Path = ROOT) -> None:
        self.functions, self.root, self.left = functions, root, 0

    def _name(self, item) -> Function:
        held = f"{item.cls.__name__}." if item.cls else ""
        return item.path.relative_to(self.root).as_posix(), held + item.originalname

    def pytest_collection_modifyitems(self, config, items):
        wanted = [item for item in items if self._name(item) in self.functions]
        config.hook.pytest_deselected(items=[item for item in items if self._name(item) not in self.functions])
        items[:] = wanted

    def pytest_runtest_logreport(self, report):
        self.left += report.when == "call" and report.outcome != "skipped"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("commit", nargs="?", default=GOAL, metavar="COMMIT")
    parser.add_argument("--forked", default="2", metavar="N", help="run the tests in N forks of this process")
    parser.add_argument("--warm", action="store_true", help="take what LLVM and ptxas made in an earlier run of the tests")
    options = parser.parse_args()
    os.chdir(ROOT)
    then = functions_at(options.commit)
    today = standing(then)
    files = sorted({file for file, _ in today})
    print(f"at {options.commit}: {len(then)} test functions in {len({file for file, _ in then})} files; {len(today)} of them stand "
          f"today, in {len(files)} files", flush=True)
    start, only = time.monotonic(), Only(today)
    import pytest  # here, as a run of the tests begins with it
    status = pytest.main(["-q", "--forked", options.forked, *["--cold"] * (not options.warm), *files], plugins=[only])
    print(f"{len(today)} of {len(then)} functions, {only.left} tests: {time.monotonic() - start:.1f} s, "
          f"{sum(os.times()[:4]):.1f} CPU s")
    raise SystemExit(status)


if __name__ == "__main__":
    main()
