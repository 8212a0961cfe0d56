"""`--html PATH`: the page of what a command found, beside what the command prints.

Input: the parsed options, and an object with `save_html`. Output: the file, and a line that names it. For example:

    add_page(parser); check_page(options); write_page(options, report); name_page(options)       page: /home/you/ring.html

The line goes to stderr where JSON is printed.
"""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import Any

from .errors import CommandError
from .output import check_output, writing


def add_page(parser: ArgumentParser) -> None:
    parser.add_argument("--html", metavar="PATH", help="also write a page there that needs no network: source, findings, timeline, "
                        "storage and barriers, linked by click")


def check_page(options: Namespace) -> None:
    """CommandError, before the work, where no page can be written."""
    if options.html:
        if Path(options.html).suffix not in (".html", ".htm"):
            raise CommandError(f"--html {options.html!r} should end in .html.")
        check_output(options.html)


def write_page(options: Namespace, found: Any) -> None:
    """Write the page, before anything is printed: so it is there also if standard output is a pipe that closes (`| head`)."""
    if options.html:
        with writing(options.html):
            found.save_html(options.html)


def name_page(options: Namespace) -> None:
    if options.html:
        print(f"page: {Path(options.html).absolute()}", file=sys.stderr if options.json else sys.stdout)
