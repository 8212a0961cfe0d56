"""Products with block scales, and copies from shared to tensor memory.

Input: a `tcgen05_mma_scaled` or `tmem_copy`. Output: Triton's product, which is waited for as others are (`mma`); Triton's copy,
of scales from a view of their packed form as the table that it is:

    tmem_copy %packed[1, 2, 32, 16] %table[128, 8]      ttng.tmem_copy (reshape, trans (0, 3, 2, 1, 4), reshape of %packed), %table
"""

from __future__ import annotations

from dataclasses import replace

from ....ir import Op
from ....ir.layouts import TensorMemory
from ....ir.tensor_memory import columns_of, holds_scales, is_repeated
from ....ir.types import I32, Scalar
from ...triton_port.builder import mlir
from ..emitter import Emitter, Placement, emits
from .descriptors import memory_type
from .mma import control, left

_FORMATS = {name: getattr(mlir.ScaleDotElemTypeTY, name.upper()) for name in ("e2m1", "e4m3", "e5m2")}
_BYTE, _E4M3 = Scalar("i8"), Scalar("fp8e4nv")
_ELEMENTS = {"e2m1": _BYTE, "e4m3": _E4M3, "e5m2": Scalar("fp8e5")}
_BLOCK = 16             # elements that have one scale of e4m3
_DTYPE_BITS = 32        # of the elements of tiles that Triton copies


@emits("tcgen05_mma_scaled")
def tcgen05_mma_scaled(emitter: Emitter, op: Op):
    scales = [_scales(emitter, op, value) for value in (op.a_scale, op.b_scale)]
    emitter.builder.create_tcgen05_mma_scaled(
        left(emitter, op, _ELEMENTS[op.a_format]), emitter.of(op.b), emitter.of(op.acc), *scales,
        _FORMATS[op.a_format], _FORMATS[op.b_format], *control(emitter, op), False, False)


def _scales(emitter: Emitter, op: Op, value):
    """The table; the type of its elements says to Triton if they are e8m0, as bytes, or e4m3."""
    k = op.a.type.shape[1] * (1 + (op.a_format == "e2m1"))
    type_, table = value.type, emitter.of(value)
    if k // type_.shape[1] != _BLOCK:
        return table
    return emitter.builder.create_memdesc_reinterpret(memory_type(emitter, _E4M3, type_.shape, emitter.placed[value]), table)


@emits("tmem_copy")
def tmem_copy(emitter: Emitter, op: Op):
    """The copy of a product's scales has the product's predicate, but always copies: where the predicate is false, no product
    reads the copy."""
    builder, target = emitter.builder, op.buffer.type
    source, into = emitter.of(op.source), emitter.of(op.buffer)
    if is_repeated(op.source.type.shape, *target.shape):
        source, into = _repeated(emitter, op, source, into)
    elif holds_scales(target):
        source = _as_table(emitter, op, source, target.shape)
    elif target.element.bits != _DTYPE_BITS:
        source, into = _as_words(emitter, op, source, into)
    builder.create_tmem_copy(source, into)


def _repeated(emitter: Emitter, op: Op, source, into):
    """32 rows for each of the four warps, into a tile of bytes: a block of 32 rows and 16 bytes fills 4 columns, as one of a table
    of 128 rows and 4 columns does, so the copy is that of a table of a quarter as many columns, over those of the tile."""
    rows, columns = op.buffer.type.shape
    shape = (rows, columns // 4)
    table = memory_type(emitter, _BYTE, shape, Placement(TensorMemory(*shape, True), shape))
    return _as_table(emitter, op, source, shape), emitter.builder.create_memdesc_reinterpret(table, into)


def _as_table(emitter: Emitter, op: Op, source, shape: tuple[int, int]):
    builder, (rows, columns) = emitter.builder, shape
    if op.source.type.element != _BYTE:
        type_ = emitter.types.view(_with_element(op.source.type, _BYTE), emitter.placed[op.source])
        source = builder.create_memdesc_reinterpret(type_, source)
    if op.source.type.shape != (rows // 128, columns // 4, 32, 4, 4):
        source = builder.create_memdesc_reshape(source, [rows // 128, columns // 4, 32, 4, 4])
    return builder.create_memdesc_reshape(builder.create_memdesc_trans(source, [0, 3, 2, 1, 4]), [rows, columns])


def _as_words(emitter: Emitter, op: Op, source, into):
    """A tile of smaller elements as words of 32 bits: the same bytes, on both sides."""
    builder, target = emitter.builder, op.buffer.type
    columns = columns_of(target)
    had = emitter.placed[op.source]
    layout = replace(had.layout, element_bits=_DTYPE_BITS)
    words = replace(op.source.type, element=I32, shape=(target.shape[0], columns))
    source = builder.create_memdesc_reinterpret(emitter.types.view(words, Placement(layout, words.shape)), source)
    place = Placement(TensorMemory(target.shape[0], columns), (target.shape[0], columns))
    return source, builder.create_memdesc_reinterpret(memory_type(emitter, I32, place.allocated, place), into)


def _with_element(type_, element):
    return replace(type_, element=element)
