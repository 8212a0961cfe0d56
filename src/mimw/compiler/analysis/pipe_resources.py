"""The pipes of a program as their author thinks of them: slots, fields, bytes, and which task is at which end.

Input: a program after the pass `expand_pipes`. Output: a `PipeResources` for each pipe, in program order:

    PipeResources("inputs", slots=6, fields=("a", "b"), chunk_bytes=32768, barriers=12, over="", writers=("producer", ),
                  readers=("consumer[0]", "consumer[1]"))
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from ...ir import Program
from .barriers import BarrierArray, barrier_arrays
from .pipe_words import FULL, pipe_arrays
from .uses import Uses, task_label


@dataclass(frozen=True)
class PipeResources:
    """One pipe. `barriers` counts those that it is made of; `over` names the pipe over whose chunks it is written, "" for none.
    `writers` and `readers` are tasks; a reader whose name is another than its task's has the name behind the task."""

    name: str
    slots: int
    fields: tuple[str, ...]
    chunk_bytes: int
    barriers: int
    over: str
    writers: tuple[str, ...]
    readers: tuple[str, ...]

    @property
    def bytes(self) -> int:
        """The bytes of all slots; 0 for a pipe over another pipe, which has no memory of its own."""
        return 0 if self.over else self.slots * self.chunk_bytes


def pipe_resources(program: Program, uses: Uses | None = None) -> tuple[PipeResources, ...]:
    """The pipes of the program; () before they are expanded."""
    arrays = {array.root: array for array in barrier_arrays(program, uses)}
    return tuple(_resources(array, [arrays[root] for root in pipe_arrays(program, array.root)])
                 for array in arrays.values() if array.pipe is not None and array.pipe.side == FULL)


def _resources(full: BarrierArray, arrays: list[BarrierArray]) -> PipeResources:
    told = full.op.attrs
    return PipeResources(full.pipe.name, full.count, tuple(told.get("fields", ())), told.get("chunk_bytes", 0),
                         sum(array.count for array in arrays), told.get("over", ""), _tasks(arrays, "acquire", "commit", "close"),
                         _tasks(arrays, "wait", "release"))


def _tasks(arrays: list[BarrierArray], *methods: str) -> tuple[str, ...]:
    """The tasks that call one of the methods."""
    calls = [(task_label(one.task), one.op.attrs.get("reader")) for array in arrays for one in array.accesses
             if one.op.attrs.get("method") in methods]
    return tuple(dict.fromkeys(task if name in (None, re.sub(r"[\[\]]", "", task)) else f"{task} ({name})" for task, name in calls))
