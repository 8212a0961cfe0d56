"""Look for races, deadlocks, protocol errors and wrong results of a kernel under many interleavings, without a GPU.

Input: a kernel with a grid and arguments, or a function that returns all of them. Output: a report of what was found,
as text or JSON:

    mimw check tile.py:kernel --args 'fp32[128]' 'fp32[128]'        ok: nothing found in 8 runs, 192 ops

Arguments are made up: arrays by type and shape, filled with random numbers (integers with zeros), and numbers. Exit
status 0: nothing found, in as many runs as there was time for; 1: something found, by a run or by the compiler; 2: not
checked, for wrong arguments or a kernel that does not compile, and so if this is true of one of several cases. A check
that takes longer than two seconds says on stderr how far the check is.
"""

from __future__ import annotations

import ast
import json
import re
import sys
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from typing import Any

from .cases import check_cases
from .errors import CommandError
from .gpus import SYMMETRIC, WORLD, Named, add_gpus, on_ranks, several
from .load import launch_named, load, names_launch
from .mends import add_mends, apply_mend, with_mend
from .page import add_page, check_page, name_page, write_page
from .places import nearer
from .review import add_sarif, check_sarif, write_sarif
from .script import existing_file

REFUSED = 2
HELP = "races, deadlocks, protocol errors and wrong results of a kernel, under many interleavings"
EXAMPLES = """\
  mimw check ring.py:double --args 'fp16[224,64]/32,64' 'fp16[224,64]' 7 ROWS=32 COLS=64 STAGES=2
  mimw check gemm.py:kernel --grid 2 --search systematic --args 'bf16[256,256]/128,64' ... BM=128
  mimw check ring.py:case                    case() returns (kernel, grid, args, meta), or a mimw.Case with `expected=`
  mimw check ring.py:case --seeds 200 --json
  mimw check ring.py:case --html ring.html   a page: source, findings on their lines, timeline, storage, barriers
  mimw check ring.py:case --replay 17        the seed, or the schedule, that a finding names
  mimw check ring.py:case --compiled         what its compiler makes of it: stock Triton, Gluon or mimw
  mimw check tile.ttgir --grid 2,2 --args 'fp16[128,64]/64,64' 'fp16[128,64]' 128      a kernel as a compiler left it
  mimw check ring.py:case --fix              what mends it as a diff; --fix --apply writes it into ring.py
  mimw check ring.py:case --sarif ring.sarif the findings for code review
  mimw check --cases kernels/*.py            each function `case` and `case_...` of these files; files without one are passed over

Arguments: TYPE[SHAPE] an array, TYPE[SHAPE]/BLOCK a tensor descriptor with that block, a number, or NAME=VALUE of these.
With --gpus: one such array for each rank, symmetric:TYPE[SHAPE] arrays that peers reach, `world` the table of the rank.
"""
_ARRAY = re.compile(r"(\w+)\[([\d, ]+)\](?:/([\d, ]+))?")
_TYPES = {"fp16": "float16", "fp32": "float32", "fp64": "float64", "bf16": "bfloat16", "fp8e4nv": "float8_e4m3fn",
          "fp8e5": "float8_e5m2", "i1": "bool", **{f"i{bits}": f"int{bits}" for bits in (8, 16, 32, 64)},
          **{f"u{bits}": f"uint{bits}" for bits in (8, 16, 32, 64)}}


def add_launch_arguments(parser: ArgumentParser, several: bool = False) -> None:
    """Add the arguments that name a launch, or `several`: `options.kernel` is then a list."""
    parser.add_argument("kernel", metavar="FILE:KERNEL", nargs="+" if several else None,
                        help="the kernel, or a function that returns (kernel, grid, args, meta); also MODULE:NAME")
    parser.add_argument("--args", nargs="*", default=[], metavar="ARG", help="the kernel's arguments, as below")
    add_gpus(parser)
    parser.add_argument("--grid", metavar="N[,N[,N]]", help="numbers of programs (default 1)")


