"""What is known of one pipe while its kernel is being recorded: its arguments, who uses it, whether it is ever closed."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import triton.language.core as tl

from ..tlx.arguments import is_int


@dataclass(eq=False)
class PipeRecord:
    """One call of `tle.pipe`. All values of the pipe, wherever they were handed, share it.

    `by_threads` is true once cp.async fills a chunk; a commit need not see which chunk that was. `closing` are the ops that
    only a pipe with an end marker needs; without any `close` they are taken out again. `owners` says which task of each task
    region has taken a role ("the writer", "reader 'x'").
    """

    number: int
    name: str | None
    capacity: int
    readers: tuple[str, ...] | None
    one_shot: bool
    builder: Any
    closes: bool = False
    by_threads: bool = False
    closing: list = field(default_factory=list)
    never_closed: list = field(default_factory=list)  # handles that are then false
    false: Any = None
    owners: dict[tuple[str, int], Any] = field(default_factory=dict)

    @property
    def label(self) -> str:
        """The pipe in messages."""
        return f"pipe {self.name!r}" if self.name else f"pipe {self.number}"

    def taken_by(self, role: str, generator) -> None:
        """Note that the task being recorded has the role. ValueError if another task of its region has it, too."""
        task = getattr(generator, "task", None)
        if task is None:
            return
        owner = self.owners.setdefault((role, self.builder.regions), task)
        if owner is not task:
            raise ValueError(f"{self.label}: {role} is used in two partitions, '{owner.name}' and '{task.name}'; "
                             + ("one partition writes a pipe" if role == "the writer" else
                                "declare a reader for each, `readers=(\"first\", \"second\")`"))

    def check_kernel(self, semantic) -> None:
        """ValueError unless the pipe belongs to the kernel being recorded."""
        if semantic.builder is not self.builder:
            raise ValueError(f"{self.label} was created in another kernel")

    def finish(self) -> None:
        """The recording is over: without a `close` nobody asks for end markers."""
        if self.closes:
            return
        for op in self.closing:
            if op in op.block.ops:
                op.block.ops.remove(op)
        for handle in self.never_closed:
            handle.replace_all_uses_with(self.false)


def place_of(record: PipeRecord, iter: Any, semantic) -> tuple[Any, Any]:
    """(stage, phase) of chunk `iter`, ints or i32 scalars. ValueError unless it is a chunk number."""
    if isinstance(iter, bool) or not (is_int(iter) or _is_integer_scalar(iter)):
        raise ValueError(f"{record.label}: `iter` must be an int or an integer scalar, got {iter}")
    capacity = record.capacity
    if is_int(iter):
        if iter < 0:
            raise ValueError(f"{record.label}: `iter` counts chunks from 0, got {iter}")
        return iter % capacity, iter // capacity % 2
    iter = iter if iter.dtype.primitive_bitwidth >= 32 else semantic.cast(iter, tl.int32)
    if capacity == 1:
        return 0, semantic.cast(semantic.and_(iter, 1), tl.int32)
    stage, turn = semantic.mod(iter, capacity), semantic.floordiv(iter, capacity)
    return semantic.cast(stage, tl.int32), semantic.cast(semantic.and_(turn, 1), tl.int32)


def _is_integer_scalar(value: Any) -> bool:
    return isinstance(value, tl.tensor) and not value.type.is_block() and value.dtype.is_int() and not value.dtype.is_bool()
