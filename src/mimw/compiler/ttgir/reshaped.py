"""Views of shared memory of another shape, also of a buffer that is turned, whose elements then follow each other in no order.

Input: `ttg.memdesc_reshape`, the buffer that it is of and how that was turned and cut before. Output: ours. For example:

    %2 = ttg.memdesc_reshape %1 : 1x2x1x2x256 -> 2x1x32x4x4                     buffer_reinterpret %1
    %4 = ttg.memdesc_reshape %3 : 2x4x32x1x4 -> 256x4, %3 = %2 turned           none: %4 is %3, whose rows are taken in their order

The last is how a table of scales is read out of its packed form. A view of ours has one stride for each dimension, which such a
table has not. So %4 is %3 here, and the few ops that take it (`any_order`) put its elements into the shape that it should have.
"""

from __future__ import annotations

import numpy as np

from ...ir import Buffer, Op, Value
from .cta_ops import split_of
from .reading import Here, reads


@reads("ttg.memdesc_reshape", any_order=True)
def reshaped(here: Here):
    if here.reader.rank_bits and split_of(here, here.operand_texts[0]).flat() != split_of(here, here.result_texts[0]).flat():
        raise here.unreadable("a buffer of another shape, of which CTAs have other parts, is not read")
    (number, ), (source, ), (type_, ) = here.node.operands, here.operands, here.types
    before, shape = _places(here, number), type_.shape
    if before.shape == shape or np.may_share_memory(before.reshape(-1), before):
        return here.op("buffer_reinterpret", source, type_)
    here.stands_for(source)
    here.reader.turned.add(here.node.results[0][0])


def side_by_side(here: Here, source: Value, type_: Buffer) -> list[Op]:
    """Tensor memory that is seen as more rows than it has: blocks of its rows, of which each takes columns of its own."""
    rows, (whole, columns) = source.type.shape[0], type_.shape
    wide, apart = (here.value(Buffer(type_.element, shape, 0, "tmem"))
                   for shape in ((rows, whole // rows * columns), (rows, whole // rows, columns)))
    blocks = here.value(Buffer(type_.element, (whole // rows, rows, columns), 0, "tmem"))
    here.stands_for(blocks)
    here.reader.turned.add(here.node.results[0][0])
    return [here.op("buffer_reinterpret", source, wide.type, results=(wide, )),
            here.op("buffer_reinterpret", wide, apart.type, results=(apart, )),
            here.op("buffer_trans", apart, (1, 0, 2), results=(blocks, ))]


def is_turned(here: Here, operand: int) -> bool:
    """True for a buffer of which the value of ours has another shape."""
    return here.node.operands[operand] in here.reader.turned


def _places(here: Here, number: int) -> np.ndarray:
    """An array whose strides are those that a buffer has, of its shape before it got another one without moving."""
    made = here.reader.made_by.get(number)
    if made is not None and made.name == "ttg.memdesc_trans":
        return _places(here, made.operands[0]).transpose(Here(here.reader, made).integers("order"))
    if made is not None and made.name == "ttg.memdesc_subslice":
        value = here.reader.values[number]
        starts = Here(here.reader, made).listed()
        return _places(here, made.operands[0])[tuple(slice(start, start + size) for start, size in zip(starts, value.type.shape))]
    if number in here.reader.turned:
        return _places(here, made.operands[0])
    return np.empty(here.reader.values[number].type.shape, np.int8)
