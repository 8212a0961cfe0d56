"""What a program may take if a multiprocessor is to hold several: its shared memory, and its registers.

Input: a `Plan`, the warps of the plain kernel, and the chip. Output: bytes, registers a thread. For example, two programs of four
warps that compute and one that loads, on a chip with 65,536 registers and 228 KiB for each multiprocessor:

    shared_bytes(2, target)                     115,712: half of it, and what the driver keeps for each program is off
    at_launch(plan, 4, target)                  128: 8 warps start, as the one that loads is filled up to a group of four
    of_consumers(plan, 4, target)               232: 128 x 8 warps, without 24 x 4 of the group that loads, for four warps

A plan that says nothing of it has one program's limits, and as many programs run beside each other as it comes to.
"""

from __future__ import annotations

from ...target import Target
from .plan import Plan

GROUP = 4               # warps that get registers together: a producer of one warp starts a whole group (PTX ISA, setmaxnreg)
KEPT = 1024             # bytes of shared memory that the driver keeps for each program (CUDA C++ Programming Guide)
_BYTES, _MOST = 128, 240        # steps of shared memory; registers of a consumer, beyond which none was seen to gain
LEAST = 24              # what a producer needs, and the fewest that can be asked for


def shared_bytes(programs: int | None, target: Target) -> int:
    """Bytes of shared memory that a program may have. A multiprocessor has what one program may have and what is kept for it."""
    if not programs:
        return target.shared_bytes
    return (target.shared_bytes + KEPT) // programs // _BYTES * _BYTES - KEPT


def warps(plan: Plan, plain: int) -> int:
    """Warps that start: consumers', and a group for the producer."""
    return plan.consumers * plan.warps_of(plain) + GROUP


def at_launch(plan: Plan, plain: int, target: Target) -> int:
    """Registers of each thread when the kernel starts."""
    unit = target.register_unit
    share = target.registers_per_cta // (plan.programs or 1) // (warps(plan, plain) * target.warp_size) // unit * unit
    return min(share, (target.max_registers_per_thread + unit - 1) // unit * unit)


def of_consumers(plan: Plan, plain: int, target: Target) -> int | None:
    """Registers of each thread of a consumer: the plan's, or what the producer leaves; None where nothing is to be asked for."""
    if plan.consumer_registers is None or plan.producer_registers is None or not target.has("register_moves"):
        return plan.consumer_registers
    unit, asked = target.register_unit, max(LEAST, plan.producer_registers)
    left = at_launch(plan, plain, target) * warps(plan, plain) - (asked + unit - 1) // unit * unit * GROUP
    return max(LEAST, min(plan.consumer_registers, left // (warps(plan, plain) - GROUP) // unit * unit))
