"""The command `mimw`: argument parsing, and how errors reach the terminal.

Input: a command line. Output: the text of one command, and an exit status. For example:

    main(["compile", "add.py:nokernel"])        1; on stderr "mimw: add.py has no 'nokernel'. It has: kernel."

Each command is a module of this folder with `HELP`, `EXAMPLES`, `add_arguments(parser)` and `execute(options) -> int`,
named as the command. A command's module is imported when the command is asked for, all of them for `mimw --help`; the
modules import the rest of the package, Triton and numpy when a command runs, so that every `--help` is instant.
"""

from __future__ import annotations

import argparse
import sys
import traceback
from importlib import import_module

from .failing import of_script, one_line, unforeseen, wanted_whole
from .output import stdout_error, stdout_is_closed
from .parser import Parser
from .places import begin, nearer
from .script import SCRIPT_COMMANDS, split_at_script

ALIASES = {"predict": "timeline"}      # as the function of Python is called
CLOSED_PIPE = 141       # what a shell says of a program that SIGPIPE has ended: 128 + 13
INTERRUPTED = 130       # the same of the keyboard: 128 + SIGINT
COMMANDS = ("demo", "new", "run", "compile", "export", "opt", "explain", "simulate", "check", "debug", "timeline", "orchestrate",
            "tune", "doctor", "completion")

_EPILOG = """examples:
  mimw demo                                      simulate, compile and explain the shipped GEMM
  mimw new gemm                                  write a kernel to start from
  mimw run kernel.py                             run a published TLX script unchanged
  mimw compile kernel.py:gemm --emit ptx ...     print any stage of one kernel, without a GPU
  mimw doctor                                    show what works on this machine

MIMW_TRACEBACK=full shows the Python traceback of an error. `mimw COMMAND --help` has more examples.
"""


def main(argv: list[str] | None = None) -> int:
    """Run one command and return its exit status: 0 done, 1 refused with a message, 2 wrong arguments (by argparse). A command that
    has a meaning of its own for 1 says by `REFUSED` what else it is."""
    own, rest = split_at_script(list(sys.argv[1:] if argv is None else argv))
    begin()
    if not own:
        parser_of(own).print_help(sys.stderr)
        sys.exit(2)
    options = parser_of(own[:1]).parse_args(own)
    options.rest = rest
    try:
        status = options.execute(options)
    except KeyboardInterrupt:
        if wanted_whole():
            raise
        print("mimw: interrupted", file=sys.stderr)
        return INTERRUPTED
    except Exception as error:
        return _failed(error, options.refused, options.runs_script)
    unwritten = stdout_error()
    return status if unwritten is None else _failed(unwritten, options.refused, False)


def _failed(error: Exception, refused: int, script: bool) -> int:
    """Print `error` in the fewest words that say all, and return the exit status: `refused`. The errors of a script that a command
    runs are the script's, unless they are refusals of ours."""
    if isinstance(error, BrokenPipeError) and stdout_is_closed():
        stdout_error()
        return CLOSED_PIPE
    if wanted_whole():
        traceback.print_exception(error)
        return refused
    told = one_line(error, script)
    if told is None and script:
        sys.stderr.write(of_script(error))
        return refused
    print(f"mimw: {nearer(unforeseen(error) if told is None else told)}", file=sys.stderr)
    return refused


def parser_of(asked: list[str]) -> argparse.ArgumentParser:
    """The parser of the command line that begins with `asked`: of that command, or of all if it is none."""
    from .. import __version__

    parser = Parser(prog="mimw", description="Warp-group orchestration for stock Triton.", epilog=_EPILOG,
                    formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--version", action="version", version=f"mimw {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    meant = [ALIASES.get(word, word) for word in asked]
    for name in [name for name in COMMANDS if name in meant] or COMMANDS:
        command = import_module(f".{name}", __name__)
        others = [alias for alias, own in ALIASES.items() if own == name]
        child = commands.add_parser(name, aliases=others, help=command.HELP, description=command.__doc__.strip(),
                                    epilog=f"examples:\n{command.EXAMPLES}",
                                    formatter_class=argparse.RawDescriptionHelpFormatter)
        command.add_arguments(child)
        child.set_defaults(command=name, parser=child, execute=command.execute, refused=getattr(command, "REFUSED", 1),
                           runs_script=name in SCRIPT_COMMANDS)
    return parser

