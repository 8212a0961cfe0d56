"""A block made ready to run: what the interpreter walks.

Input: a block, and the handlers and costs of its ops, as `interpreter.prepare` finds them. Output: a `Code`, which also counts. For
example:

    Code([(op, run, PLAIN, 4.0), ...], switches=False, ops=block.ops).runs      0, until the block is walked
"""

from __future__ import annotations

from dataclasses import dataclass

from ...ir import Op

PLAIN, SWITCHING, GENERATOR = range(3)      # how the interpreter calls a handler


@dataclass
class Code:
    """A block made ready: its steps (op, handler, how it is called, cycles), whether any of them may give way to others, its ops,
    and how often it has run."""

    steps: list[tuple[Op, object, int, float]]
    switches: bool
    ops: tuple[Op, ...]
    runs: int = 0