def add_arguments(parser: ArgumentParser) -> None:
    add_launch_arguments(parser, several=True)
    parser.add_argument("--cases", action="store_true",
                        help="the names are of files: check each function `case` and `case_...` of them that needs no arguments")
    parser.add_argument("--seeds", type=int, default=8, metavar="N", help="how many random interleavings (default 8)")
    parser.add_argument("--replay", type=seed_or_schedule, metavar="SEED",
                        help="run only this seed or schedule, as a finding names it")
    parser.add_argument("--search", choices=("random", "systematic", "both"), default="random",
                        help="systematic: all interleavings that can matter, by partial-order reduction")
    parser.add_argument("--limit", type=int, default=200, metavar="N", help="runs of the systematic search at most (default 200)")
    parser.add_argument("--no-rounds", action="store_true", help="do not try smaller launches: as many rounds as break rings")
    parser.add_argument("--ctas", type=_ctas, default="all", metavar="all|sample|IDS",
                        help="sample: a few clusters of the grid in each run; or program ids, as '0,0,0;131,0,0'")
    parser.add_argument("--protocol", action="store_true", help="leave out tile data that decides nothing, which is faster")
    parser.add_argument("--jobs", type=int, metavar="N", help="processes that share the runs (default MIMW_JOBS, or one a core)")
    parser.add_argument("--time-limit", type=float, metavar="SECONDS",
                        help="start no run after so long; the report says what is missing")
    parser.add_argument("--target", metavar="CHIP", help="the chip whose rules hold (default MIMW_TARGET or sm_90a)")
    parser.add_argument("--compiled", action="store_true", help="compile the kernel first, and check the TTGIR that comes out")
    add_mends(parser)
    parser.add_argument("--json", action="store_true", help="print the report as JSON")
    add_sarif(parser)
    add_page(parser)


def execute(options: Namespace) -> int:
    check_page(options)
    check_sarif(options)
    if options.cases:
        return check_cases(options, _checked)
    (options.kernel, ) = _one(options)
    report = _checked(options)
    write_page(options, report)
    write_sarif(options, [report], options.kernel)
    print(json.dumps(report.as_json(), indent=2) if options.json else nearer(report))
    mended = apply_mend(options, report)
    name_page(options)
    return 0 if report.ok or mended else 1


def _one(options: Namespace) -> list[str]:
    if len(options.kernel) > 1:
        raise CommandError(f"{' '.join(options.kernel)} are {len(options.kernel)} names, and one launch is checked at a time; with "
                           "--cases each `case` function of several files.")
    return options.kernel


def _checked(options: Namespace) -> Any:
    """The report on the launch that `options.kernel` names."""
    from ..compiler.triton_port.runtime import is_gluons
    from ..runtime.call import Given
    from ..runtime.case import case_of
    from ..tools.check import check
    from ..tools.check_ttgir import check_compiled, check_ttgir
    from ..tools.mends.mending import function_of
    from ..tools.search import Meter

    is_text = options.kernel.endswith((".ttgir", ".mlir"))
    if is_text or options.compiled:
        refuse_source_options(options)
    case = text_case(options) if is_text else case_of(launch_of(options))
    kernel, grid, args, meta = case
    how = dict(seeds=options.seeds, search=options.search) if options.replay is None else dict(seeds=[options.replay], shrink=False)
    meter = Meter(lambda text: print(f"mimw: {text}", file=sys.stderr, flush=True))
    how |= dict(rounds=not options.no_rounds and options.replay is None, limit=options.limit, target=options.target,
                jobs=options.jobs, ctas=options.ctas, protocol=options.protocol, time_limit=options.time_limit, progress=meter,
                expected=case.expected, tolerance=case.tolerance)
    given = Given(kernel, meta)
    if options.fix and is_gluons(fn := function_of(kernel)):
        raise CommandError(f"--fix is for kernels of mimw.jit and triton.jit, and {fn.__name__} is one of Gluon's.")
    if is_text:
        return check_ttgir(kernel, grid, *args, **how)
    if options.compiled:
        return check_compiled(given, grid, *args, **how)
    return with_mend(options, check(given, grid, *args, **how), given, grid, args, how)


def refuse_source_options(options: Namespace) -> None:
    """CommandError for an option that changes the source of a kernel, or shows it, where what is checked is no source."""
    for name, asked in (("--fix", options.fix), ("--html", options.html), ("--gpus", options.gpus)):
        if asked:
            raise CommandError(f"{name} is for kernels that are checked as their author wrote them, and not for TTGIR.")


def text_case(options: Namespace) -> Any:
    """The launch of a file of TTGIR: the file, the grid and the arguments."""
    from ..runtime.case import Case

    if options.compiled:
        raise CommandError(f"{options.kernel} is compiled already: --compiled is for FILE:KERNEL.")
    existing_file(options.kernel)
    return Case(options.kernel, tuple(_numbers(options.grid or "1", "--grid ")), tuple(map(argument, options.args)))


