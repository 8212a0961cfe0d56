"""What an author says about the layout of a tile: it changes no number.

Input: a task at an op of `ir/ops/layouts.py`. Output: the same tile.

    %pinned = require_layout %tile layout      %tile
"""

from __future__ import annotations

from ..machine.table import handles


@handles("require_layout", "release_layout")
def same_tile(task, op):
    task.env[op.result] = task.read(op.value, op)


@handles("assert_same_layout", "dump_layout")
def for_the_compiler(task, op):
    """Answered while compiling."""
