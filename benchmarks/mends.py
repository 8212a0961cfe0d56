"""Does the mend help that `mimw check` prints? Mistakes are planted in beginners' kernels, and mends applied by machine.

    python -m benchmarks.mends [--kernels TEXT...] [--out docs/MENDS.md]
    python -m benchmarks.mends --list [--kernels TEXT...]           each mistake with its mend, by the rows: nothing is run

A mistake (planted.py) that neither the check nor a comparison with numpy notices is *no mistake here*, and left out. Of the
others the mend is applied to the source and the kernel checked again: *clean* after one step, after two, or not. *Right* says that
the result is numpy's then. The comparison is told to the search only where the check by itself finds nothing, so that mends of what
the check finds are as good as they are for a kernel without expected values.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from functools import wraps
from pathlib import Path
from types import ModuleType

import numpy as np

import mimw
from docs.support.reflow import reflow
from mimw.cli.load import load
from mimw.compiler.triton_port.codegen import CompilationError
from mimw.tools.findings import Finding, Report
from mimw.tools.mends import Mend, edited
from mimw.tools.mends.kernel_source import KernelSource, source_of
from mimw.tools.mends.mending import mended

from .driver import with_results
from .mutation_kernels.case import TUTORIALS, numbers, tutorial
from .mutations import read_rows
from .planted import Mistake, planted
from .progress import each

ROOT = Path(__file__).parents[1]
STARTS = ROOT / "src/mimw/cli/starts"
SECONDS, STEPS = 120, 2
WRONG = Finding("WrongResult", "the result is not numpy's", ())


@dataclass(frozen=True)
class Kernel:
    """`make()` gives (kernel, grid, args, meta); `right(args)` compares the arrays of a run with numpy's."""

    name: str
    make: Callable[[], tuple]
    right: Callable[[tuple], bool]


@dataclass(frozen=True)
class Row:
    """What became of one mistake. `steps`: after how many mends the check was clean, 0 for never."""

    kernel: str
    operator: str
    line: int
    planted: str
    found: tuple[str, ...]
    steps: int
    right: bool
    mends: tuple[str, ...]
    seconds: float


@contextmanager
def kernels() -> Iterator[list[Kernel]]:
    """The kernels that a beginner begins with."""
    with tempfile.TemporaryDirectory() as folder:
        start = _module(_row_sums(Path(folder)))
        gemm, two, norm = (_module(STARTS / f"{name}.py") for name in ("gemm", "two_tasks", "layer_norm"))
        yield [Kernel("START.md", start.case, lambda args: np.array_equal(args[1], args[0].base.array.sum(0))),
               Kernel("new gemm", gemm.case, lambda args: _is_product(*(one.base.array for one in args[:3]))),
               Kernel("new two_tasks", two.case, lambda args: np.array_equal(args[0], args[1])),
               Kernel("new layer_norm", norm.case, _is_norm),
               Kernel("tutorial 01", lambda: _gemm("01_pipelined_gemm", 128, 128, 256, BM=64, BN=64, STAGES=3, num_warps=4),
                      lambda args: _is_product(*args[:3])),
               Kernel("tutorial 02", lambda: _gemm("02_warp_specialised_gemm", 256, 256, 192, 2, BN=128, STAGES=2),
                      _of_descriptors),
               Kernel("tutorial 11", lambda: _gemm("11_tle_pipe_gemm", 128, 128, 256, BM=64, BN=64, STAGES=3, num_warps=4),
                      _of_descriptors)]


def _row_sums(folder: Path) -> Path:
    """The kernel of START.md, as a reader saves it."""
    text = (ROOT / "docs/START.md").read_text()
    (folder / "row_sums.py").write_text(re.search(r"<!-- file: row_sums.py -->\n```python\n(.*?)```", text, re.S)[1])
    return folder / "row_sums.py"


def _module(path: Path) -> ModuleType:
    return sys.modules[load(f"{path}:case").__module__]


