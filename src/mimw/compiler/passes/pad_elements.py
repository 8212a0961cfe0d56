"""Elements of buffers that threads pick one by one, in a padded program: idle elements pick what the author's pick as well.

Input: an access of single elements of a buffer whose extents are padded. Output: the access on padded tiles. For example, of 24
elements in a tile of 32:

    local_gather %b %i          of %i with 0 in its idle elements
    local_scatter %b %x %i      of %x and %i with copies of their last elements: what is written twice is the same
"""

from __future__ import annotations

from ...ir import Op
from .pad_ends import Padding, end, refusal


def _check(padding: Padding, op: Op) -> None:
    if padding.pieces(op, op.buffer) is not None:
        raise refusal(op, "of which threads pick elements, and that TMA or the tensor cores know,",
                      "read it whole by tlx.local_load, and pick by tl.gather.")


@end("buffer_flat")
def buffer_flat(padding: Padding, op: Op) -> None:
    _check(padding, op)
    if op.buffer.type.count or len(op.buffer.type.shape) > 1:
        raise refusal(op, "whose elements pointers pick in more than one dimension,",
                      "point to all of it, or give it one dimension.")
    padding.made_of[op.result] = None
    padding.writer.env[op.result] = padding.writer.emit("buffer_flat", (padding.writer.now(op.buffer), ))


@end("local_gather")
def local_gather(padding: Padding, op: Op) -> None:
    _check(padding, op)
    padding.again(op, indices=padding.indices(op.indices))


@end("local_scatter")
def local_scatter(padding: Padding, op: Op) -> None:
    _check(padding, op)
    value, indices = padding.writer.now((op.value, op.indices))
    shape = op.indices.type.shape
    padding.again(op, value=padding.last(value, shape), indices=padding.last(indices, shape))


@end("local_masked_scatter", "local_atomic_rmw")
def masked(padding: Padding, op: Op) -> None:
    _check(padding, op)
    padding.again(op, mask=padding.both(op.mask, op.indices.type.shape))
