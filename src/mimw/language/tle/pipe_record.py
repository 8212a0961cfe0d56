"""The facts of one pipe while its kernel is being recorded: the pipe's arguments, and the type of its value in the IR.

Input: the arguments of `tle.pipe`. Output: the record that all values of the pipe share. For example:

    record.label                      "pipe 'kv'", by the name that the author gave it, or the variable that holds it
    chunk_of(record, k, semantic)     the number of a chunk as an operand, and whether it is unsigned
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import triton.language.core as tl

from ...ir import Recording, Site
from ..core import HandleType, HandleValue
from ..refuse import refuse
from ..tlx.arguments import is_int


@dataclass(eq=False)
class PipeRecord:
    """One call of `tle.pipe`. All values of the pipe, wherever they were handed, share it."""

    name: str | None
    capacity: int
    fields: tuple[str, ...]
    readers: tuple[str, ...] | None
    one_shot: bool
    builder: Recording
    handle: Any     # of the `pipe_make`
    site: Site
    over: bool = False      # its chunks are written over those of another pipe
    struct: Any = None      # the value of a `tle.struct` that holds its buffers, if it was made of one

    @property
    def label(self) -> str:
        """The pipe in messages."""
        return f"pipe {self.handle.name!r}" if self.handle.name else f"the pipe of line {self.site.line}"

    def check_kernel(self, semantic) -> None:
        """ValueError unless the pipe belongs to the kernel being recorded."""
        if semantic.builder is not self.builder:
            refuse(ValueError, f"{self.label} was created in another kernel",
                   mend="call tle.pipe in the kernel that uses it, and hand the pipe to helpers as an argument")


class PipeHandleType(HandleType):
    """The type of the part of a pipe's values that is the pipe itself."""

    def __init__(self, record: PipeRecord):
        self.record = record

    def to_ir(self, builder):
        return self.record.handle.get_type()

    def value(self, handle) -> HandleValue:
        made = HandleValue(handle)
        made.type = self
        return made

    def mangle(self) -> str:
        return f"pipe_{id(self.record)}"

    __str__ = mangle


def chunk_of(record: PipeRecord, iter: Any, semantic) -> tuple[Any, dict[str, bool]]:
    """The operand for chunk `iter`, an int or an integer of 32 bits or more, and what is to be said of it. ValueError unless it
    is a chunk number."""
    if isinstance(iter, bool) or not (is_int(iter) or _is_integer_scalar(iter)):
        refuse(ValueError, f"{record.label}: `iter` must be an int or an integer scalar, got {iter}",
               mend="give the number of the chunk, the loop's variable for instance")
    if is_int(iter):
        if iter < 0:
            refuse(ValueError, f"{record.label}: `iter` counts chunks from 0, got {iter}",
                   mend="number the chunks 0, 1, 2, ... in the writer and in every reader")
        return iter, {}
    iter = iter if iter.dtype.primitive_bitwidth >= 32 else semantic.cast(iter, tl.int32)
    return iter.handle, {} if iter.dtype.is_int_signed() else {"unsigned": True}


def _is_integer_scalar(value: Any) -> bool:
    return isinstance(value, tl.tensor) and not value.type.is_block() and value.dtype.is_int() and not value.dtype.is_bool()
