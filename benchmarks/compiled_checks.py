"""`mimw.check_ttgir` over published kernels as stock Triton compiles them: tutorials, kernels of packages, ConSan's tests.

    python -m benchmarks.compiled_checks --packages /tmp/packages               all, a line each, and rows in compiled_checks.jsonl
    python -m benchmarks.compiled_checks --packages /tmp/packages gluon-08 --show       whose name has that in it, with all findings
    python -m benchmarks.compiled_checks --packages /tmp/packages --keep /tmp/dumps     the TTGIR of each, nothing checked

Input: the files, fetched into the folder unless they are there. Output: the table (kernel, target, ops of the module, ops that ran,
what was found, seconds). Results are compared with numpy. What a finding is of, the kernel or the checker, `FOUND` says.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
from triton.compiler.errors import CompilationError

import mimw
from mimw.cli.check import argument
from mimw.errors import MimwError
from mimw.simulator.machine.machine import Machine

from .compiled_checks_found import FOUND, NOT_TAKEN
from .compiled_checks_gluon import GLUON
from .compiled_checks_packages import PACKAGES
from .compiled_checks_sanitizer import SANITIZER
from .compiled_checks_sources import Case, Launch, to_ttgir
from .compiled_checks_tutorials import TUTORIALS
from .driver import append, command, machine
from .others_sources import NotFetched
from .progress import each

CASES: dict[str, Case] = GLUON | TUTORIALS | PACKAGES | SANITIZER
_OP = re.compile(r"^\s*(?:%[\w:, %]+ = )?\"?(?:tt|ttg|ttng|nvgpu|nvws|scf|arith|math|ub)\.\w+", re.MULTILINE)


def arguments(launch: Launch, names: Sequence[str]) -> tuple[list[Any], dict[str, np.ndarray]]:
    """The arrays and numbers that a launch names, and the right values of those that it writes."""
    args = {name: argument(str(launch.args[name])) for name in names}
    for place, (name, value) in enumerate(args.items()):
        array = _array(value)
        if array is not None:
            generator = np.random.default_rng(place)        # not the same numbers in two arguments
            if name in launch.fill:
                array[...] = eval(launch.fill[name], {"np": np}, {})
            elif array.dtype.kind != "i":
                array[...] = generator.standard_normal(array.shape)
    known: dict[str, Any] = {"np": np}
    for name, value in {**launch.args, **args}.items():
        array = _array(value)
        known[name] = value if array is None else array.astype(np.int64 if array.dtype.kind == "i" else np.float32)
    with np.errstate(all="ignore"):
        return list(args.values()), {name: np.asarray(eval(text, known)) for name, text in launch.results.items()}


def _array(value: Any) -> np.ndarray | None:
    value = getattr(value, "base", value) if not isinstance(value, np.ndarray) else value
    value = getattr(value, "array", value)
    return value if isinstance(value, np.ndarray) else None


def checked(case: Case, packages: Path, seeds: int, limit: float) -> dict[str, Any]:
    """A row: what the check of one kernel said."""
    row: dict[str, Any] = {"kernel": case.name, "target": f"sm_{case.target}", "repository": case.source.package,
                           "commit": case.source.version, "path": case.source.path, "function": case.source.function,
                           "is_wrong": case.is_wrong}
    try:
        text, launch, names = to_ttgir(case, packages)
    except NotFetched as error:
        return row | {"said": "not fetched", "why": str(error)}
    except (CompilationError, RuntimeError) as error:
        return row | {"said": "not compiled", "why": NOT_TAKEN.get(case.name, " ".join(str(error).split())[-300:])}
    row |= {"ops": len(_OP.findall(text))}
    args, expected = arguments(launch, names)
    begun = time.perf_counter()
    try:
        with memory_holds_numbers() if case.is_wrong is not None else nullcontext():
            report = mimw.check_ttgir(text, launch.grid, *args, file=f"{case.name}.ttgir", seeds=seeds, jobs=1, time_limit=limit,
                                      expected=expected or None, tolerance=launch.tolerance if expected else None)
    except MimwError as error:
        return row | {"said": type(error).__name__, "why": " ".join(str(error).split()).replace(f"{packages}/", ""),
                      "seconds": time.perf_counter() - begun}
    kinds = sorted({found.kind for found in report.findings})
    return row | {"said": "ok" if report.ok else ", ".join(kinds), "runs": report.runs, "simulated": report.ops,
                  "compared": bool(expected), "seconds": time.perf_counter() - begun, "stopped": report.stopped,
                  "verdict": _verdict(case, report.ok),
                  "findings": [{"kind": found.kind, "lines": [f"{Path(site.file).name}:{site.line}" for site in found.sites]}
                               for found in report.findings],
                  "texts": [str(found).replace(f"{packages}/", "") for found in report.findings]}


@contextmanager
def memory_holds_numbers() -> Iterator[None]:
    """While it is open, shared and tensor memory that nobody has written may be read: ConSan's tests do, and are about something
    else."""
    begin = Machine.__init__

    def begun(self, *args, **options):
        begin(self, *args, **options | {"check_unwritten": False})

    with patch.object(Machine, "__init__", begun):
        yield


def _verdict(case: Case, is_ok: bool) -> str:
    """What a person has said of the finding, or of its absence."""
    if case.is_wrong:
        return "not looked at" if is_ok else "wrong on purpose"
    return FOUND.get(case.name, "" if is_ok else "not looked at")


def line(row: dict[str, Any]) -> str:
    seconds, said = row.get("seconds", 0.0), row["said"] + (" (in part)" if row.get("stopped") else "")
    return f"{row['kernel']:32} {row['target']:7} {row.get('ops', 0):5} {row.get('simulated', 0):8} {seconds:7.1f}  {said}"


def kept(cases: Sequence[Case], packages: Path, to: Path) -> None:
    """TTGIR and launch of each, as files that `mimw check` takes."""
    to.mkdir(parents=True, exist_ok=True)
    for case in each(cases, lambda case: case.name):
        text, launch, names = to_ttgir(case, packages)
        (to / f"{case.name}.ttgir").write_text(text)
        (to / f"{case.name}.json").write_text(json.dumps({
            "target": f"sm_{case.target}", "grid": launch.grid, "args": [launch.args[name] for name in names], "names": names,
            "fill": dict(launch.fill), "results": dict(launch.results), "tolerance": launch.tolerance}, indent=1))


def main(argv: Sequence[str] | None = None) -> int:
    parser = command(__doc__)
    parser.add_argument("names", nargs="*", help="parts of names, by default all")
    parser.add_argument("--packages", type=Path, required=True, metavar="DIR", help="where the files are, or are fetched to")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="write TTGIR and launches there, and check nothing")
    parser.add_argument("--seeds", type=int, default=4)
    parser.add_argument("--limit", type=float, default=60.0, metavar="SECONDS",
                        help="for one kernel, which then is checked in part")
    parser.add_argument("--show", action="store_true", help="print findings in full")
    options = parser.parse_args(argv)
    cases = [case for name, case in CASES.items() if not options.names or any(part in name for part in options.names)]
    if options.keep:
        kept(cases, options.packages, options.keep)
        return 0
    print(f"{'kernel':32} {'target':7} {'ops':>5} {'ran':>8} {'seconds':>7}  found")
    rows = []
    for case in each(cases, lambda case: case.name):
        row = checked(case, options.packages, options.seeds, options.limit)
        rows.append(row)
        print(line(row), flush=True)
        for text in (row.get("why"), *row.pop("texts", ())):        # which quote lines of others: shown, not kept
            if options.show and text:
                print(text, flush=True)
        append({"name": "compiled_checks", **row} | machine(), options.results / "compiled_checks.jsonl")
    print("\n".join(summary(rows)))
    return 1 if any(row.get("verdict") == "not looked at" for row in rows) else 0


def summary(rows: Sequence[dict[str, Any]]) -> list[str]:
    """The table in sentences."""
    ran = [row for row in rows if "runs" in row]
    on_purpose = [row for row in ran if row["is_wrong"] is True]
    twins = [row for row in ran if row["is_wrong"] is False]
    others = [row for row in ran if row["is_wrong"] is None]

    def passed(some: Sequence[dict[str, Any]]) -> int:
        return sum(row["said"] == "ok" for row in some)

    return [f"{len(ran)} of {len(rows)} kernels ran, {sum(row['compared'] for row in ran)} with results compared",
            f"of {len(others)} published kernels {passed(others)} are passed, and in {len(others) - passed(others)} something is "
            "found", f"of {len(on_purpose)} that are wrong on purpose {len(on_purpose) - passed(on_purpose)} are found; of "
            f"{len(twins)} right ones beside them {passed(twins)} are passed"]


if __name__ == "__main__":
    raise SystemExit(main())
