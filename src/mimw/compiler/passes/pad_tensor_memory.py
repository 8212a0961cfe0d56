"""Tensor memory with odd extents in a padded program: buffers of a power of two of columns, of which products write the author's.

Input: an op on tensor memory of the program as the author has it. Output: the op on padded buffers. For example:

    %acc = local_alloc buffer<fp32[128, 176] x 2>       %acc = local_alloc buffer<fp32[128, 256] x 2>
    tcgen05_mma %a %b %acc[0]                           the same, with the author's types in `exact`
    %x = tmem_load %acc[0] : fp32[128, 176]             fp32[128, 256]; what is idle nobody has written, and nobody looks at
"""

from __future__ import annotations

from ...ir import Buffer, Op
from ...ir.extents import is_odd
from ...ir.tensor_memory import LANES, columns_of
from .fence_products import unfenced_products
from .pad_buffers import padded_buffer
from .pad_ends import Padding, end, refusal

_STEP, _OF_PAIR = 16, 32       # columns: PTX ISA, tcgen05.mma, matrix shapes; 8 of one CTA's 64 rows, but for kind i8


def allocate(padding: Padding, op: Op) -> None:
    """The array with padded extents. Its place has room for them, unless it shares storage."""
    new, place = padded_buffer(op.type), op.attrs["place"]
    if op.type.shape[0] != LANES and padding.program.in_pairs:
        raise refusal(op, "whose rows lie in two halves, one behind the other in lanes,", f"give each CTA of a pair {LANES} rows.")
    if place.size != columns_of(Buffer(new.element, new.shape, 0, new.space)):
        raise refusal(op, "in storage that is shared,", "allocate it in tensor memory of its own.")
    padding.made_of[op.result] = None
    padding.writer.env[op.result] = padding.writer.emit("local_alloc", (new, padding.writer.now(op.reuse)), **dict(op.attrs))


def columns(padding: Padding, op: Op) -> None:
    """Columns of a buffer, as many as a power of two."""
    if is_odd(op.shape):
        raise refusal(op, "a number of columns that is no power of two,", "slice by powers of two of columns.")
    writer = padding.writer
    writer.env[op.result] = writer.emit("buffer_slice", (writer.now(op.buffer), op.offsets, op.shape))
    padding.made_of[op.result] = None


@end("tmem_load", "tmem_store")
def moved(padding: Padding, op: Op) -> None:
    if op.attrs.get("layout") is not None:
        raise refusal(op, "in a layout of the author's,", "leave the layout to the compiler.")
    padding.again(op)


@end("tcgen05_mma", "tcgen05_mma_pair")
def multiply(padding: Padding, op: Op) -> None:
    """A product of the author's columns and depth, by assembly."""
    width, few = op.acc.type.shape[1], op.acc.type.shape[0] < LANES and op.b.type.element.name != "i8"
    step = _OF_PAIR if "pairs" in op.row.traits else _STEP // 2 if few else _STEP
    if width % step:
        raise refusal(op, f"with {width} columns,", f"take a multiple of {step} columns.")
    fences = {"fences": True} if op in unfenced_products(padding.program) else {}
    padding.again(op.with_attrs(exact=(op.a.type, op.b.type, op.acc.type), **fences))
