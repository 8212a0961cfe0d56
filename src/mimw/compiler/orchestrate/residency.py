"""What a program may take if a multiprocessor is to hold several: its shared memory, and its registers.

Input: a `Plan`, the warps of the plain kernel, and the chip. Output: bytes, registers a thread. For example, two programs of four
warps that compute and one that loads, on a chip with 65,536 registers and 228 KiB for each multiprocessor:

    shared_bytes(2, target)                     115,712: half of it, and what the driver keeps for each program is off
    at_launch(plan, 4, target)                  128: 8 warps start, as the one that loads is filled up to a group of four
    of_consumers(plan, 4, target, 24)           232: 128 x 8 warps, without 24 x 4 of the group that loads, for four warps

A plan that says nothing of it has one program's limits, and as many programs run beside each other as it comes to.
"""

from __future__ import annotations

from ...target import Target
from .plan import Plan

GROUP = 4               # warps that get registers together: a producer of one warp starts a whole group (PTX ISA, setmaxnreg)
KEPT = 1024             # bytes of shared memory that the driver keeps for each program (CUDA C++ Programming Guide)
LEAST = 24              # registers that can be asked for, at the fewest
_BYTES = 128            # the step in which shared memory is allotted


def shared_bytes(programs: int | None, target: Target) -> int:
    """Bytes of shared memory that a program may have. A multiprocessor has what one program may have and what is kept for it."""
    if not programs:
        return target.shared_bytes
    return (target.shared_bytes + KEPT) // programs // _BYTES * _BYTES - KEPT


def warps(plan: Plan, plain: int) -> int:
    """Warps that start: consumers', those of a task that transforms, and a group for the producer."""
    return plan.consumers * plan.warps_of(plain) + plan.transform + GROUP


def at_launch(plan: Plan, plain: int, target: Target) -> int:
    """Registers of each thread when the kernel starts."""
    unit = target.register_unit
    share = target.registers_per_cta // (plan.programs or 1) // (warps(plan, plain) * target.warp_size) // unit * unit
    return min(share, (target.max_registers_per_thread + unit - 1) // unit * unit)


def of_consumers(plan: Plan, plain: int, target: Target, producer: int | None) -> int | None:
    """Registers of each thread of a consumer: the plan's, or what a producer with so many leaves. A request beyond that would be
    none: no registers move then (`analysis.registers`)."""
    if plan.consumer_registers is None or producer is None or not target.has("register_moves"):
        return plan.consumer_registers
    unit, started = target.register_unit, warps(plan, plain)
    left = at_launch(plan, plain, target) * started - max(LEAST, (producer + unit - 1) // unit * unit) * GROUP
    return max(LEAST, min(plan.consumer_registers, left // (started - GROUP) // unit * unit))
