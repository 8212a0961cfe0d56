"""`mimw.explain`: what the compiler made of one launch, without a GPU.

Input: a kernel, a grid and arguments, as for `mimw.simulate`. Output: an `Explanation`, whose text is what `mimw explain` prints.
For example:

    print(mimw.explain(gemm, (4, 4), a, b, c, 4096))                tasks, layouts, shared memory, barriers, loops, bank conflicts
    mimw.explain(gemm, (4, 4), a, b, c, 4096).sections["Layouts"]   buffer     inputs    buffer<bf16[128,64] x 3>: swizzled(...)
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from ...compiler.analysis.raw_calls import effects_of
from ...ir.shown import Shown
from ...report import barrier_graph, barrier_graph_svg, resource_table, space_table
from ...runtime.ahead import compiled
from ...runtime.call import tool
from ...runtime.compile_kernel import compile_kernel, record_kernel
from ...runtime.compiled import Compiled
from ...target import wanted
from . import conflicts, extents, fences, loops, mapped, memory, occupancy

__all__ = ["Explanation", "explain"]

_NATIVE = "Native code, as it is declared"


@dataclass(frozen=True)
class Explanation(Shown):
    """The result of `mimw.explain`: a compiled kernel, and what was made of it.

    compiled      the kernel, with every stage (`mimw.compile`)
    sections      title -> text, in the order in which they are printed; empty for a kernel without our words
    """

    compiled: Compiled = field(repr=False)

    @cached_property
    def sections(self) -> dict[str, str]:
        compiled = self.compiled
        if compiled.program is None:
            return {}
        if not compiled.target.binary:
            found = {f"Memory spaces of {compiled.program.name} on {compiled.target.name}":
                     space_table(compiled.program, compiled.target).rstrip(), loops.HEADING: loops.own_loop_text(compiled.program)}
            return {title: text for title, text in found.items() if text}
        found = {
            f"Tasks on {compiled.target.name}": resource_table(compiled.program, compiled.target, compiled.metadata.shared),
            occupancy.HEADING: occupancy.occupancy_text(compiled),
            mapped.HEADING: mapped.mapped_text(compiled.source.authored(), compiled.target) if compiled.target.mapped else "",
            extents.HEADING: extents.extents_text(compiled.source.authored()) if compiled.source.pads() else "",
            "Layouts": layout_text(compiled.layouts),
            memory.HEADING: memory.memory_text(compiled),
            "Barriers": barrier_graph(compiled.program),
            fences.HEADING: fences.fence_text(compiled.program),
            loops.HEADING: loops.loop_text(compiled),
            conflicts.HEADING: conflicts.conflict_text(compiled),
            _NATIVE: "\n".join(dict.fromkeys(effects_of(op) for op in compiled.program.named("raw_call"))),
        }
        asked = mapped.HEADING, extents.HEADING, occupancy.HEADING, fences.HEADING, loops.HEADING, conflicts.HEADING, _NATIVE
        return {title: text.rstrip() for title, text in found.items() if text or title not in asked}

    def barriers_svg(self) -> str:
        """The barrier graph as a picture. ValueError for a kernel without our words, which has none."""
        if self.compiled.program is None:
            raise ValueError(f"{self.compiled.name} calls nothing of tlx or tle, so it has no barriers to draw")
        return barrier_graph_svg(self.compiled.program)

    def write(self, path: str | Path) -> None:
        """The barrier graph as SVG."""
        Path(path).write_text(self.barriers_svg())

    def _page(self):
        """The sections that a page does not draw are texts on it."""
        from ...report.page import Page

        compiled = self.compiled
        drawn = (f"Tasks on {compiled.target.name}", memory.HEADING, "Barriers")
        texts = tuple((title, text) for title, text in self.sections.items() if title not in drawn)
        if not compiled.target.binary:
            program, chip = compiled.program, compiled.target
            return Page(program.name, (chip.name, ), program=program, target=chip, texts=texts)
        return replace(compiled._page(), texts=texts)

    def as_json(self) -> dict[str, Any]:
        """The figures and the sections as plain data."""
        compiled = self.compiled
        found = {"kernel": compiled.name, "target": compiled.target.name, "warps": compiled.warps, "sections": dict(self.sections)}
        if compiled.target.binary:
            found |= {"registers": compiled.registers, "stack_bytes": compiled.stack_bytes, "shared_bytes": compiled.shared_bytes}
            found |= {"spilled_registers": compiled.spilled_registers} if compiled.target.backend == "hip" else {}
        return found

    def __str__(self) -> str:
        if self.compiled.program is None:
            return (f"{self.compiled.name} calls nothing of tlx or tle: stock Triton compiled it.\n"
                    f"{self.compiled.metadata.num_warps} warps, {self.compiled.metadata.shared} bytes of shared memory.")
        return "\n\n".join(f"{title}\n{'-' * len(title)}\n{text}" for title, text in self.sections.items())


@tool
def explain(kernel, grid, *args: Any, target: str | Any = None, num_warps: int | Any = None, num_stages: int | Any = None,
            gpus: int | Any = None, **meta: Any) -> Explanation:
    """Compile a launch of `kernel` over `grid` and say what became of it: warps, registers and buffers of each task; on AMD the
    calls that the chip replaces by others, and how many waves a SIMD holds; padded tiles, with their price; layouts
    with their reasons; the contents of shared memory over time; the barriers; the proxy fences that the compiler put in; the
    loops that Triton pipelines; bank conflicts.

    args:      kernel, grid, args, target, num_warps, num_stages, gpus, meta   as for `mimw.compile`
    returns:   Explanation: `str` gives all, `.sections` one by one, `.compiled` the stages
               for a chip without a compiler here (ascend_910b) what is known without one: its memory spaces, and what is in them
    errors:    those of `mimw.compile`
    """
    make = compile_kernel if wanted(target).binary else record_kernel
    return Explanation(compiled(kernel, grid, args, meta, target, gpus, make))


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