def _ctas(text: str) -> str | list[tuple[int, ...]]:
    """"all", "sample", or program ids."""
    try:
        named = text in ("all", "sample")
        return text if named else [tuple(int(number) for number in index.split(",")) for index in text.split(";")]
    except ValueError:
        raise ArgumentTypeError(f"{text!r} should be all, sample, or program ids such as '0,0,0;1,0,0'") from None


def seed_or_schedule(text: str) -> int | tuple:
    """A seed is a number, a schedule a sequence of (step, choice) pairs."""
    try:
        found = ast.literal_eval(text)
        return found if isinstance(found, int) else tuple((int(step), int(choice)) for step, choice in found)
    except (ValueError, SyntaxError, TypeError):
        raise ArgumentTypeError(f"{text!r} is no seed, 17, and no schedule, ((step, choice), ...), as findings name them") from None


def launch_of(options: Namespace, filled: bool = True) -> tuple:
    """(kernel, grid, args, meta) of the launch that `options` names; arrays that are not `filled` are zeros, which cost no time.
    CommandError unless it names a kernel with its --args, or a function that gives these four."""
    several(options)
    found = load(options.kernel)
    if hasattr(found, "fn") or hasattr(found, "params"):
        args, meta = [], {}
        for text in options.args:
            name, equals, value = text.partition("=")
            if equals:
                meta[name] = argument(value, filled)
            else:
                args.append(argument(text, filled))
        if options.gpus:
            args, meta = on_ranks(args, meta, options.gpus)
        named = next((value.text for value in (*args, *meta.values()) if isinstance(value, Named)), None)
        if named is not None:
            raise CommandError(f"--args {named!r} is for several GPUs: give --gpus N.")
        if hasattr(found, "signature"):
            try:
                found.signature.bind(*args, **{name: value for name, value in meta.items() if name in found.arg_names})
            except TypeError as error:
                mend = "" if options.args else (" Give --args, an argument each, or name a function that returns (kernel, grid, "
                                                "args, meta).")
                raise CommandError(f"--args of {options.kernel}: {error}.{mend}") from None
        return found, tuple(_numbers(options.grid or "1", "--grid ")), args, meta
    if callable(found) and not names_launch(found):
        raise CommandError(f"{options.kernel} is a function with parameters, and no kernel. Is `@mimw.jit` missing?")
    if options.args or options.grid:
        what = "--args" if options.args else "--grid"
        raise CommandError(f"{options.kernel} is no kernel but a function that names the launch; it takes no {what}.")
    return launch_named(found, options.kernel)


def argument(text: str, filled: bool = True) -> Any:
    """`text` as a kernel argument: an array, a descriptor of one, a Python literal, or a dtype as tl.float16.
    Arrays of floats are random numbers where they are `filled`, all others zeros. CommandError for any other text."""
    if text == WORLD or text.startswith(SYMMETRIC):
        return Named(text) if text == WORLD else Named(text, argument(text.removeprefix(SYMMETRIC), filled))
    match = _ARRAY.fullmatch(text)
    if match is None:
        if text.startswith("tl."):
            import triton.language as tl
            return getattr(tl, text[3:])
        try:
            return ast.literal_eval(text)
        except (ValueError, SyntaxError):
            raise CommandError(f"--args {text!r} is no array (fp16[64,32]), descriptor (fp16[64,32]/16,32) or number.") from None
    import ml_dtypes  # noqa: F401  numpy learns its types
    import numpy as np

    from ..runtime.host import TensorDescriptor
    if match[1] not in _TYPES:
        raise CommandError(f"{match[1]!r} is no element type. There are {', '.join(_TYPES)}.")
    shape, dtype = _numbers(match[2], f"--args {text!r}: "), np.dtype(_TYPES[match[1]])
    floating = match[1].startswith(("fp", "bf"))
    array = np.random.default_rng(0).standard_normal(shape).astype(dtype) if floating and filled else np.zeros(shape, dtype)
    return TensorDescriptor.from_tensor(array, _numbers(match[3], f"--args {text!r}: ")) if match[3] else array


def _numbers(text: str, where: str) -> list[int]:
    try:
        return [int(number) for number in text.split(",")]
    except ValueError:
        raise CommandError(f"{where}{text!r} should be numbers with commas between.") from None
