"""Search for the fastest configurations of an operator of the library, or of your own, for some shapes.

Input: an operator and shapes. Output: a table of the measurements, the reasons for leaving out the others, and with --write
rows of the kernel's configs.json. For example:

    mimw tune gemm --shapes 4096x4096x4096 --set group_m=8,16 --write

Candidates are predicted in parallel processes, pruned by their size and by prediction, compiled in parallel, checked
against a reference and timed beside a baseline, each in a process of its own under a time limit. A search that was
killed continues from its journal. Without a GPU candidates are compiled and ranked by prediction, and nothing
is measured.
"""

from __future__ import annotations

import ast
import json
import shlex
import sys
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from pathlib import Path

from .errors import CommandError
from .output import check_output

INTERRUPTED = 130       # what a shell says of a program that the keyboard has ended: 128 + SIGINT
HELP = "search for an operator's fastest configurations"
EXAMPLES = """\
  mimw tune --list                                           the operators, their shapes, types and fields
  mimw tune gemm --shapes 4096x4096x4096 8192x8192x1024      two shapes in bf16
  mimw tune gemm --shapes 4096x4096x4096 --dtype fp8 --set stages=4,5 ping_pong=True --keep 0.3
  mimw tune gemm --shapes 4096x4096x4096 --write             the best into the kernel's configs.json, for this chip
  mimw tune mine.kernels:TALL --shapes 65536x64              an operator of your own (mimw.tuning.Operator)
"""


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("operator", nargs="?", metavar="OP", help="an operator of --list, or MODULE:NAME of your own")
    parser.add_argument("--list", action="store_true", help="list the operators that can be tuned")
    parser.add_argument("--shapes", nargs="+", default=[], metavar="SHAPE", help="shapes, written as in --list: 4096x4096x4096")
    parser.add_argument("--dtype", help="the type of the inputs (default: the operator's first)")
    parser.add_argument("--set", nargs="+", action="extend", default=[], type=_field, metavar="FIELD=V[,V]", dest="fields",
                        help="values of a field of the configuration to try, in place of the candidates' own")
    parser.add_argument("--keep", type=float, default=0.5, metavar="SHARE",
                        help="the fraction of the candidates that is kept after predicting (default 0.5)")
    parser.add_argument("--least", type=int, default=4, metavar="N", help="the least number that is kept (default 4)")
    parser.add_argument("--spills", type=int, default=0, metavar="BYTES",
                        help="bytes of spills a thread that are accepted (default 0)")
    parser.add_argument("--jobs", type=int, metavar="N",
                        help="processes that predict and compile (default MIMW_JOBS, else one a core)")
    parser.add_argument("--time-limit", type=float, default=60.0, metavar="SECONDS",
                        help="the time after which a measured candidate counts as hung (default 60)")
    parser.add_argument("--compile-limit", type=float, default=300.0, metavar="SECONDS",
                        help="the same limit for predicting and for compiling (default 300)")
    parser.add_argument("--ms", type=float, default=60.0, help="the least time of each measurement (default 60)")
    parser.add_argument("--journal", type=Path, metavar="PATH", help="a file for each step (default ./mimw-tune-OP.jsonl)")
    parser.add_argument("--restart", action="store_true", help="start again and ignore the journal")
    parser.add_argument("--target", metavar="CHIP", help="compile for this chip (default the GPU's, else MIMW_TARGET or sm_90a)")
    parser.add_argument("--no-measure", action="store_true", help="compile, prune and rank only, as without a GPU")
    parser.add_argument("--write", nargs="?", type=Path, const=Path(), metavar="PATH",
                        help="write the best into the kernel's configs.json, or into PATH")
    parser.add_argument("--json", action="store_true", help="print the report as JSON")


def execute(options: Namespace) -> int:
    from ..tuning import find, write

    if options.list:
        print(_listed())
        return 0
    if options.operator is None or not options.shapes:
        raise CommandError("name an operator and --shapes: mimw tune gemm --shapes 4096x4096x4096. `mimw tune --list` has all.")
    operator = find(options.operator)
    file = _written(options.write, operator)
    journal = options.journal or Path(f"mimw-tune-{operator.name}.jsonl")
    check_output(journal)
    try:
        report = _search(options, operator, journal)
    except KeyboardInterrupt:
        print(f"mimw: interrupted; the same command goes on from {journal}", file=sys.stderr)
        return INTERRUPTED
    print(json.dumps(report.as_json(), indent=2) if options.json else report)
    if file is None:
        return 0
    if not (rows := report.rows()):
        raise CommandError(f"nothing was measured, so nothing is written to {file}.")
    write(file, report.device, _command(options), rows)
    print(f"mimw: {len(rows)} rows for {report.device} in {file}", file=sys.stderr)
    return 0


def _search(options: Namespace, operator, journal: Path):
    from ..tuning import tune

    return tune(operator, options.shapes, options.dtype, fields=dict(options.fields), keep=options.keep, least=options.least,
                jobs=options.jobs, time_limit=options.time_limit, compile_limit=options.compile_limit, at_least_ms=options.ms,
                spills=options.spills, journal=journal, restart=options.restart, target=options.target,
                measure=not options.no_measure, tell=lambda text: print(f"mimw: {text}", file=sys.stderr, flush=True))


def _written(asked: Path | None, operator) -> Path | None:
    """The path for `--write`, or None; CommandError before the search if the rows cannot be written there."""
    if asked is None:
        return None
    if asked != Path():
        return check_output(asked)
    if operator.file is None:
        raise CommandError(f"{operator.name} chooses by a rule in code and reads no file; --write PATH keeps the rows.")
    return check_output(operator.file)


def _command(options: Namespace) -> str:
    """The command that makes these rows again."""
    fields = [f"{name}={','.join(map(str, values))}" for name, values in options.fields]
    words = ["mimw", "tune", options.operator, "--shapes", *options.shapes]
    words += ["--dtype", options.dtype] if options.dtype else []
    return shlex.join([*words, "--set", *fields] if fields else words)


def _listed() -> str:
    from ..report.table import table
    from ..tuning import LIBRARY, find

    rows = []
    for name in LIBRARY:
        one = find(name)
        rows.append((name, "x".join(one.names) + "".join(f"[:{word}]" for word in one.words), " ".join(one.dtypes),
                     " ".join(one.configuration_type.__dataclass_fields__)))
    return table(("operator", "shape", "types", "fields of a configuration"), rows)


def _field(text: str) -> tuple[str, tuple]:
    """FIELD=V,V as (field, values), each a Python literal or a word."""
    name, equals, values = text.partition("=")
    if not name or not values:
        raise ArgumentTypeError(f"{text!r} should be FIELD=VALUE or FIELD=VALUE,VALUE")
    return name, tuple(map(_value, values.split(",")))


def _value(text: str):
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text
