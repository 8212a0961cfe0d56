"""One of several memory descriptors, by a number that may be known only at run time.

Input: a number, and a function that makes the descriptor of each. Output: the descriptor of that number. An example:

    chosen(emitter, op.index, 2, window)        scf.if (index < 1) { window(0) } else { window(1) }
"""

from __future__ import annotations

from collections.abc import Callable

from ...ir import Value
from .emitter import Emitter


def chosen(emitter: Emitter, number: Value, count: int, make: Callable[[int], object]):
    """`make(number)`: at once where the number is a constant, else through a chain of branches that each make one descriptor.

    The branches hold nothing but views, so LLVM turns them into selects of an address.
    """
    constant = emitter.constants.get(number)
    if constant is not None or count == 1:
        return make(int(constant.value) if constant is not None else 0)
    return chosen_by(emitter, emitter.of(number), list(range(count)), make)


def chosen_by(emitter: Emitter, number, choices: list[int], make: Callable[[int], object]):
    """`make(choice)` of the one of `choices`, ascending, that the MLIR value `number` is."""
    if len(choices) == 1:
        return make(choices[0])
    builder, middle = emitter.builder, len(choices) // 2
    point = builder.get_insertion_point()
    condition = builder.create_icmpSLT(number, builder.get_int32(choices[middle]))
    point, branches = builder.get_insertion_point(), []
    for half in (choices[:middle], choices[middle:]):
        block = builder.create_block()
        builder.set_insertion_point_to_start(block)
        branches.append((block, chosen_by(emitter, number, half, make)))
    builder.restore_insertion_point(point)
    created = builder.create_if_op([branches[0][1].get_type()], condition, True)
    for (block, value), place in zip(branches, (created.get_then_block(), created.get_else_block()), strict=True):
        block.merge_block_before(place)
        builder.set_insertion_point_to_end(place)
        builder.create_yield_op([value])
    builder.restore_insertion_point(point)
    return created.get_result(0)
