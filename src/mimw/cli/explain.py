"""Explain the result of compiling one kernel. No GPU is needed.

Input: a kernel, the types of its arguments, its constants and a chip. Output: sections of text, and the barrier graph
as SVG where asked. A line of the section "Barriers":

    task 1 --full[1]--> default        task 1 arrives at the barrier `full`, for which the default task waits

The sections: the warps, registers and buffers of each task; the layouts with the reasons for them; the contents of
shared memory over time; the barriers; the loops that Triton pipelines; the bank conflicts. For a chip without a compiler here, as
ascend_910b, there is one: the contents of each memory space of the chip over time.
"""

from __future__ import annotations

import json
from argparse import ArgumentParser, Namespace
from pathlib import Path

from .kernel import add_kernel_arguments, alignment_note, compile_named
from .output import check_output, writing
from .page import add_page, check_page, name_page, write_page
from .places import nearer
from .progress import working

HELP = "explain tasks, layouts, storage and barriers of a kernel"
EXAMPLES = """\
  mimw explain gemm.py:kernel --signature 'tensordesc<bf16[128,64]>, tensordesc<bf16[64,256]>, *bf16, i32, i32, i32'
  mimw explain gemm.py:kernel --signature '*bf16, *bf16, i32' --constexpr BM=128 --svg barriers.svg
  mimw explain gemm.py:case --html gemm.html      a page: source, storage, barriers and all sections, linked by click
"""


def add_arguments(parser: ArgumentParser) -> None:
    add_kernel_arguments(parser)
    parser.add_argument("--json", action="store_true", help="print the sections and the figures as JSON")
    parser.add_argument("--svg", metavar="PATH", help="also draw the barrier graph there")
    add_page(parser)


def execute(options: Namespace) -> int:
    from ..tools.explain import Explanation

    if options.svg:
        check_output(options.svg)
    check_page(options)
    with working(f"compiling {options.kernel}"):
        compiled = compile_named(options)
        explained = Explanation(compiled)
        text = json.dumps(explained.as_json(), indent=2) if options.json else nearer(explained)
    write_page(options, explained)
    drawn = options.svg and compiled.program is not None
    if drawn:
        with writing(options.svg):
            explained.write(options.svg)
    print(text)
    name_page(options)
    if options.json or compiled.program is None:
        return 0
    if note := alignment_note(compiled):
        print(note)
    if drawn:
        print(f"barrier graph: {Path(options.svg).absolute()}")
    return 0
