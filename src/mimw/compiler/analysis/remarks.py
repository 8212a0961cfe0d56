"""Remarks on a kernel that is right: register requests that no hardware can meet.

Input: a program and a chip. Output: `Remark`s, which the compiler gives as Python warnings, and `mimw.check` and `mimw explain`
print. For example, on sm_90a:

    async_task(num_warps=8, registers=240, replicate=2)      20 warps, each thread has 96 registers at most

Such a request is no error in TLX: nothing is asked of the hardware (no `setmaxnreg`), and every thread has an equal share.
"""

from __future__ import annotations

from dataclasses import dataclass

from ...ir import Op, Program, Site
from ...target import Target
from .registers import GROUP, LEAST, MOST, TaskRegisters, launch_registers, most_for_all, own_regions, register_plan, total_warps


@dataclass(frozen=True)
class Remark:
    """Something the author should know, though the kernel is right."""

    message: str
    site: Site
    hint: str = ""

    def __str__(self) -> str:
        return f"{self.site}: {self.text}"

    @property
    def text(self) -> str:
        """The facts and the mend, without the place."""
        return f"{self.message}\nMend: {self.hint}" if self.hint else self.message


def register_remarks(program: Program, target: Target) -> tuple[Remark, ...]:
    """One remark for each region whose register requests are not met; none where no request ever is (`registers_stay`)."""
    if not target.has("register_moves"):
        return ()
    rows = register_plan(program, target)
    return tuple(_region(program, target, number, region, [row for row in rows if row.region == number])
                 for number, region in enumerate(own_regions(program))
                 if any(row.requested for row in rows if row.region == number)
                 and not any(row.moved for row in rows if row.region == number))


def registers_stay(program: Program, target: Target) -> str:
    """A line for a kernel that asks for registers on a chip whose registers do not move; "" for any other."""
    rows = register_plan(program, target)
    if target.has("register_moves") or not any(row.requested for row in rows):
        return ""
    return (f"register requests have no effect on {target}. Every thread has as many as the largest task needs, "
            f"{rows[0].launch} at most with {total_warps(program)} warps.")


def _region(program: Program, target: Target, number: int, region: Op, rows: list[TaskRegisters]) -> Remark:
    asking = [row for row in rows if row.requested]
    launch, warps = launch_registers(program, target), total_warps(program)
    beyond = next((row for row in asking if row.requested > MOST), None)
    if beyond is not None:
        why = f"task '{beyond.name}' asks for {beyond.requested} registers per thread, and a thread can have {MOST} at most"
    else:
        shares = _shares(asking, program.num_warps)
        wanted = " + ".join(f"{count} warps x {most} ({names})" for count, most, names in shares)
        total = sum(count * most for count, most, _ in shares)
        why = (f"{wanted} = {total} of the {warps * launch} that {warps} warps have together ({warps} x {launch}){_others(rows)}")
    fits = most_for_all(program, region, number, launch)
    mend = f"ask for at most {fits}" if fits else "use fewer warps"
    return Remark(f"the register requests of '{program.name}' are not met on {target}, no registers are moved and every thread "
                  f"has an equal share, {launch} at most: {why}.", (beyond or asking[0]).site,
                  f"{mend}, or leave num_regs out." if fits else f"{mend}: {warps} warps leave {launch} registers to each thread.")


def _shares(asking: list[TaskRegisters], default_warps: int) -> list[tuple[int, int, str]]:
    """(warps, registers of each, whose) of tasks that ask; the narrow ones in one group of four warps get one number together."""
    groups: dict[object, list[TaskRegisters]] = {}
    for row in asking:
        narrow = row.num_warps < GROUP and row.first_warp >= default_warps
        groups.setdefault(row.first_warp // GROUP if narrow else row.name, []).append(row)
    return [(GROUP if isinstance(key, int) else rows[0].num_warps, max(row.requested for row in rows),
             ", ".join(row.name for row in rows)) for key, rows in groups.items()]


def _others(rows: list[TaskRegisters]) -> str:
    silent = [row.name for row in rows if not row.requested]
    return f", and {', '.join(map(repr, silent))} need{'s' * (len(silent) == 1)} {LEAST} at least" if silent else ""
