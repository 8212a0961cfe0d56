"""Remarks on register requests that will not be met.

A request that does not fit is legal: no registers are moved and the kernel runs, only not as its author meant. So this
check never refuses; it says what it sees.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..analysis import TaskRegisters, launch_registers, register_plan, total_warps
from ..ir import Program, Site
from ..target import Target

_LEAST = 24  # the smallest count that setmaxnreg takes


@dataclass(frozen=True)
class Remark:
    """Something the author should know, though the kernel is right."""

    message: str
    site: Site

    def __str__(self) -> str:
        return f"{self.site}: {self.message}"


def check_registers(program: Program, target: Target) -> tuple[Remark, ...]:
    """Remarks on requests above what a thread can have; else on regions whose requests leave too few for the others."""
    rows = register_plan(program, target)
    return tuple(_too_many_for_a_thread(rows, target)) or tuple(_too_many_together(program, rows, target))


def _too_many_for_a_thread(rows: tuple[TaskRegisters, ...], target: Target):
    most = -(-target.max_registers_per_thread // target.register_unit) * target.register_unit
    for row in rows:
        if row.requested and row.requested > most:
            yield Remark(f"task '{row.name}' asks for {row.requested} registers per thread; {target} has at most {most}.", row.site)


def _too_many_together(program: Program, rows: tuple[TaskRegisters, ...], target: Target):
    for region in sorted({row.region for row in rows}):
        asking = [row for row in rows if row.region == region and row.requested]
        if not asking or any(row.moved for row in asking):
            continue
        launch, warps = launch_registers(program, target), total_warps(program)
        wanted = " + ".join(f"{row.num_warps} warps x {row.requested} ({row.name})" for row in asking)
        total = sum(row.num_warps * row.requested for row in asking)
        yield Remark(
            f"the register requests are not met, every thread keeps {launch}: {wanted} = {total} of the {warps * launch} that "
            f"{warps} warps have together ({warps} x {launch}), and every other task needs at least {_LEAST} per thread.",
            asking[0].site)
