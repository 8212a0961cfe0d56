"""Read IR as text, run passes over the program, and print the result. No GPU is needed, and for most texts no Triton.

Input: FILE, the text that `mimw compile --emit recorded` or `--emit ir` prints, or a smaller text by hand; `-` is
standard input. Output: the program after the passes, as text. For example:

    mimw opt gemm.ir --pass expand_pipes        the program with barriers in place of pipes
"""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace
from dataclasses import replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from .errors import CommandError
from .output import check_output, writing

HELP = "run passes over IR text"
EXAMPLES = """\
  mimw opt --list                                            the passes, in the order in which they run
  mimw opt gemm.ir                                           all of them
  mimw opt gemm.ir --pass drop_unused fence_handovers        these two
  mimw opt gemm.ir --print-after --no-sites                  what each pass changes
  mimw opt gemm.ir --pass                                    none: the text is read, verified and printed
  mimw compile gemm.py:kernel --signature '*bf16, i32' --emit recorded | mimw opt - --target sm_100a
"""


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", nargs="?", help="IR text; - for standard input")
    parser.add_argument("--pass", dest="passes", metavar="NAME", nargs="*", action="extend",
                        help="passes to run, in this order (default: all that every kernel goes through)")
    parser.add_argument("--print-after", action="store_true", help="print the program after each pass that changes it")
    parser.add_argument("--list", action="store_true", help="list the passes, a line each")
    parser.add_argument("--target", metavar="CHIP", help="sm_90a (default, unless MIMW_TARGET says more), sm_100a, gfx942, gfx950")
    parser.add_argument("--num-warps", type=int, metavar="N", help="warps of the default task (default: those of the text)")
    parser.add_argument("--no-sites", action="store_true", help="leave out the source lines at the right")
    parser.add_argument("-o", "--output", metavar="PATH", help="write the program there instead of to the terminal")


def execute(options: Namespace) -> int:
    from ..compiler.passes import Context
    from ..ir import print_program
    from ..target import wanted

    if options.list:
        return _list()
    if options.file is None:
        raise CommandError("name a file with IR text, or - for standard input. Mend: `mimw compile FILE:KERNEL --emit recorded` "
                           "prints such text.")
    steps = _steps(options.passes)
    if options.output:
        check_output(options.output)
    from ..ir import Known

    program, known = _read(options.file), Known()
    if options.num_warps is not None:
        program = replace(program, num_warps=options.num_warps)
    _verified(program, known, f"{options.file} is no valid program")
    context = Context(wanted(options.target), lambda one: print(f"remark at {one.site}: {one.text}", file=sys.stderr))
    for step in steps:
        after = _run(step, program, context)
        _verified(after, known, f"the pass {step.name} has made a wrong program, which is a bug of mimw")
        if options.print_after:
            print(f"// after {step.name}" + (": unchanged" if after is program else ""))
            sys.stdout.write("" if after is program else print_program(after, not options.no_sites))
        program = after
    text = print_program(program, not options.no_sites)
    if options.output:
        with writing(options.output):
            Path(options.output).write_text(text)
    elif not options.print_after:
        sys.stdout.write(text)
    return 0


def _list() -> int:
    from ..compiler.passes import OPTIONAL, PASSES

    width = max(len(step.name) for step in (*PASSES, *OPTIONAL))
    for step in PASSES:
        print(f"{step.name:<{width}}  {'rewrite' if step.rewrites else 'check  '}  {step.doc}")
    print("\nby name only")
    for step in OPTIONAL:
        print(f"{step.name:<{width}}  rewrite  {step.doc}")
    return 0


def _steps(names: list[str] | None) -> list[Any]:
    from ..compiler.passes import OPTIONAL, PASSES

    if names is None:
        return list(PASSES)
    known = {step.name: step for step in (*PASSES, *OPTIONAL)}
    for name in names:
        if name not in known:
            close = get_close_matches(name, known, n=1)
            raise CommandError(f"no pass is named {name!r}. " + (f"Did you mean {close[0]!r}? " if close else "")
                               + "`mimw opt --list` lists them.")
    return [known[name] for name in names]


def _read(file: str) -> Any:
    from ..ir import parse_program

    text, name = (sys.stdin.read(), "<stdin>") if file == "-" else (Path(file).read_text(), file)
    return parse_program(text, name, _enumeration_member)


def _enumeration_member(enumeration: str, member: str) -> Any:
    from ..compiler.triton_port.enumerations import enumeration_member  # imports Triton, which few texts need

    return enumeration_member(enumeration, member)


def _verified(program: Any, known: set, whose: str) -> None:
    from ..errors import InvalidProgram
    from ..ir import verify

    try:
        verify(program, known)
    except InvalidProgram as error:
        raise CommandError(f"{whose}: {str(error).splitlines()[0]}") from None


def _run(step: Any, program: Any, context: Any) -> Any:
    """The program after one pass; a refusal of the pass is one line and its mend."""
    from ..errors import KernelError, TargetError

    try:
        return step(program, context)
    except KernelError as error:
        where = f" at {error.sites[0]}" if error.sites else ""
        mend = f" Mend: {error.hint}." if error.hint else ""
        raise CommandError(f"the pass {step.name} refuses the program{where}: {error.kind}: {error.message}.{mend}") from None
    except TargetError as error:
        refusal = str(error).splitlines()[0].rstrip(".")
        raise CommandError(f"the pass {step.name} refuses the program: {refusal}. Mend: name another chip by --target.") from None
