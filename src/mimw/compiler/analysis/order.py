"""Order constraints of ops: the place of each op in the order of memory accesses and synchronisation, which no pass may
change.

Input: an op or a program. Output: an `Order` for the op, or one `LoopPlan` for each `for` loop of the program. The
order follows from the effects, touches and traits of the op's row:

    add, dot                                        Order.FREE     touches no memory that another op could change
    load, store, local_load                         Order.ACCESS   stays between the fixed ops around it
    local_store, barrier_wait, tma_load, asm        Order.FIXED    keeps its place among all fixed ops, and no access passes it

Triton knows what its own accesses do and may order them anew (it starts `tl.load`s iterations ahead). It does not know
what barriers, copies into shared memory, cluster barriers or assembly mean for other tasks, so those ops are fixed.
Accesses by descriptor are fixed as well: Triton lowers each one to a copy by TMA and a wait for that copy, and Triton's
pipeliner would move the wait before the copy.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from ...ir import Barrier, Buffer, Op, Program, Storage

STAGES, UNROLL = "tt.num_stages", "tt.loop_unroll_factor"  # Triton's attributes of a loop

_NO_MEMORY = frozenset(("pure", "control", "debug"))  # effects of ops that are free, whatever else their rows say
_ORDERED = ("ACQUIRE", "RELEASE")  # the parts of a memory order's name that make an atomic order other accesses


class Order(Enum):
    """The freedom of an op to move among memory accesses."""

    FREE = "free"
    ACCESS = "access"
    FIXED = "fixed"


def order_of(op: Op) -> Order:
    """The order of one op, its regions left out, by its row of the op table."""
    row = op.row
    if _is_pure(op) or not row.effects - _NO_MEMORY:
        return Order.FREE
    by_descriptor = any(operand == "descriptor" for operand, _ in row.touches) and not row.ours
    if row.effects & {"sync", "async"} or "assembly" in row.traits or by_descriptor:
        return Order.FIXED
    if row.ours:
        return Order.FIXED if "write" in row.effects else Order.ACCESS
    if "atomic" in row.traits:
        return Order.FIXED if any(word in memory_order(op) for word in _ORDERED) else Order.ACCESS
    return Order.ACCESS


def _is_pure(op: Op) -> bool:
    """True if the op only computes: by its row, or because the author said so of a piece of assembly, or the chip has no memory for
    what it makes."""
    return "pure" in op.row.effects or "assembly" in op.row.traits and bool(op.is_pure) or _is_in_registers(op)


def _is_in_registers(op: Op) -> bool:
    """True if the op makes a descriptor of AMD's data mover, a value like any other, and stores it in no slot."""
    return bool(op.attrs.get("by_mover")) and not op.row.touches and ("slot" not in op.row.places or op.slot is None)


def memory_order(op: Op) -> str:
    """The memory order of an atomic op in capitals, such as "ACQUIRE_RELEASE": a name, or one of Triton's enumeration."""
    return getattr(op.order, "name", str(op.order)).upper()


def orders(program: Program) -> dict[int, Order]:
    """The order of each op that is not free, by the op's number in program order (`number, op in enumerate(program.walk())`)."""
    asked = frozenset(program.where(lambda row: row.effects - _NO_MEMORY))
    found = {number: order_of(op) for number, op in enumerate(program.walk()) if op in asked}
    return {number: order for number, order in found.items() if order is not Order.FREE}


@dataclass(frozen=True)
class LoopPlan:
    """One `for` loop: may Triton pipeline it, and if not, which op inside forbids that."""

    loop: Op
    fixed: Op | None = None

    @property
    def may_pipeline(self) -> bool:
        """True if nothing inside the loop has a fixed place, so that Triton may start loads of later iterations early."""
        return self.fixed is None


def loop_plans(program: Program) -> list[LoopPlan]:
    """A plan for each `for` loop, outer loops first. The outer loop holds also the ops of an inner loop."""
    return [LoopPlan(op, next((inner for inner in op.walk() if inner is not op and _keeps_loop(inner)), None))
            for op in program.named("for")]


def _keeps_loop(op: Op) -> bool:
    """True if a loop with the op in it runs in order. A descriptor is made in several steps, which belong together, too."""
    return order_of(op) is Order.FIXED or op.name == "make_tensor_descriptor"


def makes_memory(op: Op) -> bool:
    """True if the op makes buffers or barriers that other ops look at, rather than looking at some itself."""
    return (any(isinstance(result.type, (Buffer, Barrier, Storage)) for result in op.results)
            and not any(isinstance(operand.type, (Buffer, Barrier)) for operand in op.operands))


def may_pipeline(program: Program) -> bool:
    """True if Triton's pipeliner has something to do in the kernel and leaves all the rest as it is.

    Its passes skip loops with no stages. But they set the pending groups of every cp.async wait of the kernel anew, and a loop
    that Triton unrolls gets a remainder with one stage, in which products are left under way.
    """
    plans = loop_plans(program)
    wanted = any(plan.may_pipeline and (STAGES in plan.loop.attrs or any(op.name == "dot" for op in plan.loop.walk()))
                 for plan in plans)
    return wanted and why_not_pipelined(program) is None


def why_not_pipelined(program: Program) -> Op | None:
    """The op for whose sake Triton may pipeline no loop of the kernel, or None."""
    unrolled = (plan.loop for plan in loop_plans(program) if not plan.may_pipeline and UNROLL in plan.loop.attrs)
    return next(unrolled, None) or next(iter(program.named("async_wait")), None)


def may_sink_reads(program: Program) -> bool:
    """True if Triton may move reads of shared memory into loops, to their only use: there is no read of the author's to move."""
    return not program.where(lambda row: ("buffer", "read") in row.touches)
