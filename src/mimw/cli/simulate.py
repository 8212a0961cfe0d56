"""Run a script, a module or one function with every launch on the simulator. No GPU and no torch are needed.

Input: a script with its arguments, a module, or FILE:FUNCTION. Output: the script's own, and a timeline where asked:

    mimw simulate --timeline gemm.html gemm.py:case        timeline: /home/me/gemm.html

Races, deadlocks, wrong phases and wrong byte counts end the run with the source lines involved.
"""

from __future__ import annotations

import json
import os
import sys
from argparse import ArgumentParser, Namespace
from pathlib import Path

from .errors import CommandError
from .gpus import add_gpus, several
from .named import is_name, launched
from .output import check_output
from .progress import working
from .script import add_script_arguments, aim, limit_benchmarks, reach, run_script, watch, without_a_gpu

HELP = "run a script with its launches simulated on the CPU"
EXAMPLES = """\
  mimw simulate gemm.py
  mimw simulate gemm.py --m 512                    arguments behind the script are the script's
  mimw simulate gemm.py:case                       case() returns (kernel, grid, args, meta), a mimw.Case, or launches
  mimw simulate add.py:add --args 'fp32[128]' 'fp32[128]' 128 BLOCK=128
  mimw simulate --seed 7 gemm.py                   another interleaving of the tasks
  mimw simulate --timeline gemm.html gemm.py:case  a picture of who ran and who waited
  mimw simulate --gpus 4 exchange.py               a `mimw.World()` of the script has four GPUs
"""


def add_arguments(parser: ArgumentParser) -> None:
    add_script_arguments(parser, "the script to run; or FILE:FUNCTION that returns (kernel, grid, args, meta) or launches; or "
                                 "FILE:KERNEL with --args")
    parser.add_argument("--seed", type=int, metavar="N",
                        help="picks the interleaving of the tasks; the same seed, the same run")
    add_gpus(parser)
    parser.add_argument("--timeline", metavar="OUT",
                        help="write the timeline of the last launch, as .html, .svg or .json (for Perfetto)")
    parser.add_argument("--json", action="store_true", help="print the figures of the launch of FILE:FUNCTION as JSON")


def execute(options: Namespace) -> int:
    from .. import install_aliases

    aim(options)
    reach()
    watch(options)
    limit_benchmarks(options)
    os.environ["MIMW_SIMULATE"] = "1"
    several(options)
    if options.seed is not None:
        os.environ["MIMW_SEED"] = str(options.seed)
    if options.timeline:
        picture = Path(options.timeline).absolute()
        if picture.suffix not in (".html", ".svg", ".json"):
            raise CommandError(f"--timeline {options.timeline!r} should end in .html, .svg or .json.")
        check_output(picture)
        os.environ["MIMW_TIMELINE"] = str(picture)
        picture.unlink(missing_ok=True)
    install_aliases()
    try:
        with without_a_gpu():
            _simulate(options)
    except Exception:
        if options.timeline and picture.exists():
            print(f"timeline, up to the error: {picture}", file=sys.stderr)
        raise
    if options.timeline:
        if not picture.exists():
            raise CommandError("the script ended without a launch, so there is no timeline.")
        print(f"timeline: {picture}")
    return 0


def _simulate(options: Namespace) -> None:
    """Run the script, or the launch that is named, and print the launch's result."""
    if is_name(options.script):
        with working(f"simulating {options.script}"):
            made = launched(options)
        run = made.run
        if options.json:
            print(json.dumps({"launch": options.script, "seed": int(os.environ.get("MIMW_SEED") or 0),
                              **({} if run is None else {"cycles": run.cycles, "ops": dict(run.counts),
                                                         "results": made.results})}, indent=2))
        elif run is not None:
            print(f"{options.script}: simulated, {run.summary}; {made.results}")
    else:
        if options.json:
            raise CommandError("--json is for FILE:FUNCTION; a script prints its own output.")
        run_script(options)
