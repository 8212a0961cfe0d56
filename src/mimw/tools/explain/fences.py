"""The section about fences between proxies: those that the compiler has put in, with the lines before which they stand.

Input: a program after the passes. Output: a line for each such fence; "" if there is none. For example:

    default      before the async_descriptor_store of gemm.py:31: copies or products of others read what the task stored
    consumer     before the barrier_arrive of gemm.py:24: copies overwrite what the task has read or written
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from ...compiler.analysis.barrier_ops import task_names
from ...ir import Block, Op, Program

HEADING = "Fences between proxies, put in"

_WHY = {"delivery": "a copy, or a product of another task, reads what the task stored",
        "handover": "copies overwrite what the task has read or written"}


def fence_text(program: Program) -> str:
    return "\n".join(dict.fromkeys(_lines(program.body, "default")))


def _lines(block: Block, task: str) -> Iterator[str]:
    for index, op in enumerate(block.ops):
        if op.name == "fence" and op.scope in _WHY:
            yield f"{task:<12} before {_next(block, index)}: {_WHY[op.scope]}"
        names = task_names(op) if op.name == "warp_specialize" else [task] * len(op.blocks)
        for name, inner in zip(names, op.blocks):
            yield from _lines(inner, name)


def _next(block: Block, index: int) -> str:
    """The op that the fence stands before."""
    behind: Op | None = next((op for op in block.ops[index + 1:] if "terminator" not in op.row.traits), None)
    op = behind or block.ops[index]
    place = f"{Path(op.site.file).name}:{op.site.line}"
    return f"the end of the task, behind {place}" if behind is None else f"the {op.row.word} of {place}"
