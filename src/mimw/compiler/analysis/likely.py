"""Mistakes that a program shows without a run, and that a run shows elsewhere: what reports say in place of a general mend.

Input: a program. Output: the mend of the first such mistake, or "". For example:

    likely_mend(program)    "wait for `full[slot]`, which the tma_load of ring.py:26 completes, before ring.py:18"
    uncommitted(program, load)      the `async_load` belongs to no group: no commit stands behind it in its block

The mistakes are a copy whose barrier nobody waits for, and the parity `i & 1` where slots are taken by `i % n`: that of a round is
`(i // n) & 1`.
"""

from __future__ import annotations

import linecache
import re

from ...ir import Op, Program, Site, Value
from .barrier_ops import signals, waits
from .constants import constant_of
from .uses import Uses, uses_of


def likely_mend(program: Program) -> str:
    """The mend of the first mistake of those that are looked for; "" if there is none."""
    return program.kept(_mend)


def _mend(program: Program) -> str:
    return _unawaited(program) or _rounds(program)


def _unawaited(program: Program) -> str:
    """A copy completes a barrier of the CTA for which nobody waits."""
    uses, awaited = uses_of(program), {wait.barrier.root for wait in waits(program)}
    for one in signals(program):
        made, copy = uses.definition.get(one.barrier.root), one.op
        if copy.row.barrier != "complete" or one.is_remote or made is None or made.name != "alloc_barriers":
            continue
        if one.barrier.root in awaited or "pipe" in made.attrs:
            continue
        read = _user(uses, copy)
        if read is not None:
            name = as_written(copy.site, one.barrier.root.name)
            return f"wait for {name}, which the {copy.name} of {copy.site} completes, before {read.site}"
    return ""


def _user(uses: Uses, copy: Op) -> Op | None:
    """The first op that uses the buffer which a copy fills, and is no such copy."""
    buffer = _root(uses, getattr(copy, "buffer", None))
    for op in uses.ops if buffer is not None else ():
        if not op.row.view_of and op.row.barrier != "complete" and any(_root(uses, value) is buffer for value in op.operands):
            return op
    return None


def _root(uses: Uses, value: Value | None) -> Value | None:
    """The array of buffers of which a buffer is a part."""
    while (op := uses.definition.get(value)) is not None and op.row.view_of and getattr(op, op.row.view_of) is not None:
        value = getattr(op, op.row.view_of)
    return value


def as_written(site: Site, name: str) -> str:
    """A barrier as the line of its copy spells it, `full[slot]`; by the name of its array where the line has no such thing."""
    line = linecache.getline(site.file, site.line)
    found = re.search(rf"\b{re.escape(name)}\[[^\]]*\]", line) if name else None
    passed = re.search(r"async_descriptor_load\(.*, (\w+(?:\[[^\]]*\])?)\)\s*(?:#|$)", line)       # as a helper's parameter
    return f"`{found[0] if found else passed[1] if passed else name or 'the barrier'}`"


def _rounds(program: Program) -> str:
    """A wait by the parity `i & 1` for slot `i % n`, n > 1."""
    uses = uses_of(program)
    for one in waits(program):
        count = _slots_by(uses, one.op)
        if count:
            return (f"the parity that the wait at {one.op.site} names is that of the number, i & 1; with {count} slots that of a "
                    f"round is (i // {count}) & 1")
    return ""


def _slots_by(uses: Uses, wait: Op) -> int:
    """The number n of slots, if a wait's barrier is number i % n and its parity that of i or of i + 1; else 0."""
    index = uses.definition.get(getattr(wait, "barrier", None))
    slot = uses.definition.get(index.index) if index is not None and index.name == "barrier_index" else None
    parity = uses.definition.get(wait.phase)
    if parity is not None and parity.name == "xor":
        parity = uses.definition.get(parity.lhs)
    if slot is None or parity is None or "remainder" not in slot.row.traits or parity.name != "and":
        return 0
    count, one = constant_of(uses, slot.rhs), constant_of(uses, parity.rhs)
    same = slot.lhs is parity.lhs
    return count if same and one == 1 and count is not None and count > 1 else 0


def uncommitted(program: Program, load: Op) -> bool:
    """True if no commit stands behind a copy by cp.async in its block."""
    place = uses_of(program).place.get(load)
    if place is None:
        return False
    ops = place.block.ops
    return not any(op.name == "async_commit" for op in ops[ops.index(load):])
