"""One of several descriptors, chosen when the kernel runs: that of another GPU's array.

Input: a tuple of descriptors of one type, and a number. Output: a descriptor. For example, with one descriptor a GPU, of two:

    chosen(descriptors, rank, semantic)     %d = if %rank == 0 then yield %descriptors_0 else yield %descriptors_1

The descriptors are parameters of the kernel, so what is chosen is one address or another.
"""

from __future__ import annotations

import triton.language.core as tl


def chosen(values: tuple, number, semantic):
    """Number `number` of `values`, which have one type; the last one for any number that there is not."""
    if isinstance(number, int):
        return values[number]
    return _from(values, 0, number, semantic)


def _from(values: tuple, first: int, number: tl.tensor, semantic):
    """Choose like `chosen`, among the values from `first` on."""
    value, builder = values[first], semantic.builder
    if first == len(values) - 1:
        return value
    is_it = semantic.equal(number, semantic.to_tensor(first))
    types: list = []
    value.type._flatten_ir_types(builder, types)
    op = builder.create_if_op(types, is_it.handle, True)
    for block, rest in ((op.get_then_block(), None), (op.get_else_block(), first + 1)):
        builder.set_insertion_point_to_start(block)
        handles: list = []
        (value if rest is None else _from(values, rest, number, semantic))._flatten_ir(handles)
        builder.create_yield_op(handles)
    builder.set_insertion_point_after(op)
    return value.type._unflatten_ir([op.get_result(index) for index in range(len(types))], 0)[0]
