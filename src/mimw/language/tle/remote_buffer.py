"""A buffer of another CTA, as a value that kernels name and hand on: `tle.remote` makes one of a buffer.

Input: a buffer and a rank, an i32 scalar. Output: a value of two handles, the buffer's and the rank's, that `local_ptr`
takes:

    there = remote_buffer(row, rank)        there.shape == row.shape; str(there) == f"remote {row}"
    there.slot(i)                           the remote buffer of row.slot(i), with the same rank

The file exists because a kernel may carry a remote buffer through loops, helpers and tasks before any element is read.
"""

from __future__ import annotations

import triton.language.core as tl

from ..composite import CompositeType
from ..core import HandleType
from ..tlx import types as tlx


class remote_buffer(tl.base_value):
    """A buffer as it lies in the CTA with rank `rank`: `local_ptr` takes it. `.shape` and `.dtype` are the buffer's."""

    def __init__(self, buffer: tlx.buffered_tensor, rank: tl.tensor) -> None:
        super().__init__()
        self.buffer, self.rank = buffer, rank
        self.shape, self.dtype = buffer.shape, buffer.dtype

    @property
    def type(self) -> remote_buffer_type:
        return remote_buffer_type(self.buffer.type)

    def slot(self, stage, _semantic=None) -> remote_buffer:
        """The remote buffer without its leading dimension, at index `stage` of it."""
        return remote_buffer(self.buffer.slot(stage, _semantic=_semantic), self.rank)

    def _flatten_ir(self, handles: list) -> None:
        self.buffer._flatten_ir(handles)
        self.rank._flatten_ir(handles)

    def _set_name(self, builder, name: str) -> None:
        """The buffer keeps the name that it has."""

    def __str__(self) -> str:
        return f"remote {self.buffer}"


class remote_buffer_type(CompositeType):
    """The type of a `remote_buffer`: its buffer's, and a rank."""

    def __init__(self, buffer: HandleType) -> None:
        self.buffer = buffer

    @property
    def parts(self) -> tuple[tl.base_type, ...]:
        return self.buffer, tl.int32

    def of(self, values: list) -> remote_buffer:
        return remote_buffer(*values)

    def mangle(self) -> str:
        return f"remote_{self.buffer.mangle()}"

    def __str__(self) -> str:
        return f"remote {self.buffer}"
