"""Ops that touch a buffer array, an array of barriers or a storage, found through all views.

Input: the def-use index and the value of an allocation. Output: the ops, and True if control flow hands a view on, where the
analysis does not follow it:

    memory_uses(uses, tiles)      ((tma_load, local_load), False); (.., True) where a loop or a branch hands a view on
"""

from __future__ import annotations

from ...ir import Op, Value
from .uses import Uses


def memory_uses(uses: Uses, root: Value) -> tuple[tuple[Op, ...], bool]:
    """(ops that touch a buffer or barrier array, views seen through; whether it is handed on out of sight)."""
    touching, handed_on, pending = [], False, [root]
    while pending:
        for use in uses.of(pending.pop()):
            if use.op.row.view_of:  # in a storage, an array is a view
                pending.append(use.op.result)
            elif use.op.row.hands_over:
                handed_on = True
            else:
                touching.append(use.op)
    return tuple(sorted(touching, key=uses.position.__getitem__)), handed_on