def _gemm(stem: str, m: int, n: int, k: int, *further, **meta) -> tuple:
    sys.path.insert(0, str(TUTORIALS)) if str(TUTORIALS) not in sys.path else None
    module = tutorial(stem)
    a, b = numbers((m, k), (k, n))
    return module.gemm, *module.arguments(a, b, np.zeros((m, n), np.float16), *further, **meta)


def _is_product(a, b, c) -> bool:
    return bool(np.allclose(c.astype(np.float32), a.astype(np.float32) @ b.astype(np.float32), atol=0.1, rtol=0.02))


def _of_descriptors(args) -> bool:
    return _is_product(*(one.base.array for one in args[:3]))


def _is_norm(args) -> bool:
    x, weight, bias, y = args[:4]
    return bool(np.allclose(y, (x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True) + 1e-5) * weight + bias, atol=1e-4))


class Launch:
    """One launch of a kernel, and the comparison of its results."""

    def __init__(self, kernel: Kernel):
        self.kernel = kernel
        self.original, self.grid, self.args, self.meta = kernel.make()

    def right(self, kernel) -> bool:
        args = self.kernel.make()[2]
        mimw.simulate(kernel, self.grid, *args, **self.meta)
        return self.kernel.right(args)


def compared(launch: Launch) -> Callable[..., Report]:
    """`mimw.check`; and where it finds nothing, the comparison with numpy."""

    @wraps(mimw.check)
    def check(kernel, grid, *args, **keywords) -> Report:
        report = mimw.check(kernel, grid, *args, **keywords)
        return replace(report, findings=(WRONG, )) if report.ok and not launch.right(kernel) else report

    return check


def judge(kernel: Kernel, source: KernelSource, mistake: Mistake) -> Row | None:
    """What becomes of one mistake; None if nothing notices it, or if Triton does not record it."""
    begun, launch, mends = time.perf_counter(), Launch(kernel), []
    text = edited(source.text, mistake.edits)
    options = dict(jobs=1, **launch.meta)
    try:
        broken = source.remade(text)
        report = found = compared(launch)(broken, launch.grid, *launch.args, **options)
    except CompilationError:
        return None
    if found.ok:
        return None
    check = compared(launch) if WRONG in found.findings else mimw.check
    while not report.ok and len(mends) < STEPS:
        mend = mended(report, check, broken, launch.grid, launch.args, options, SECONDS).mend
        if mend is None:
            break
        mends.append(mend)
        text = edited(text, mend.edits)
        broken = source.remade(text)
        report = check(broken, launch.grid, *launch.args, **options)
    steps = len(mends) if report.ok else 0
    return Row(kernel.name, mistake.operator, mistake.line, mistake.edits[-1].text.strip() or "(deleted)",
               tuple(one.kind for one in found.findings), steps, bool(steps) and launch.right(broken), tuple(map(_said, mends)),
               round(time.perf_counter() - begun, 2))


def _said(mend: Mend) -> str:
    """The mend in words, without the folder of the planted file."""
    folder = str(Path(mend.edits[0].file).parent) + "/"
    return (mend.text + "".join(f"; or {other}" for other in mend.others)).replace(folder, "")


def rows_of(kernel: Kernel, chosen: Callable[[Mistake], bool] = lambda mistake: True) -> Iterator[Row]:
    """The rows of one kernel."""
    with source_of(kernel.make()[0]) as source:
        for mistake in planted(source):
            row = judge(kernel, source, mistake) if chosen(mistake) else None
            if row is not None:
                yield row


