"""Is the TTGIR of every kernel of the library, every tutorial and every mutation case the same before and after a change?

    python -m benchmarks.same_code note before.xz               in any checkout; five minutes on two cores
    python -m benchmarks.same_code note after.xz                in the same, after the change, or in another
    python -m benchmarks.same_code compare before.xz after.xz
    python -m benchmarks.same_code note few.xz tests/kernels/test_gemm.py       of few files, to be compared with the same of before

`note` runs the tests of kernels, tutorials, operators and lowering, `--jobs` modules at a time, each in a process of its own, and
writes the TTGIR of what they compile and of every kernel of the library and the tutorials that they simulate; then that of the
cases of benchmarks/mutation_kernels. Nothing goes through LLVM, but for tests that fail without: these run once more as they are.
Why a simulated launch has no code, as for a chip without a compiler here, is said at the end. Source lines and names do not count
(benchmarks/ttgir_text.py). `compare` pairs the kernels of a test, whatever their names are, prints a diff for each that differs
and exits with 1 if one does, or if a text of before is nowhere after.
"""

from __future__ import annotations

import argparse
import difflib
import hashlib
import json
import lzma
import os
import re
import sys
import tempfile
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from importlib import import_module
from itertools import groupby
from pathlib import Path
from typing import NoReturn

import pytest
from _pytest.runner import runtestprotocol

from .ttgir_text import normalised, with_constants_inside

ROOT = Path(__file__).parent.parent
TESTS = ("tests/kernels", "tests/tutorials", "tests/ops", "tests/lowering")
NOTED = (ROOT / "src" / "mimw" / "kernels", ROOT / "tutorials")     # whose simulated launches are compiled, too
PARTS = 4
Row = tuple[str, str, str]      # test, kernel, text


class Compiled:
    """What Triton's `compile` gives in this process, as rows: it is replaced wherever a module of the package has it."""

    def __init__(self) -> None:
        import_module("mimw").jit       # the package imports what is asked for
        ours = {name: module for name, module in sys.modules.items() if name.startswith("mimw.")}
        port = next(module for name, module in ours.items() if name.endswith(".triton_port.runtime"))
        self.stock, self.test, self.rows, self.whole = port.stock_compile, "", [], False
        for module in ours.values():
            for name in [name for name, value in vars(module).items() if value is self.stock]:
                setattr(module, name, self.compile)

    def compile(self, src, *args, **keywords):
        with ExitStack() as stack:
            if not self.whole:
                stack.enter_context(import_module("tests.compiling").stopping(("ttgir", )))
            compiled = self.stock(src, *args, **keywords)
        if "ttgir" in compiled.asm:
            self.rows.append((self.test, getattr(getattr(src, "fn", None), "__name__", "?"), normalised(compiled.asm["ttgir"])))
        return compiled


class Launches:
    """What a test simulates, to be compiled behind it: how launches specialise kernels, each once in a module."""

    def __init__(self) -> None:
        self.specialisations, self.known, self.without_code = [], set(), []
        kind = import_module("mimw.runtime.fits").Specialisation
        made = kind.__init__

        def noted(one, *args, **keywords):
            made(one, *args, **keywords)
            if any(Path(one.fn.fn.__code__.co_filename).is_relative_to(folder) for folder in NOTED):
                self.specialisations.append(one)

        kind.__init__ = noted

    def compile(self) -> None:
        found, self.specialisations = self.specialisations, []
        new = {one.key: one for one in found if one.key not in self.known}
        self.known.update(new)
        compile_kernel = import_module("mimw").compile.compile_kernel
        for one in new.values():
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                try:
                    compile_kernel(one.fn, one.signature, one.constants, one.target, dict(one.options), one.attrs)
                except Exception as error:      # chips without a compiler, refusals: no code to compare, which `note` says
                    said = str(error).partition("\n")[0]
                    self.without_code.append(f"{one.fn.fn.__name__} for {one.target}: {type(error).__name__}: {said}")


