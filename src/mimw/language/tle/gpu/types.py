"""Memory spaces and the buffers in them: the values that the words of `tle.gpu` take and give.

Input: an element type, extents and a layout. Output: a `buffered_tensor` over a buffer whose extents are powers of two,
but for the first of several. For example:

    backing((3, 48))                    (3, 64): the array's own extents stay in `.shape`
    row = tiles.slot(1)                 %row = buffer_index %tiles, %1 : buffer<fp16[64]>
    tle.gpu.smem                        equals tlx.storage_kind.smem
"""

from __future__ import annotations

import triton.language.core as tl

from ....ir import Buffer
from ....ir.extents import padded
from ....target import Space, Target
from ...core import HandleValue, host_constructible, unwrap, word
from ...refuse import refuse
from ...tlx import types as tlx
from ...tlx.arguments import is_int
from ...tlx.layouts import row_major


@host_constructible
class scope:
    """A kind of on-chip memory; the two there are, `tle.gpu.smem` and `tle.gpu.tmem`, are made here. Each equals what TLX calls it,
    which is what a buffer's `type.storage` holds.

    example:   tile = tle.gpu.alloc([64, 64], tl.float16, scope=tle.gpu.smem)
    """

    def __init__(self, name: str, storage: tlx.storage_kind):
        self.name, self.storage = name, storage

    def on(self, target: str | Target | None = None) -> Space | None:
        """The space of a chip, with its bytes, alignment and paths; by default of MIMW_TARGET's chip. None if it has no such
        memory; TargetError for an unknown chip."""
        return self.storage.on(target)

    def __eq__(self, other) -> bool:
        return self.storage is (other.storage if isinstance(other, scope) else other)

    def __hash__(self) -> int:
        return hash(self.storage)

    def __repr__(self) -> str:
        return f"tle.gpu.scope({self.name})"


smem = scope("share_memory", tlx.storage_kind.smem)
tmem = scope("tensor_memory", tlx.storage_kind.tmem)


@host_constructible
class storage_kind:
    """`tle.gpu.storage_kind.smem` and `.tmem`: other names of `tle.gpu.smem` and `tle.gpu.tmem`.

    example:   tile = tle.gpu.alloc([64, 64], tl.float16, scope=tle.gpu.storage_kind.smem)
    """

    smem = smem
    tmem = tmem


def backing(shape: tuple[int, ...], element_bits: int = 0) -> tuple[int, ...]:
    """The extents of the memory behind a logical array: rounded up to powers of two, but for the first of several, which may
    count slots, and for what TMA and the tensor cores know: rows of a multiple of 32 bytes, one a slot or a multiple of 8."""
    if not shape:
        return (1, )
    if len(shape) > 1 and (shape[-2] % 8 == 0 or len(shape) == 2) and shape[-1] * element_bits % 256 == 0 and element_bits:
        return shape
    return (shape[0], *padded(shape[1:])) if len(shape) > 1 else padded(shape)


class buffered_tensor_type(tlx.buffered_tensor_type):
    """An array of `shape` in shared memory, in a buffer of the extents `stored`."""

    def __init__(self, element_ty, shape, layout=None, stored: tuple[int, ...] | None = None):
        shape = tuple(unwrap(shape))
        self.stored = stored or backing(shape, element_ty.primitive_bitwidth)
        super().__init__(element_ty, shape, 0, tlx.storage_kind.smem, layout, row_major(len(shape)))

    def to_ir(self, builder) -> Buffer:
        element = tl.int8 if self.element_ty == tl.int1 else self.element_ty
        return Buffer(element.to_ir(builder), self.stored)

    def slot(self) -> buffered_tensor_type:
        """The type of one step along the leading dimension."""
        return buffered_tensor_type(self.element_ty, self.shape[1:], stored=self.stored[1:] or (1, ))

    def mangle(self) -> str:
        return f"tle_{super().mangle()}_in_{'_'.join(map(str, self.stored))}"

    def __str__(self) -> str:
        return f"buffered_tensor<{self.element_ty}{list(self.shape)}>"


class buffered_tensor(tlx.buffered_tensor, of=buffered_tensor_type):
    """An array in shared memory: `.shape`, `.dtype`, and `.type` with `.storage`, `.layout`, `.shape`, `.element_ty`.

    example:   tile = tle.gpu.alloc([64, 64], tl.float16)
               tle.gpu.local_ptr(tile, [0, 0])
    """

    def __init__(self, handle, type_: buffered_tensor_type):
        HandleValue.__init__(self, handle, type_)

    @word
    def slot(self, stage, _semantic=None):
        """The array without its leading dimension, at index `stage` of it; a view, not a copy.

        args:      stage - an int or an i32 scalar; out of range is undefined
        errors:    ValueError for a rank below 2, or another `stage`
        lowers to: ttg.memdesc_index
        """
        shape = self.shape
        if len(shape) < 2:
            refuse(ValueError, f"buffered_tensor.slot: the buffer needs at least 2 dimensions, it has the shape {list(shape)}")
        if is_int(stage):
            stage = _semantic.to_tensor(stage)
        if not isinstance(stage, tl.tensor) or stage.type.is_block() or stage.dtype != tl.int32:
            refuse(ValueError, f"buffered_tensor.slot: `stage` must be an int or a scalar int32, got {stage}")
        type_ = self.type.slot()
        return type_.value(_semantic.builder.record("buffer_index", self.handle, stage.handle).results[0])
