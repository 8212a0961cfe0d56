"""Where memory is, and the buffers in it: what the words of `tle.gpu` take and give."""

from __future__ import annotations

from dataclasses import replace

import triton.language.core as tl

from ....ir import Buffer
from ...core import HandleType, host_constructible, unwrap, word
from ...tlx import types as tlx
from ...tlx.arguments import is_int
from ...tlx.layouts import row_major


@host_constructible
class scope:
    """A kind of on-chip memory; the two there are, `tle.gpu.smem` and `tle.gpu.tmem`, are made here."""

    def __init__(self, name: str, storage: tlx.storage_kind):
        self.name, self.storage = name, storage

    def __repr__(self) -> str:
        return f"tle.gpu.scope({self.name})"


smem = scope("share_memory", tlx.storage_kind.smem)
tmem = scope("tensor_memory", tlx.storage_kind.tmem)


@host_constructible
class storage_kind:
    """`tle.gpu.storage_kind.smem` and `.tmem`: other names of `tle.gpu.smem` and `tle.gpu.tmem`."""

    smem = smem
    tmem = tmem


def _padded(extent: int) -> int:
    return 1 << (extent - 1).bit_length()


def backing(element, shape: tuple[int, ...]) -> Buffer:
    """The buffer that holds a logical array: its extents rounded up to powers of two.

    From rank 3 on it is an array of as many buffers as the first extent says, which need not be a power of two, so that each
    of them is a whole tile for TMA and the tensor cores. So is an array of rank 2 whose first extent is no power of two.
    """
    if len(shape) > 2 or len(shape) == 2 and _padded(shape[0]) != shape[0]:
        return Buffer(element, tuple(map(_padded, shape[1:])), shape[0])
    return Buffer(element, tuple(map(_padded, shape)) or (1, ))


class buffered_tensor_type(tlx.buffered_tensor_type):
    """An array of `shape` in shared memory, held in `stored`. `num` is the first extent where TLX words see an array, else 0."""

    def __init__(self, element_ty, shape, layout=None, stored: Buffer | None = None):
        shape = tuple(unwrap(shape))
        self.stored = stored or backing(None, shape)
        super().__init__(element_ty, shape, self.stored.count, tlx.storage_kind.smem, layout, row_major(len(shape)))

    def to_ir(self, builder) -> Buffer:
        element = tl.int8 if self.element_ty == tl.int1 else self.element_ty
        return replace(self.stored, element=element.to_ir(builder))

    def value(self, handle) -> buffered_tensor:
        return buffered_tensor(handle, self)

    def slot(self) -> buffered_tensor_type:
        """The type of one step along the leading dimension."""
        stored = self.stored.single() if self.num else Buffer(None, self.stored.shape[1:] or (1, ))
        return buffered_tensor_type(self.element_ty, self.shape[1:], stored=stored)

    def with_(self, shape=None, num=None, layout=None, order=None) -> HandleType:
        """As TLX words ask for it: one buffer of the array, or a view that is TLX's own."""
        if num == 0 and self.num and shape is None:
            return self.slot()
        return super().with_(shape, num, layout, order)

    def mangle(self) -> str:
        return f"tle_{super().mangle()}_in_{'_'.join(map(str, self.stored.shape))}"

    def __str__(self) -> str:
        return f"buffered_tensor<{self.element_ty}{list(self.shape)}>"


class buffered_tensor(tlx.buffered_tensor):
    """An array in shared memory: `.shape`, `.dtype`, and `.type` with `.storage`, `.layout`, `.shape`, `.element_ty`."""

    def __init__(self, handle, type_: buffered_tensor_type):
        super().__init__(handle, type_.element_ty, type_.shape, type_.num, type_.storage, type_.layout)
        self.type = type_

    @word
    def slot(self, stage, _semantic=None):
        """The array without its leading dimension, at index `stage` of it; a view, not a copy.

        args:      stage - an int or an i32 scalar; out of range is undefined
        errors:    ValueError for a rank below 2, or another `stage`
        lowers to: ttg.memdesc_index
        """
        shape = self.shape
        if len(shape) < 2:
            raise ValueError(f"buffered_tensor.slot: the buffer needs at least 2 dimensions, it has the shape {list(shape)}")
        if is_int(stage):
            stage = _semantic.to_tensor(stage)
        if not isinstance(stage, tl.tensor) or stage.type.is_block() or stage.dtype != tl.int32:
            raise ValueError(f"buffered_tensor.slot: `stage` must be an int or a scalar int32, got {stage}")
        type_ = self.type.slot()
        return type_.value(_semantic.builder.record("buffer_index", self.handle, stage.handle).results[0])
