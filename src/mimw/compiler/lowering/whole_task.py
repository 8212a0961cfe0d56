"""Answers of single threads as one answer of their task.

Input: an i32 of 0 or 1 in each thread of a task. Output: an i1 that is the same in all of them:

    in_all_threads(emitter, seen)        tt.reduce with the lesser of two, and a comparison with 0
"""

from __future__ import annotations

from .emitter import Emitter


def in_all_threads(emitter: Emitter, seen):
    """True if `seen`, a tile with an element for each thread, is 1 in all of them."""
    builder, i32 = emitter.builder, emitter.builder.get_int32_ty()
    every = builder.create_reduce([seen], 0)
    point = builder.get_insertion_point()
    block = builder.create_block_with_parent(every.get_region(0), [i32, i32])
    builder.set_insertion_point_to_end(block)
    builder.create_reduce_ret(builder.create_minsi(block.get_argument(0), block.get_argument(1)))
    builder.restore_insertion_point(point)
    return builder.create_icmpNE(every.get_result(0), builder.get_int32(0))