def main(words: list[str] | None = None) -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--kernels", nargs="*", default=[""], metavar="TEXT")
    options.add_argument("--out", type=Path)
    options.add_argument("--list", action="store_true", help="print each mistake with its mend by the rows, and run nothing")
    with_results(options)
    options = options.parse_args(words)
    file = options.results / "mends.jsonl"
    with kernels() as every:
        order = [one.name for one in every]
        chosen = [one for one in every if any(text.lower() in one.name.lower() for text in options.kernels)]
        if options.list:
            names = [one.name for one in chosen]
            sys.stdout.write(listing([row for row in read_rows(file) if row["kernel"] in names]))
            return
        for kernel in each(chosen, lambda one: one.name):
            new = [asdict(row) for row in rows_of(kernel)]
            rows = [row for row in read_rows(file) if row["kernel"] != kernel.name] + new
            rows.sort(key=lambda row: order.index(row["kernel"]))
            file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    if options.out:
        options.out.write_text(page(read_rows(file)))
    print(tables(read_rows(file)))


def listing(rows: list[dict]) -> str:
    """Each mistake with what was found and what the mends say."""
    return "".join(f"{row['kernel']}:{row['line']} {row['operator']}: {row['planted']}\n    {', '.join(row['found'])}: "
                   f"{_became(row)}; {row['seconds']} s\n" + "".join(f"    {mend}\n" for mend in row["mends"]) for row in rows)


def _became(row: dict) -> str:
    steps = {0: "not clean", 1: "clean after one step", 2: "clean after two"}[row["steps"]]
    return steps + (", and right" if row["right"] else ", and not numpy's result" if row["steps"] else "")


HEAD = """# Do the mends help?

`mimw check` looks for a change of the source that mends what it has found ([CHECKING.md](CHECKING.md#mends)). Here mistakes are
planted in the kernels with which one begins, that of [START.md](START.md), those of `mimw new`, and tutorials 01, 02 and 11: each
mistake of each operator below, at every line where it can be made. The mend is applied to the source by a machine, and the kernel
checked again.

* A mistake is counted if the check finds something, or if the result is not numpy's. Where only the result shows it, the search is
  told whether results are right, as it is by expected values.
* *Clean after one*, *after two*: the check finds nothing after so many mends. *Right*: the result is numpy's then.
* The mistakes are of the kinds for which changes are tried, one at a time, and in small kernels. Of other mistakes, or of several
  at once, the figures say nothing.

Made by `python -m benchmarks.mends --out docs/MENDS.md`, from the rows in `benchmarks/results/mends.jsonl`. The same rows hold each
mistake with what was found and its mend: `python -m benchmarks.mends --list`.

"""


def page(rows: list[dict]) -> str:
    """docs/MENDS.md."""
    rest = [row for row in rows if row["steps"] != 1 or not row["right"]]
    lines = [f"* {row['kernel']}, line {row['line']}, {row['operator']}, `{_short(row['planted'])}`: {_became(row)}"
             for row in rest]
    text = "\n## Those that are not mended in one step, or not rightly\n\n" + "\n".join(lines or ["None."]) + "\n"
    return reflow(HEAD + tables(rows) + text)


def _short(planted: str) -> str:
    return " ".join(planted.partition("  #")[0].split())


def tables(rows: list[dict]) -> str:
    """The figures by operator, and by kernel."""
    return "\n".join([_table("Mistake", "operator", rows), _table("Kernel", "kernel", rows)])


def _table(title: str, key: str, rows: list[dict]) -> str:
    names = sorted({row[key] for row in rows}, key=lambda name: name.strip("`"))
    lines = [f"| {title} | Planted | Clean after one | After two | Right |", "|---|---|---|---|---|"]
    lines += [_row(name, [row for row in rows if row[key] == name]) for name in names]
    return "\n".join([*lines, _row("**All**", rows)]) + "\n"


def _row(name: str, rows: list[dict]) -> str:
    one, two = sum(row["steps"] == 1 for row in rows), sum(row["steps"] > 0 for row in rows)
    return f"| {name} | {len(rows)} | {_of(one, rows)} | {_of(two, rows)} | {_of(sum(row['right'] for row in rows), rows)} |"


def _of(count: int, rows: list[dict]) -> str:
    return f"{count} ({count / max(1, len(rows)):.0%})"


if __name__ == "__main__":
    main()
