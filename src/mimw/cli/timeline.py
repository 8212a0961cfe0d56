"""Predict the time and the timeline of a launch from the cost model of a chip, or measure them with time stamps on a GPU.

Input: a launch, with arguments as for `mimw check`. Output: the time, the bound of the kernel, and the work of each task
and unit, as text or JSON; pictures where asked. For example:

    mimw timeline tile.py:kernel --args 'fp32[128]' 'fp32[128]'
    kernel on grid (1,): 4.2 us at 1,980 MHz, on NVIDIA H200: 4.0 us of the launch and 491 cycles (0.2 us)
    bound by latency: no unit is busy more than 3 % of the time (stores out of the SM)
"""

from __future__ import annotations

import json
from argparse import ArgumentParser, Namespace
from pathlib import Path

from .check import add_launch_arguments, launch_of
from .errors import CommandError
from .output import check_output, writing
from .page import add_page, check_page, name_page, write_page
from .places import nearer
from .progress import working

HELP = "predict (or measure) time and timeline of a kernel"
EXAMPLES = """\
  mimw timeline gemm.py:case                                case() returns (kernel, grid, args, meta)
  mimw predict gemm.py:case --target sm_100a                the same command by its other name, for another chip
  mimw timeline gemm.py:case -o gemm.html -o gemm.json      a page, and a Chrome trace for ui.perfetto.dev
  mimw timeline ring.py:double --grid 132 --args 'fp16[65536,64]/32,64' 'fp16[65536,64]' 2048 ROWS=32 COLS=64 STAGES=2
  mimw timeline gather.py:case --gpus 4 -o gather.html      on four GPUs: links are lanes, waits for signals are named
  mimw timeline gemm.py:case --measure -o measured.html     on a GPU, by time stamps in the kernel
"""


def add_arguments(parser: ArgumentParser) -> None:
    add_launch_arguments(parser)
    parser.add_argument("-o", "--output", action="append", default=[], metavar="PATH",
                        help="draw the timeline there: .html (a page, as --html), .svg or .json (Chrome trace, for Perfetto); may "
                        "be repeated")
    parser.add_argument("--target", metavar="CHIP", help="the chip whose cost model predicts (default MIMW_TARGET or sm_90a)")
    parser.add_argument("--mhz", type=float, metavar="N", help="the SM clock (default: the clock that the power limit allows)")
    parser.add_argument("--measure", action="store_true", help="measure on the GPU of this machine instead of predicting")
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    add_page(parser)


def execute(options: Namespace) -> int:
    if options.gpus and options.measure:
        raise CommandError("--gpus predicts a launch on several GPUs; --measure times one on the GPU of this machine.")
    for path in options.output:
        if Path(path).suffix not in (".html", ".svg", ".json"):
            raise CommandError(f"--output {path!r} should end in .html, .svg or .json.")
        check_output(path)
    check_page(options)
    with working(f"{'measuring' if options.measure else 'predicting'} {options.kernel}"):
        found = _measured(options) if options.measure else _predicted(options)
    for path in options.output:
        with writing(path):
            found.write(path)
    write_page(options, found)
    print(json.dumps(found.as_json(), indent=2) if options.json else nearer(found))
    for path in [] if options.json else options.output:
        print(f"timeline: {Path(path).absolute()}")
    name_page(options)
    return 0


def _predicted(options: Namespace):
    from ..runtime.call import Given
    from ..tools.timing import predict

    kernel, grid, args, meta = launch_of(options, filled=False)
    return predict(Given(kernel, meta), grid, *args, target=options.target, megahertz=options.mhz)


def _measured(options: Namespace):
    from ..runtime.simulating import simulating
    from ..tools.timing import profile
    from .on_gpu import on_gpu

    if simulating():
        raise CommandError("--measure needs a GPU, and launches are simulated here. Without --measure the time is predicted.")
    kernel, grid, args, meta = launch_of(options)

    return profile(kernel, grid, *map(on_gpu, args), **{name: on_gpu(value) for name, value in meta.items()})
