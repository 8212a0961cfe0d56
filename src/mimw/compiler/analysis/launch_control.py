"""Contexts of cluster launch control: the declared number of consumers of each context, and the actual one.

Input: a program, and one of a context's arrays of barriers. Output: a sentence for reports, "" if the numbers agree. For example:

    miscounted(program, empty)      "clc_create_context at k.py:15 has num_consumers=3, but 2 tasks call clc_consumer ..."

A context's barriers are those of one `alloc_barriers` with the attribute `clc`, `empty` or `full`, and of the other one at the same
place of the source.
"""

from __future__ import annotations

from ...ir import Op, Program, Value
from .barrier_ops import signals

EMPTY, FULL = "empty", "full"


def clc_side(op: Op) -> str:
    """The role of an `alloc_barriers` in its context of launch control, `empty` or `full`; "" if the barriers belong to no
    context."""
    return op.attrs.get("clc", "")


def empty_of(program: Program, root: Value) -> Op | None:
    """The `alloc_barriers` of the empty barriers of the context to which the array `root` belongs; None if it is of no context."""
    makers = [op for op in program.where(lambda row: row.allocates == "barriers") if clc_side(op)]
    own = next((op for op in makers if op.result is root), None)
    return own and next((op for op in makers if clc_side(op) == EMPTY and op.site == own.site), None)


def miscounted(program: Program, root: Value) -> str:
    """The complaint about the number of consumers of the context to which the array `root` belongs; "" if the number is
    right."""
    empty = empty_of(program, root)
    if empty is None:
        return ""
    consumers = [one for one in signals(program) if one.barrier.root is empty.result]
    names = list(dict.fromkeys(one.task or "the kernel's body" for one in consumers))
    ctas = program.cluster_size if any(one.is_remote for one in consumers) else 1
    if empty.arrive_count == len(names) * ctas:
        return ""
    tasks = " and ".join(map(repr, names)) or "none"
    many = f" in each of the {ctas} CTAs of a cluster, {len(names) * ctas} in all" if ctas > 1 else ""
    return (f"clc_create_context at {empty.site} has num_consumers={empty.arrive_count}, but {len(names)} "
            f"task{'s call' if len(names) != 1 else ' calls'} clc_consumer on it{many}: {tasks}")


def miscounted_by(program: Program, op: Op) -> str:
    """The complaint of `miscounted` for the context into whose response a request `op` writes; "" if there is none."""
    found = next((one for one in signals(program) if one.op is op), None)
    return miscounted(program, found.barrier.root) if found is not None else ""

