"""Orchestrate an ordinary Triton kernel: tasks, pipes and barriers are put in, proved, and written as text. No GPU is needed.

Input: a launch, with arguments as for `mimw check`. Output: a report, and the module of the orchestrated kernel where asked:

    mimw orchestrate attention.py:case -o attention_ws.py
    attention: orchestrated, predicted 393.7 us, plain 689.7: 1.75 x

Exit status 0: the orchestrated kernel is proved and would be taken; 1: the plain kernel is kept, and the report says why.
"""

from __future__ import annotations

import json
from argparse import ArgumentParser, Namespace

from .check import add_launch_arguments, launch_of
from .output import check_output, writing
from .places import nearer
from .progress import working

HELP = "turn an ordinary kernel into a warp-specialised one, proved to compute the same"
EXAMPLES = """\
  mimw orchestrate gemm.py:case                                 case() returns (kernel, grid, args, meta); the report
  mimw orchestrate gemm.py:case -o gemm_ws.py                   and the module: kernel, host code, a comment at each barrier
  mimw orchestrate gemm.py:case --certificate proof.json        what was proved, as JSON
  mimw orchestrate gemm.py:case --plan '{"consumers": 1, "stages": 3}'
"""


def add_arguments(parser: ArgumentParser) -> None:
    add_launch_arguments(parser)
    parser.add_argument("-o", "--output", metavar="PATH", help="write the orchestrated kernel's module there, as Python")
    parser.add_argument("--target", metavar="CHIP", help="the chip to orchestrate for (default MIMW_TARGET or sm_90a)")
    parser.add_argument("--plan", metavar="JSON", help="carry out this plan; keys as of mimw.tools.orchestrate.Plan")
    parser.add_argument("--reassociate", action="store_true",
                        help="allow other bits: scales of a product are multiplied with each other first, within a bound")
    parser.add_argument("--seeds", type=int, default=8, metavar="N", help="interleavings that the proof tries (default 8)")
    parser.add_argument("--limit", type=int, default=200, metavar="N", help="runs of its systematic search at most (default 200)")
    parser.add_argument("--certificate", metavar="PATH", help="write what was proved there, as JSON")
    parser.add_argument("--json", action="store_true", help="print the report as JSON")


def execute(options: Namespace) -> int:
    from ..compiler.orchestrate.plan import Plan
    from ..runtime.call import Given
    from ..runtime.case import case_of
    from ..tools.orchestrate import orchestrate

    for path in (options.output, options.certificate):
        if path:
            check_output(path)
    kernel, grid, args, meta = case_of(launch_of(options))
    plan = None if options.plan is None else Plan.parse(options.plan)
    with working(f"orchestrating {options.kernel}"):
        found = orchestrate(Given(kernel, meta), grid, *args, target=options.target, plan=plan, seeds=options.seeds,
                            limit=options.limit, reassociate=options.reassociate)
    if options.output and found.source:
        with writing(options.output):
            found.write(options.output)
    if options.certificate and found.certificate is not None:
        with writing(options.certificate), open(options.certificate, "w") as file:
            file.write(found.certificate.text() + "\n")
    print(json.dumps(found.as_json(), indent=2) if options.json else nearer(found))
    return 0 if found.is_used else 1
