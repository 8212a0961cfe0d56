"""Run a TLX script or module unchanged on stock Triton.

Input: a script or module, and its arguments. Output: the script's own, and its exit status. For example:

    mimw run gemm.py --m 4096        as `python gemm.py --m 4096`, with mimw in place of TLX

While the script runs, `triton.language.extra.tlx` is `mimw.tlx`, and `triton.jit`, `triton.autotune` and
`triton.Config` are mimw's. No installed file is touched. Python processes that the script starts begin without these
names; in such a process `import mimw; mimw.install_aliases()` does the same.
"""

from __future__ import annotations

import os
from argparse import ArgumentParser, Namespace

from .named import is_name, launched
from .script import add_script_arguments, aim, limit_benchmarks, reach, run_script, watch, without_a_gpu

HELP = "run a TLX script unchanged"
EXAMPLES = """\
  mimw run gemm.py
  mimw run gemm.py --m 4096            arguments behind the script are the script's
  mimw run gemm.py:case                case() returns (kernel, grid, args, meta), or a mimw.Case; it is launched once
  mimw run -m pytest test_gemm.py -q   a published test file
  mimw run --check gemm.py             what mimw.check finds in a kernel ends the run before its first launch
  mimw run --watchdog 10 gemm.py       a launch that hangs ends after 10 s, with who waits where
  MIMW_SIMULATE=1 mimw run gemm.py     its launches run in the simulator
  mimw run --target sm_100a gemm.py    without a GPU: as if this machine had that chip
"""


def add_arguments(parser: ArgumentParser) -> None:
    add_script_arguments(parser, "the script to run; or FILE:FUNCTION that returns (kernel, grid, args, meta) or launches")
    parser.add_argument("--check", action="store_true",
                        help="check each specialisation of a kernel once before its first launch, as MIMW_CHECK=1 does")


def execute(options: Namespace) -> int:
    from .. import install_aliases
    from ..runtime.simulating import simulating

    aim(options)
    reach()
    watch(options)
    limit_benchmarks(options)
    if options.check:
        os.environ["MIMW_CHECK"] = "1"      # for processes that the script starts, too
    install_aliases()
    with without_a_gpu():
        if not is_name(options.script):
            run_script(options)
            return 0
        results = launched(options).results
    how = "simulated, nothing wrong in this run" if simulating() else "launched"
    print(f"{options.script}: {how}{'; ' * bool(results)}{results}")
    return 0
