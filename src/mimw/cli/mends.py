"""`mimw check --fix`: the change of the source that mends what a check has found, as a diff or written into the file.

Input: the options, and the report of a check. Output: the report with a mend, the diff on standard output, or the changed file:

    mimw check ring.py:case                 the mend in words, below each finding
    mimw check ring.py:case --fix           and as a unified diff
    mimw check ring.py:case --fix --apply   and written into ring.py
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from typing import Any

from .errors import CommandError
from .places import nearer
from .progress import working

SECONDS = 20.0      # of the search
FURTHER = 60.0      # with --fix
LIKELY = 100        # changes that are tried without --fix


def add_mends(parser: ArgumentParser) -> None:
    parser.add_argument("--fix", action="store_true", help="look further for a change of the source that mends what is found, "
                        "and show it as a diff")
    parser.add_argument("--apply", action="store_true", help="with --fix: write the change into the file")
    parser.add_argument("--mend-time", type=float, metavar="SECONDS",
                        help=f"how long to look for such a change (default {SECONDS:g}, with --fix {FURTHER:g}; 0: not at all)")


def with_mend(options: Namespace, report: Any, kernel: Any, grid: Any, args: Any, how: dict[str, Any]) -> Any:
    """The report with a mend, where something was found and there is time to look for one. `how` are the keywords of the check."""
    from ..tools.check import check
    from ..tools.mends.mending import mended

    if options.apply and not options.fix:
        raise CommandError("--apply goes with --fix: mimw check --fix --apply FILE:NAME.")
    if options.mend_time is None:
        options.mend_time = FURTHER if options.fix else SECONDS
    if report.ok or options.replay is not None or options.mend_time <= 0:
        return report
    with working("looking for a change of the source that mends it"):
        return mended(report, check, kernel, grid, args, how, options.mend_time, None if options.fix else LIKELY)


def apply_mend(options: Namespace, report: Any) -> bool:
    """Show the mend as a diff, and apply it, as the options say. True if the file is mended and nothing is left to find."""
    if not options.fix or report.ok:
        return False
    if report.mend is None:
        if not options.json:
            print(f"\nno small change of the source was found within {options.mend_time:g} s with which less is found")
        return False
    if not options.json:
        print(f"\n{nearer(report.mend.diff)}")
    if options.apply:
        report.mend.apply()
        if not options.json:
            print(f"\n{nearer(report.mend.edits[0].file)} is changed")
    return options.apply and not report.mend.left
