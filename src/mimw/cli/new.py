"""Write a file to start from: a kernel with its launch, its check against numpy, and a `main` that runs it.

Input: a kind of kernel, and a path. Output: a file of Python that runs as it is, with a GPU and without:

    mimw new gemm               gemm.py: python gemm.py, mimw check gemm.py:case, ...
"""

from __future__ import annotations

import json
import sys
from argparse import ArgumentParser, Namespace
from pathlib import Path

from .errors import CommandError
from .output import check_output, writing

HELP = "write a kernel to start from, with its launch and check"
EXAMPLES = """\
  mimw new                             the kinds of files that can be written
  mimw new gemm                        gemm.py, then: python gemm.py
  mimw new gemm -o kernels/mine.py
"""
_STARTS = Path(__file__).parent / "starts"


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("kind", metavar="KIND", nargs="?", choices=starts(), help=", ".join(starts()))
    parser.add_argument("-o", "--output", type=Path, metavar="PATH", help="the file (default KIND.py)")
    parser.add_argument("--force", action="store_true", help="write over a file that is there")
    parser.add_argument("--json", action="store_true", help="print the file that was written, or the kinds, as JSON")


def starts() -> list[str]:
    """The kinds of files that there are."""
    return sorted(path.stem for path in _STARTS.glob("*.py"))


def execute(options: Namespace) -> int:
    if options.kind is None:
        told = {kind: _text(kind).split('"""')[1].splitlines()[0] for kind in starts()}
        print(json.dumps(told, indent=2) if options.json else "\n".join(f"{kind:<12} {text}" for kind, text in told.items()))
        return 0
    path = check_output(options.output or Path(f"{options.kind}.py"))
    if path.stem in sys.stdlib_module_names:
        raise CommandError(f"{path} would hide Python's own module {path.stem!r} from every program in its folder. Name another "
                           "with -o PATH.")
    if path.exists() and not options.force:
        raise CommandError(f"{path} is there already. Name another file with -o PATH, or write over it with --force.")
    with writing(path):
        path.write_text(_text(options.kind).replace(f"{options.kind}.py", path.name))
    commands = [f"python {path}", f"mimw check {path}:case", f"mimw explain {path}:case", f"mimw predict {path}:case"]
    if options.json:
        print(json.dumps({"path": str(path), "commands": commands}, indent=2))
    else:
        print(f"{path} is written. Try:\n" + "\n".join(f"  {command}" for command in commands))
    return 0


def _text(kind: str) -> str:
    return (_STARTS / f"{kind}.py").read_text()
