"""Step through a launch on the simulator, forward and back: tasks, barriers, buffers, tiles.

Input: a launch, with arguments as for `mimw check`, and commands from the terminal, a file or the standard input. Output: what the
commands ask for. For example:

    mimw debug row_sums.py:case
    (mimw) b 21 if row == 3
    (mimw) c

Commands are as in pdb (n, s, b, c, p, w, l, q), each move also backwards (rn, rs, rc); h lists them. Exit status 0, also where the
run ends in an error: looking at it was what was asked for.
"""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace

from .check import add_launch_arguments, launch_of, seed_or_schedule
from .errors import CommandError
from .page import add_page, check_page, name_page, write_page
from .places import nearer
from .progress import working

HELP = "step through a kernel on the simulator, forward and back"
EXAMPLES = """\
  mimw debug ring.py:case                          case() returns (kernel, grid, args, meta)
  mimw debug add.py:add --args 'fp32[128]' 'fp32[128]' 128 BLOCK=128
  mimw debug ring.py:case --seed 17                the run of a finding, which names its seed or schedule
  mimw debug ring.py:case --find                   what mimw check finds first, with the run that shows it
  mimw debug ring.py:case --do 'b full[0]; c; w'   these commands, and no prompt
  mimw debug ring.py:case --commands walk.txt      commands from a file, - for the standard input
  mimw debug ring.py:case --html run.html          no prompt: the run as a page with a slider
"""


def add_arguments(parser: ArgumentParser) -> None:
    add_launch_arguments(parser)
    parser.add_argument("--seed", type=seed_or_schedule, default=0, metavar="SEED",
                        help="which run: a seed, or a schedule as a finding names it (default 0)")
    parser.add_argument("--find", action="store_true", help="check the kernel first, and debug the run of the first finding")
    parser.add_argument("--no-races", action="store_true", help="do not look for races: the run goes on past them")
    parser.add_argument("--target", metavar="CHIP", help="the chip whose rules hold (default MIMW_TARGET or sm_90a)")
    parser.add_argument("--do", metavar="COMMANDS", help="do these commands, with ; between, and end")
    parser.add_argument("--commands", metavar="FILE", help="read the commands from a file, - for the standard input, and end")
    add_page(parser)


def execute(options: Namespace) -> int:
    from ..runtime.call import Given
    from ..runtime.case import case_of
    from ..tools.debugger import debug
    from ..tools.debugger.commands import Prompt, read

    check_page(options)
    lines = _commands(options.commands) if options.do is None else options.do.split(";")
    kernel, grid, args, meta = case = case_of(launch_of(options))
    results = {} if case.expected is None else {"expected": case.expected, "tolerance": case.tolerance}
    with working(f"recording {options.kernel}"):
        finding = _found(options, Given(kernel, meta), grid, args, results) if options.find else None
        session = debug(Given(kernel, meta), grid, *args, seed=options.seed, races=not options.no_races, target=options.target,
                        finding=finding, **results)
    with session:
        prompt = Prompt(session, lambda text: print(nearer(text), flush=True))
        print(nearer(session.here() if finding is None else session.goto(sys.maxsize)))
        if lines is not None:
            prompt.script(lines)
        elif not options.html:
            read(prompt)
        write_page(options, session)
    options.json = False
    name_page(options)
    return 0


def _commands(path: str | None) -> list[str] | None:
    """The lines of --commands; None where they come from the terminal."""
    if path is None:
        return None
    if path == "-":
        return sys.stdin.read().splitlines()
    try:
        with open(path, encoding="utf-8") as text:
            return text.read().splitlines()
    except OSError as error:
        raise CommandError(f"--commands {path}: {error.strerror}.") from None


def _found(options: Namespace, kernel, grid, args, results: dict):
    """The first finding of a check that some run shows; CommandError if there is none."""
    from ..tools.check import check

    report = check(kernel, grid, *args, target=options.target, **results)
    found = next((one for one in report.findings if one.seed is not None), None)
    if found is None:
        raise CommandError(f"--find: {nearer(report)}")
    return found
