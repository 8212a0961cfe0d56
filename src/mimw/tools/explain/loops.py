"""The section of `mimw explain` on loops: which of them Triton may pipeline, and what keeps it from the others.

Input: a compiled kernel. Output: a line for each `for` loop that has a `tl.dot` or asks for stages, with its source line:

    gemm.py:21   pipelined by Triton: 2 loads start iterations ahead
    gemm.py:40   in order, since local_store at gemm.py:42 keeps its place; a pipe overlaps loads and products here

A loop of `tle.dsa` is not Triton's to pipeline: its line says how far its copies run ahead, or why they do not. Nor is one in
stages, whose line names these. On chips without TMA the line of a loop that copies and arrives says whether its copies stay in
flight.
"""

from __future__ import annotations

import re
from typing import Any

HEADING = "Loops"
_AHEAD = re.compile(r"(?:async_copy_global_to_local|async_tma_copy_global_to_local) .*loc\((#loc\d*)\)$", re.MULTILINE)
_ALIAS = re.compile(r'^(#loc\d*) = loc\("[^"]*\.(\d+)"\(', re.MULTILINE)


def own_loops(program: Any) -> dict[Any, str]:
    """A sentence for each loop of `tle.dsa.pipeline` and `parallel` that asks for stages, on what became of it, for each loop that
    has stages of its own, and for each that copies and arrives on a chip without TMA."""
    from ...compiler.analysis.warp_stages import staged

    found = {}
    for op in program.named("for"):
        if (parts := staged(op.blocks[0])) is not None:
            names = ", ".join(repr(stage.end.label) if stage.end.label else "one without a label" for stage in parts.stages)
            found[op] = f"{len(parts.stages)} stages, {names}: one half of the waves is a stage ahead of the other half"
        ahead, alone = op.attrs.get("ahead"), op.attrs.get("alone")
        if ahead:
            found[op] = f"copies run {ahead} trip{'s' if ahead > 1 else ''} ahead" + (f"; one does not: {alone}" if alone else "")
        elif alone:
            found[op] = f"in order: {alone}"
        if later := op.attrs.get("later"):
            few = "1 arrival for them comes" if later == 1 else f"{later} arrivals for them come"
            found[op] = f"copies stay in flight: up to {few} behind later copies"
        elif why := op.attrs.get("at_once"):
            found[op] = f"each trip waits for its copies: {why}"
    return found


def own_loop_text(program: Any) -> str:
    """A line for each of these loops."""
    return "\n".join(f"{op.site}   {said}" for op, said in own_loops(program).items())


def loop_text(compiled: Any) -> str:
    """The section; empty for a kernel without such loops."""
    from ...compiler.analysis.order import STAGES, loop_plans, why_not_pipelined

    program, ahead = compiled.program, _started_ahead(compiled.stages["ttgir"])
    numbers = {op: number for number, op in enumerate(program.walk())}
    hinder = why_not_pipelined(program)
    lines, own = [], own_loops(program)
    beside = ("other tasks run beside it" if any(program.named("warp_specialize")) else
              "a pipe (tle.pipe, or a task that loads) overlaps loads and products here")
    for plan in loop_plans(program):
        if plan.loop in own:
            lines.append(f"{plan.loop.site}   {own[plan.loop]}")
            continue
        inside = [op for op in plan.loop.walk() if op is not plan.loop]
        if not any("dot" in op.row.traits for op in inside) and STAGES not in plan.loop.attrs:
            continue
        loads = sum(numbers[op] in ahead for op in inside if _gives_a_tile(op))
        if plan.fixed is not None:
            said = f"in order, since {plan.fixed.name} at {plan.fixed.site} keeps its place; {beside}"
        elif loads:
            said = f"pipelined by Triton: {loads} load{'s start' if loads > 1 else ' starts'} iterations ahead"
        elif hinder is not None:
            said = f"in order, since Triton's pipeliner would change {_unsuited(hinder)} at {hinder.site}"
        else:
            said = "in order: Triton found no load to start ahead (num_stages below 2, an outer loop, or too narrow loads)"
        lines.append(f"{plan.loop.site}   {said}")
    return "\n".join(lines)


def _gives_a_tile(op: Any) -> bool:
    """True of a load from global memory that the author did not make asynchronous."""
    from ...ir import Tensor

    return op.row.loads or op.row.copy == "in" and any(isinstance(result.type, Tensor) for result in op.results)


def _unsuited(op: Any) -> str:
    return "the pending groups of async_load_wait_group" if op.name == "async_wait" else "the rest of the unrolled loop"


def _started_ahead(ttgir: str) -> set[int]:
    """The numbers of the recorded ops that are asynchronous copies in the finished kernel."""
    numbers = {alias: int(number) for alias, number in _ALIAS.findall(ttgir)}
    return {numbers[alias] for alias in _AHEAD.findall(ttgir) if alias in numbers}
