"""`--sarif FILE`: the findings of a command for code review, beside what the command prints.

Input: the parsed options, and reports. Output: the file, and a line that names it. For example:

    add_sarif(parser); check_sarif(options); write_sarif(options, [report])        for code review: /home/you/mimw.sarif

Paths in it are relative to the folder where the command was started. The line goes to stderr, where it is in nobody's way.
"""

from __future__ import annotations

import json
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from .output import check_output, writing
from .places import started


def add_sarif(parser: ArgumentParser) -> None:
    parser.add_argument("--sarif", metavar="FILE", help="also write the findings there as SARIF 2.1.0, for code review")


def check_sarif(options: Namespace) -> None:
    """CommandError, before the work, where no file can be written."""
    if options.sarif:
        check_output(options.sarif)


def write_sarif(options: Namespace, reports: Iterable[Any], name: str) -> None:
    """Write the findings of all `reports`; `name` tells this check from others of the same commit."""
    if not options.sarif:
        return
    from ..tools.sarif import sarif
    text = json.dumps(sarif(reports, started(), name), indent=2)
    with writing(options.sarif):
        Path(options.sarif).write_text(f"{text}\n", encoding="utf-8")
    print(f"for code review: {Path(options.sarif).absolute()}", file=sys.stderr)
