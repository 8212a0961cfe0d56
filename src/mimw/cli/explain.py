"""Explain what the compiler made of one kernel. No GPU is needed.

Input: a kernel, the types of its arguments, its constants and a chip. Output: sections of text, and the barrier graph
as SVG where asked. A line of the section "Barriers":

    task 1 --full[1]--> default        task 1 arrives at the barrier `full`, for which the default task waits

The sections: the warps, registers and buffers of each task; the layouts with the reasons for them; the contents of
shared memory over time; the barriers; the loops that Triton pipelines; the bank conflicts. For a chip without a compiler here, as
ascend_910b, there is one: what each memory space of the chip holds, and for how long.
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import Any

from .conflicts import HEADING, conflict_text
from .kernel import add_kernel_arguments, alignment_note, compile_named
from .loops import HEADING as LOOPS
from .loops import loop_text
from .memory import HEADING as SHARED
from .memory import memory_text
from .output import check_output, writing

HELP = "explain tasks, layouts, storage and barriers of a kernel"
EXAMPLES = """\
  mimw explain gemm.py:kernel --signature 'tensordesc<bf16[128,64]>, tensordesc<bf16[64,256]>, *bf16, i32, i32, i32'
  mimw explain gemm.py:kernel --signature '*bf16, *bf16, i32' --constexpr BM=128 --svg barriers.svg
"""


def add_arguments(parser: ArgumentParser) -> None:
    add_kernel_arguments(parser)
    parser.add_argument("--svg", metavar="PATH", help="also draw the barrier graph there")


def execute(options: Namespace) -> int:
    from ..report import barrier_graph, barrier_graph_svg, resource_table, space_table

    if options.svg:
        check_output(options.svg)
    compiled = compile_named(options)
    program = compiled.program
    if not compiled.target.binary:
        _print({f"Memory spaces of {program.name} on {options.target}": space_table(program, compiled.target)})
        return 0
    if program is None:
        print(f"{options.kernel} uses no word of mimw: stock Triton compiled it.\n"
              f"{compiled.metadata.num_warps} warps, {compiled.metadata.shared} bytes of shared memory.")
        return 0
    sections = {
        f"Tasks on {options.target}": resource_table(program, compiled.target, compiled.metadata.shared),
        "Layouts": layout_text(compiled.layouts),
        SHARED: memory_text(compiled),
        "Barriers": barrier_graph(program),
    }
    if loops := loop_text(compiled):
        sections[LOOPS] = loops
    if conflicts := conflict_text(compiled):
        sections[HEADING] = conflicts
    _print(sections)
    if note := alignment_note(compiled):
        print(note)
    if options.svg:
        with writing(options.svg):
            Path(options.svg).write_text(barrier_graph_svg(program))
        print(f"barrier graph: {Path(options.svg).absolute()}")
    return 0


def _print(sections: dict[str, str]) -> None:
    for title, text in sections.items():
        print(f"{title}\n{'-' * len(title)}\n{text.rstrip()}\n")


def layout_text(layouts: Any) -> str:
    """Each named buffer, descriptor and tile with its layout and the reason for it; equal lines are said once."""
    lines = []
    for kind, chosen in (("buffer", layouts.shared), ("descriptor", layouts.descriptors), ("tile", layouts.registers)):
        for value, layout in chosen.items():
            if value.name:
                lines.append(f"{kind:<10} {value.name:<16} {value.type}: {layout}")
                if value in layouts.reasons:
                    lines[-1] += f"\n{'':<28}because {layouts.reasons[value]}"
    return "\n".join(dict.fromkeys(lines)) or "nothing to choose"