class Noting:
    """A plugin of pytest: each module of tests runs in a fork of the process that has collected them, and leaves its rows in a
    folder."""

    def __init__(self, jobs: int, folder: Path, cases: bool) -> None:
        self.jobs, self.folder, self.cases, self.compiled, self.launches = jobs, folder, cases, Compiled(), None
        self.failed: list[str] = []

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session) -> bool:
        if session.testsfailed:
            raise session.Interrupted("tests that cannot be collected")
        by_path = groupby(sorted(session.items, key=lambda item: str(item.path)), lambda item: item.path)
        modules = sorted((list(items) for _, items in by_path), key=len, reverse=True)
        cases = [partial(self._cases, part) for part in range(PARTS if self.cases else 0)]
        in_forks([*cases, *(partial(self._tests, items) for items in modules)], self.jobs)
        failed = self._failed()
        again = [[item for item in items if item.nodeid in failed] for items in modules]
        self.compiled.whole = True      # in fresh forks: what a module keeps of a compilation has no later stages either
        in_forks([partial(self._tests, items) for items in again if items], self.jobs)
        self.failed = sorted(self._failed())
        session.testsfailed = len(self.failed)      # for pytest's exit status, which is this program's
        return True

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_call(self, item):
        yield
        self.compiled.test = f"{item.nodeid} (simulated)"
        self.launches.compile()

    def rows(self) -> list[Row]:
        return [tuple(row) for path in sorted(self.folder.glob("*.rows")) for row in json.loads(path.read_text())]

    def _tests(self, items: list) -> None:
        self.launches, failed = Launches(), []
        for item, following in zip(items, [*items[1:], None]):
            at, self.compiled.test = len(self.compiled.rows), item.nodeid
            if any(report.failed for report in runtestprotocol(item, nextitem=following, log=False)):
                failed.append(item.nodeid)
                if not self.compiled.whole:
                    del self.compiled.rows[at:]
                    self.launches.known.clear()
        self._leave(items[0].nodeid.split("::")[0].replace("/", "."), failed, self.launches.without_code)

    def _cases(self, part: int) -> None:
        mimw, kernels = import_module("mimw"), import_module("benchmarks.mutation_kernels")
        for case in (*kernels.CASES, *kernels.ON_SEVERAL_GPUS)[part::PARTS]:
            kernel, grid, args, meta = case.make()
            self.compiled.test = f"mutation case {case.name}"
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                mimw.compile(kernel, grid, *args, target=case.target, **meta)
        self._leave(f"cases-{part}", [], [])

    def without_code(self) -> list[str]:
        return [said for path in sorted(self.folder.glob("*.without")) for said in json.loads(path.read_text())]

    def _leave(self, name: str, failed: list[str], without_code: list[str]) -> None:
        name += "-whole" * self.compiled.whole
        (self.folder / f"{name}.rows").write_text(json.dumps(self.compiled.rows))
        (self.folder / f"{name}.without").write_text(json.dumps(without_code))
        (self.folder / f"{name}.failed").write_text(json.dumps(failed))

    def _failed(self) -> set[str]:
        paths = list(self.folder.glob("*.failed"))
        found = {test for path in paths for test in json.loads(path.read_text())}
        for path in paths:
            path.unlink()
        return found


def in_forks(tasks: list[Callable[[], None]], jobs: int) -> None:
    """Each task in a fork of this process, so many at a time. RuntimeError if one does not come to its end."""
    running, waiting, broken = set(), list(reversed(tasks)), 0
    while running or waiting:
        if waiting and len(running) < jobs:
            task = waiting.pop()
            if (process := os.fork()) == 0:
                _to_its_end(task)
            running.add(process)
        else:
            process, status = os.wait()
            broken += process in running and status != 0
            running.discard(process)
    if broken:
        raise RuntimeError(f"{broken} of {len(tasks)} processes did not come to their end")


def _to_its_end(task: Callable[[], None]) -> NoReturn:
    try:
        task()
    except BaseException:
        os.write(sys.__stderr__.fileno(), traceback.format_exc().encode())
        os._exit(1)
    os._exit(0)


def note(out: Path, jobs: int, tests: list[str]) -> int:
    """Write to `out` the code of all kernels, or of those in these `tests`. 1 if a test failed."""
    sys.path.insert(0, str(ROOT))
    with tempfile.TemporaryDirectory() as folder:
        noting = Noting(jobs, Path(folder), cases=not tests)
        places = tests or [str(ROOT / place) for place in TESTS]
        status = pytest.main(["-q", "--cold", "--forked", str(jobs), "-o", f"cache_dir={folder}/pytest", *places], plugins=[noting])
        rows, without_code = noting.rows(), noting.without_code()
    write(out, rows, tests)
    print(f"{len(rows)} kernels of {len({test for test, _, _ in rows})} tests and cases in {out}")
    print(reasons(without_code), end="")
    for test in noting.failed:
        print(f"failed, so what it compiles behind that is not known: {test}")
    return int(status)


