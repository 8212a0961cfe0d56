"""What benchmarks share: their options, candidates measured in turn or tried one by one, and the rows that are kept.

    options = command(__doc__, rounds=15).parse_args()
    times = in_turn({"mimw": compile_mimw, "gluon": compile_gluon}, options.rounds)         what each gave, round by round
    keep_row({"name": "compile_time", "ratio": 1.14}, options.results / "compile_time.jsonl")       printed, and a line of it

Input: a benchmark's docstring, its candidates, its figures. Output: a parser of its command line; numbers; a line of JSON with
the machine, the versions and the date. Kernels on a GPU are timed by `mimw.testing.benchmark`; gpu.py makes their rows.
"""

from __future__ import annotations

import argparse
import datetime
import hashlib
import json
import os
import platform
from collections.abc import Callable, Collection, Mapping
from functools import cache
from pathlib import Path

import numpy as np
import triton

import mimw as package
from mimw.cli import main as mimw

RESULTS = Path(__file__).parent / "results"


def command(doc: str, rounds: int | None = None, tune: bool = False, ms: float | None = None,
            jobs: bool = False) -> argparse.ArgumentParser:
    """A parser with the docstring for its help, and the options that several benchmarks have: `--results`, the folder of their
    files of rows; `--rounds` and `--ms`, milliseconds, where their defaults are given; `--tune`; `--jobs`."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    if rounds is not None:
        parser.add_argument("--rounds", type=int, default=rounds)
    if tune:
        parser.add_argument("--tune", action="store_true", help="try every candidate configuration")
    if ms is not None:
        parser.add_argument("--ms", type=float, default=ms, help="how long each candidate is timed at least")
    if jobs:
        parser.add_argument("--jobs", type=int, default=0, help="processes that compile before anything is timed; 0 for none")
    with_results(parser)
    return parser


def with_results(parser: argparse.ArgumentParser) -> None:
    """Give a command line the option `--results`."""
    parser.add_argument("--results", type=folder, default=RESULTS, metavar="DIR",
                        help="folder for the rows; each benchmark appends to a file of its own there, one JSON object a line")


def folder(text: str) -> Path:
    """The folder that `--results` names; there need be none yet."""
    path = Path(text)
    if path.is_file() or path.suffix == ".jsonl":
        raise argparse.ArgumentTypeError(f"{text} is a file, and rows go to a folder, in which each benchmark has a file of its "
                                         f"own: name the folder, {path.parent}, or a new one for this run")
    return path


def some_of(parser: argparse.ArgumentParser, what: str, known: Collection, kind: type = str) -> None:
    """Let the command line name some of the `known` cases: `options.<what>` is a list of them, empty where it names none."""
    names = ", ".join(map(str, known))

    def case(text: str):
        if (found := kind(text)) not in known:
            raise argparse.ArgumentTypeError(f"{text} is none of {names}")
        return found

    parser.add_argument(what, nargs="*", type=case, default=[], help=f"some of {names}; by default all of them")


def in_turn(candidates: Mapping[str, Callable[[], float]], rounds: int) -> dict[str, list[float]]:
    """What each candidate gives, `rounds` times; every round asks all of them and begins with another one."""
    names, found = list(candidates), {name: [] for name in candidates}
    for turn in range(rounds):
        first = turn % len(names)
        for name in names[first:] + names[:first]:
            found[name].append(candidates[name]())
    return found


def search(operator: str, shapes: list[str], dtype: str, folder: Path, *words: str) -> int:
    """`mimw tune` for the shapes, with further words of its command line; its journal and the configurations found are kept in the
    folder. The exit status. Nothing may have asked for the GPU yet: the search forks."""
    folder.mkdir(parents=True, exist_ok=True)
    journal, found = (str(folder / name) for name in (f"tune-{operator}-{dtype}.jsonl", f"configs-{operator}-{dtype}.json"))
    return mimw(["tune", operator, "--shapes", *shapes, "--dtype", dtype, "--journal", journal, "--write", found, *words])


def append(row: Mapping, file: Path, sort_keys: bool = True) -> str:
    """Append `row` as a line of JSON to `file`, whose folder is made if there is none; the line."""
    line = json.dumps(row, sort_keys=sort_keys)
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("a") as rows:
        rows.write(line + "\n")
    return line


def read_rows(file: Path) -> list[dict]:
    """The rows of a file of one JSON object a line; [] where there is no file yet."""
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def keep_row(row: dict, file: Path) -> None:
    """Print `row` as a line of JSON with the facts of this machine, and append it to the file."""
    print(append(row | machine(), file), flush=True)


def machine() -> dict:
    """What a row says of this machine."""
    return {"cores": os.cpu_count(), "date": datetime.date.today().isoformat(), "python": platform.python_version(),
            "numpy": np.__version__, "triton": triton.__version__}


@cache
def code() -> str:
    """Eight digits of a digest of the package's sources and data: rows with the same ones are of the same kernels and compiler."""
    root, digest = Path(package.__file__).parent, hashlib.sha256()
    for file in sorted(file for file in root.rglob("*") if file.suffix in (".py", ".json", ".toml")):
        digest.update(f"{file.relative_to(root)}\0".encode() + file.read_bytes())
    return digest.hexdigest()[:8]
