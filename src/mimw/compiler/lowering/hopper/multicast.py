"""TMA loads into several CTAs of the cluster.

Triton's op takes the targets from a layout over several CTAs of one program, so this one is PTX.
Input: a `tma_load_multicast`. Output: one instruction for each box of the block (`boxes.py`):

    tma_load_multicast %map (%row, %column) %full %tile (%first, %second)        @on cp.async.bulk.tensor.2d...multicast::cluster
"""

from __future__ import annotations

from ....ir import Op
from ..asm import ptx, sync, thread_in_task, zero_or_one
from ..emitter import Emitter, emits
from .boxes import boxes, coordinates
from .descriptor_address import HINTED, Inputs, eviction, point_at


@emits("tma_load_multicast")
def tma_load_multicast(emitter: Emitter, op: Op):
    """The sync keeps the copy behind the task's earlier accesses of the buffer."""
    inputs = Inputs()
    for value in (thread_in_task(emitter), emitter.of(op.buffer), emitter.of(op.barrier), mask_of(emitter, op.targets),
                  *emitter.of(op.offsets)):
        inputs.add(value)
    prepared = point_at(emitter, op.descriptor, "map", inputs)
    if op.predicate is not None:
        prepared.append(f"setp.ne.and.s32 on, {inputs.add(zero_or_one(emitter, emitter.of(op.predicate)))}, 0, on;")
    sync(emitter)
    ptx(emitter, _assembly(emitter, op, prepared), inputs.kinds, inputs.values)


def mask_of(emitter: Emitter, targets):
    """One bit a target."""
    builder = emitter.builder
    bits = [builder.create_shl(builder.get_int32(1), rank) for rank in emitter.of(targets)]
    mask = bits[0]
    for bit in bits[1:]:
        mask = builder.create_or(mask, bit)
    return mask


def _assembly(emitter: Emitter, op: Op, prepared: list[str]) -> str:
    type_, policy = op.descriptor.type, eviction(op.cache_policy)
    rank, hinted = len(type_.shape), policy in HINTED
    lines = [".reg .pred on;", ".reg .b64 map, hint;", ".reg .b16 mask;",
             f".reg .b32 to, {', '.join(f'c{dim}' for dim in range(rank))};",
             "setp.eq.s32 on, $0, 0;", *prepared, "cvt.u16.u32 mask, $3;"]
    if hinted:
        lines.append(f"createpolicy.fractional.L2::{policy}.b64 hint, 1.0;")
    copy = (f"@on cp.async.bulk.tensor.{rank}d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster"
            f"{'.L2::cache_hint' if hinted else ''} [to], [map, {{{', '.join(f'c{dim}' for dim in reversed(range(rank)))}}}], "
            f"[$2], mask{', hint' if hinted else ''};")
    layout, offsets = emitter.layouts.descriptors[op.descriptor], [f"${4 + dim}" for dim in range(rank)]
    for place, start in boxes(type_, layout, emitter.placed[op.buffer].allocated):
        lines += [f"add.u32 to, $1, {place};", *coordinates(layout, offsets, start), copy]
    return "{\n" + "\n".join(lines) + "\n}"