def reasons(without_code: list[str]) -> str:
    """How often a simulated launch had no code, and why, the most frequent first."""
    return "".join(f"{count} simulated without code: {said}\n" for said, count in Counter(without_code).most_common())


def write(out: Path, rows: list[Row], tests: Sequence[str] = ()) -> None:
    """Each text once, compressed: modules differ in few lines. `tests` are the files of the rows, if not all."""
    texts = {digest_of(text): text for _, _, text in rows}
    found = [(test, kernel, digest_of(text)) for test, kernel, text in rows]
    out.write_bytes(lzma.compress(json.dumps({"texts": texts, "found": found, "tests": list(tests)}).encode(), preset=1))


def read(path: Path) -> tuple[list[Row], list[str]]:
    """The rows, and the files that they are of; none if they are of all."""
    kept = json.loads(lzma.decompress(path.read_bytes()))
    return [(test, kernel, kept["texts"][digest]) for test, kernel, digest in kept["found"]], kept.get("tests", [])


def digest_of(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def differences(before: list[Row], after: list[Row]) -> Iterator[tuple[str, str, str, str]]:
    """(test, kernel, text before, text after) of what differs. Of one test, equal texts belong together, and then the others in
    their order; the text after is empty where a test compiles fewer, or is gone with a text that no other test has."""
    everywhere = {text for _, _, text in after}
    of_old, of_new = by_test(before), by_test(after)
    for test, old in of_old.items():
        new = of_new.get(test, [])
        gone, come = without(old, new), without(new, old)
        for number, (kernel, text) in enumerate(gone):
            if number < len(come):
                yield test, kernel, text, come[number][1]
            elif text not in everywhere:
                yield test, kernel, text, ""


def by_test(rows: list[Row]) -> dict[str, list[tuple[str, str]]]:
    found: dict[str, list[tuple[str, str]]] = {}
    for test, kernel, text in rows:
        found.setdefault(test, []).append((kernel, text))
    return found


def without(rows: list[tuple[str, str]], others: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """The rows whose texts are not among the others', each of which stands for one."""
    there = Counter(text for _, text in others)
    left = []
    for kernel, text in rows:
        if there[text]:
            there[text] -= 1
        else:
            left.append((kernel, text))
    return left


def diff_of(before: str, after: str) -> list[str]:
    """Without the numbers of values, if there is more that differs: one new op changes all behind it."""
    plain = [re.sub(r"%v\d+", "%v", text) for text in (before, after)]
    one, other = plain if plain[0] != plain[1] else (before, after)
    return list(difflib.unified_diff(one.splitlines(), other.splitlines(), "before", "after", lineterm="", n=2))


def compare(before: Path, after: Path, lines: int) -> int:
    (old, _), (new, tests) = read(before), read(after)
    old, new = ([(test, kernel, with_constants_inside(text)) for test, kernel, text in rows] for rows in (old, new))
    if tests:
        old = [row for row in old if row[0].startswith(tuple(tests))]
    found = list(differences(old, new))
    for test, kernel, was, now in found:
        print(f"{'differs' if now else 'is gone'}: {kernel} of {test}")
        if now:
            diff = diff_of(was, now)
            print("\n".join(f"    {line}" for line in diff[:lines]))
            if len(diff) > lines:
                print(f"    ... {len(diff) - lines} lines more")
    alone = {test for test, _, _ in old} ^ {test for test, _, _ in new}
    print(f"{len(old)} kernels before, {len(new)} after; {len(found)} differ or are gone; {len(alone)} tests on one side only")
    return int(bool(found) or not old or not new)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    noting = commands.add_parser("note", help="compile, and write the code")
    noting.add_argument("out", type=Path)
    noting.add_argument("tests", nargs="*", help="files or names of tests, as of pytest; by default all")
    noting.add_argument("--jobs", type=int, default=2, help="processes at a time")
    comparing = commands.add_parser("compare", help="say what differs")
    comparing.add_argument("before", type=Path)
    comparing.add_argument("after", type=Path)
    comparing.add_argument("--lines", type=int, default=60, help="lines of each diff")
    args = parser.parse_args(arguments)
    if args.command == "note":
        return note(args.out, args.jobs, args.tests)
    return compare(args.before, args.after, args.lines)


if __name__ == "__main__":
    sys.exit(main())
