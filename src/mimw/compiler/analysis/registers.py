"""Registers per thread of every task: the author's request and the hardware's grant.

Input: a program and its target. Output: a `TaskRegisters` for each task. For example, for a default task of 4 warps
beside one of 4:

    async_task(num_warps=4, registers=232)       requested=232, granted=232; the default task is granted 256

A launch gives every thread the same share of the register file. `setmaxnreg` then moves registers between groups of
four warps (a warpgroup): PTX ISA, "setmaxnreg", 24 to 256 in steps of 8. The rules are those of stock Triton's
warp-group allocation: wide tasks before narrow ones, groups of four in that order, each group at its largest request,
the rest to the default task.

On AMD no registers move: all waves of a kernel have as many as the largest task needs, and a request is noted and does nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from ...ir import Op, Program, Site, Task
from ...target import Target
from .uses import task_label

LEAST = 24  # the smallest count that setmaxnreg takes
MOST = 256  # the largest
GROUP = 4  # warps whose registers are moved together


@dataclass(frozen=True)
class TaskRegisters:
    """One task: its warps, its first warp in the CTA, its request and its grant (registers per thread).

    `region` numbers the kernel's task regions. `moved` is false without requests, or where the requests do not fit
    and every thread keeps the share `launch` that it started with.
    """

    name: str
    region: int
    num_warps: int
    first_warp: int
    requested: int | None
    granted: int
    launch: int
    moved: bool
    site: Site


def regions(program: Program) -> tuple[Op, ...]:
    """The kernel's task regions in program order."""
    return program.named("warp_specialize")


def own_regions(program: Program) -> tuple[Op, ...]:
    """The task regions that the author wrote."""
    return tuple(region for region in regions(program) if not region.attrs.get("internal"))


def extra_warps(region: Op) -> int:
    """Warps of a region on top of the default task's, filled up to groups of four."""
    return _round_up(sum(task.num_warps for task in region.attrs["tasks"] if not task.is_default), GROUP)


def total_warps(program: Program) -> int:
    """Warps of the whole CTA: the default task's and those of the largest region."""
    return program.num_warps + max((extra_warps(region) for region in regions(program)), default=0)


def launch_registers(program: Program, target: Target) -> int:
    """Registers per thread at launch: an equal share of the register file, or as many as the launch asks for (`maxnreg=`), rounded
    down to the unit of allotment."""
    share = target.registers_per_cta // (total_warps(program) * target.warp_size)
    share = min(share, program.launch_facts.registers or share)
    return min(_round_down(share, target.register_unit), _round_up(target.max_registers_per_thread, target.register_unit))


def register_plan(program: Program, target: Target) -> tuple[TaskRegisters, ...]:
    """Every task of every region that the author wrote, in program order, or the one row of a kernel without tasks."""
    launch = launch_registers(program, target)
    if not regions(program):
        return (TaskRegisters("kernel", 0, program.num_warps, 0, None, launch, launch, False, program.site), )
    rows = []
    for number, region in enumerate(own_regions(program)):
        rows += _region(program, region, number, launch, target.has("register_moves"))
    return tuple(rows)


def requests(program: Program, target: Target) -> dict[Op, tuple[int | None, ...]]:
    """The register requests to the hardware for each task of each region, default task first, so that every task gets its
    grant.

    Triton passes on the requests of the other tasks only and leaves the rest to the default task. So where the default task
    asks, the others request their grants, and the default task returns the registers above its own request; None stands for
    no request. A region whose requests do not fit requests nothing.
    """
    launch, asked = launch_registers(program, target), {}
    for number, region in enumerate(regions(program)):
        rows = _region(program, region, number, launch, target.has("register_moves"))
        default, *others = rows
        if not default.moved:
            asked[region] = (None, ) * len(rows)
        elif default.requested is None:
            asked[region] = (None, *(row.requested for row in others))
        else:
            groups = {row.first_warp // GROUP: row.granted for row in others}
            left = _grant(launch, program.num_warps, None, groups, extra_warps(region) // GROUP)
            asked[region] = (default.granted if left is None or left[0] > default.granted else None,
                             *(row.granted for row in others))
    return asked


def most_for_all(program: Program, region: Op, number: int, launch: int) -> int:
    """The largest number such that the requests of a region fit if none of them is above it; 0 if there is none."""
    for most in range(MOST, LEAST - 1, -8):
        tasks = tuple(replace(task, registers=task.registers and min(task.registers, most)) for task in region.attrs["tasks"])
        if _region(program, replace(region, attrs={**region.attrs, "tasks": tasks}), number, launch)[0].moved:
            return most
    return 0


def _region(program: Program, region: Op, number: int, launch: int, moves: bool = True) -> list[TaskRegisters]:
    tasks = region.attrs["tasks"]
    first = _first_warps(program, tasks)
    groups: dict[int, int | None] = {}
    for task, start in zip(tasks, first):
        if not task.is_default:
            for group in range(start // GROUP, (start + task.num_warps - 1) // GROUP + 1):
                asked = (groups.get(group), task.registers)
                groups[group] = max((_request(one) for one in asked if one), default=None)
    default = next((task for task in tasks if task.is_default), None)
    granted = _grant(launch, program.num_warps, _request(default.registers) if default else None, groups,
                     extra_warps(region) // GROUP) if moves and program.num_warps % GROUP == 0 else None
    rows = []
    for task, start in zip(tasks, first):
        given = launch if granted is None else granted[0] if task.is_default else granted[1][start // GROUP]
        rows.append(TaskRegisters(task_label(task), number, task.num_warps, start, task.registers, given, launch,
                                  granted is not None, task.site))
    return rows


def _first_warps(program: Program, tasks: tuple[Task, ...]) -> list[int]:
    """The first warp of each task: the default task's are 0.., then wider tasks before narrower ones."""
    first, free = [0] * len(tasks), program.num_warps
    others = [index for index, task in enumerate(tasks) if not task.is_default]
    for index in sorted(others, key=lambda index: -tasks[index].num_warps):
        first[index], free = free, free + tasks[index].num_warps
    return first


def _grant(launch: int, default_warps: int, default: int | None, groups: dict[int, int | None],
           group_count: int) -> tuple[int, dict[int, int]] | None:
    """(registers of the default task, registers of each group), or None where nothing is moved."""
    requests = [request for request in (default, *groups.values()) if request]
    if not requests or max(requests) > MOST:
        return None
    pool = launch * (default_warps + group_count * GROUP)  # in registers per thread, times warps
    padding = (group_count - len(groups)) * GROUP * launch
    asked = sum(request for request in groups.values() if request) * GROUP
    silent = [group for group, request in groups.items() if not request]
    left = pool - padding - asked - (default or 0) * default_warps
    if default is None:
        default = min(MOST, _round_down((left - len(silent) * GROUP * launch) // default_warps))
        left, share = 0, launch
    else:
        share = min(MOST, _round_down(left // (len(silent) * GROUP))) if silent else LEAST
    if default < LEAST or left < 0 or (silent and share < LEAST):
        return None
    return default, {group: request or share for group, request in groups.items()}


def _request(registers: int | None) -> int | None:
    return max(LEAST, _round_up(registers, 8)) if registers else None


def _round_up(number: int, unit: int = 8) -> int:
    return -(-number // unit) * unit


def _round_down(number: int, unit: int = 8) -> int:
    return number // unit * unit
