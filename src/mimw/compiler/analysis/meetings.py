"""Ops at which all threads of a task meet, though the op is a single thread's or each thread's own.

Input: an op. Output: the reason why its threads meet there, "" if they do not. For example:

    atomic_rmw %p %1 order=ACQUIRE_RELEASE      "its order, acquire_release, is one of all threads"
    atomic_rmw %p %1 order=RELAXED              ""; but where its old value, a number, is used, one thread hands it to all others

Triton stands a barrier in front of what releases and behind what acquires, of all threads of the task (of all waves, where there
are no tasks), and has one thread do an atomic op on a number, which hands the old value on through shared memory. So such an op can
stand neither under a condition that only some threads meet, nor in a stage that half of the waves are in.
"""

from __future__ import annotations

from ...ir import Op, Tensor

_FAR = ("gpu", "sys")       # scopes of fences that stand for all that a task did


def meets(op: Op) -> str:
    """The reason for which all threads of the task meet at the op itself, whoever takes its results."""
    if op.name == "fence":
        return f"a fence of scope {op.scope} is one of all threads" if op.scope in _FAR else ""
    if "atomic" not in op.row.traits or "order" not in op.row.places:
        return ""
    order = getattr(op.order, "name", str(op.order)).lower()
    return "" if order == "relaxed" else f"its order, {order}, is one of all threads"


def hands_round(op: Op) -> bool:
    """True if one thread gets the op's result and hands it to all others, should anybody take it."""
    return "atomic" in op.row.traits and "order" in op.row.places and len(op.results) == 1 and \
        not isinstance(op.results[0].type, Tensor)
