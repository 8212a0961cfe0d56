"""`mimw check --cases FILE...`: the launches that files offer to checks, as a hook of pre-commit or a job of CI wants them.

Input: names of files, as a hook gives those that have changed. Output: the names of their cases:

    cases_of(["kernels/ring.py", "setup.py"])       ["kernels/ring.py:case", "kernels/ring.py:case_long"]

A case is a function of a file that is named `case`, or `case_` and more, and needs no arguments. Files are read for these names and
not run; those without a case are passed over.
"""

from __future__ import annotations

import ast
import json
import sys
import tokenize
from argparse import Namespace
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from .errors import CommandError
from .failing import one_line, unforeseen, wanted_whole
from .places import nearer
from .review import write_sarif

OF_ONE_LAUNCH = ("html", "args", "grid", "fix", "apply", "replay")      # options that say nothing of several


def check_cases(options: Namespace, checked: Callable[[Namespace], Any]) -> int:
    """Check the cases of the files `options.kernel`, one after the other, by `checked(options of one)`, and print or write what was
    found; the exit status. A case that cannot be checked keeps no other one from it."""
    for name in OF_ONE_LAUNCH:
        if getattr(options, name):
            raise CommandError(f"--{name} is about one launch: mimw check FILE:FUNCTION --{name} ...")
    reports, refused = {}, False
    for name in cases_of(options.kernel):
        try:
            reports[name] = report = checked(Namespace(**{**vars(options), "kernel": name}))
        except Exception as error:
            if wanted_whole():
                raise
            print(f"mimw: {name}: {nearer(one_line(error) or unforeseen(error))}", file=sys.stderr)
            refused = True
        else:
            if not options.json:
                print(f"{name}\n{nearer(report)}\n", flush=True)
    write_sarif(options, reports.values(), "cases")
    if options.json:
        print(json.dumps([{"case": name, **report.as_json()} for name, report in reports.items()], indent=2))
    elif not reports and not refused:
        print(f"no cases in {len(options.kernel)} file{'s' * (len(options.kernel) != 1)}")
    return options.refused if refused else int(not all(report.ok for report in reports.values()))


def cases_of(names: Iterable[str]) -> list[str]:
    """The cases of all files, in order; FILE:FUNCTION stays as it is. CommandError for what is no file of Python."""
    return list(dict.fromkeys(case for name in names for case in ([name] if ":" in name else _in_file(name))))


def _in_file(file: str) -> Iterator[str]:
    try:
        with tokenize.open(file) as text:
            body = ast.parse(text.read()).body
    except OSError as error:
        raise CommandError(f"cannot read {file}: {error.strerror}.") from error
    except (SyntaxError, ValueError) as error:
        raise CommandError(f"{file} is no file of Python: {' '.join(str(error).split())}") from error
    for node in body:
        if isinstance(node, ast.FunctionDef) and (node.name == "case" or node.name.startswith("case_")) and not _needs(node.args):
            yield f"{file}:{node.name}"


def _needs(args: ast.arguments) -> bool:
    """True if a function cannot be called without arguments."""
    placed = [*args.posonlyargs, *args.args]
    return len(placed) > len(args.defaults) or any(default is None for default in args.kw_defaults)
