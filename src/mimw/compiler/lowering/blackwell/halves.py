"""Some columns of a buffer of 64 rows, in a kernel of pairs of CTAs: they lie in half the lanes, which two of four warps reach; or
a buffer whose 64 rows lie in both halves.

Input: a load or store of such a part (`Placement.half`, `doubled`). Output: Triton's ops on the same columns of all 128 lanes:

    %x = tmem_load %acc[0:64, 0:32]       ttng.tmem_load of [128, 32]; reshape [2, 64, 32], trans, split
    tmem_store %acc[0:64, 0:32], %x       join of %x and %x, trans, reshape [128, 32]; @warps 0 and 1 ttng.tmem_store

A load brings both halves, and hands one of them to all warps. A store is done by the warps that reach the half: the half
of the others may be in use by another task. Warp w reaches lanes 32 (w mod 4) to 32 (w mod 4) + 31 (PTX ISA, tcgen05.st, "Access
restrictions").
"""

from __future__ import annotations

from dataclasses import replace

from ....ir import Op, Tensor
from ....ir.layouts import Blocked
from ....ir.tensor_memory import LANES, tile_of
from ..emitter import Emitter

_THREADS_OF_A_HALF = 6      # bits of their number


def half_load(emitter: Emitter, op: Op, tile):
    """The part in registers, in the layout `tile`."""
    builder, type_ = emitter.builder, op.result.type
    rows, columns = type_.shape
    loaded = builder.create_tmem_load(_all_lanes(emitter, op), emitter.of(op.buffer))
    halves = builder.create_trans(builder.create_reshape(loaded, [2, rows, columns], False), [1, 2, 0])
    apart = Blocked((1, 1, 2), (emitter.target.warp_size, 1, 1), (emitter.num_warps, 1, 1), (2, 1, 0))
    halves = builder.create_convert_layout(emitter.types.tensor(Tensor(type_.element, (rows, columns, 2)), apart), halves)
    one = builder.create_split(halves)[emitter.placed[op.buffer].half or 0]
    return builder.create_convert_layout(emitter.types.tensor(type_, tile), one)


def half_store(emitter: Emitter, op: Op, value) -> None:
    """The tile `value` into the part, or into both halves of lanes."""
    builder, columns = emitter.builder, op.value.type.shape[1]
    twice = builder.create_trans(builder.create_join(value, value), [2, 0, 1])
    twice = builder.create_convert_layout(_all_lanes(emitter, op), builder.create_reshape(twice, [LANES, columns], False))
    if emitter.placed[op.buffer].doubled:
        builder.create_tmem_store(emitter.of(op.buffer), twice, builder.get_int1(True))
        return
    integer = builder.get_int32_ty()
    thread = builder.create_threadwise_inline_asm("mov.u32 $0, %tid.x;", "=r", [], [integer], True).get_result(0)
    half = builder.create_and(builder.create_lshr(thread, builder.get_int32(_THREADS_OF_A_HALF)), builder.get_int32(1))
    mine = builder.create_icmpEQ(half, builder.get_int32(emitter.placed[op.buffer].half))
    builder.create_tmem_store(emitter.of(op.buffer), twice, mine)


def _all_lanes(emitter: Emitter, op: Op):
    """The MLIR type of a tile of the same columns in all lanes."""
    buffer = replace(op.buffer.type, shape=(LANES, op.buffer.type.shape[1]))
    return emitter.types.tensor(Tensor(buffer.element, buffer.shape), tile_of(buffer, emitter.num_warps))
