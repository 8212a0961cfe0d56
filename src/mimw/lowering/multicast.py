"""TMA loads into several CTAs of the cluster.

Triton's op takes the targets from a layout over several CTAs of one program, so this one is PTX. Triton splits a
descriptor's block into boxes of at most 256 elements a dimension, and of as many consecutive bytes as the swizzle is wide, and
one instruction copies one box.
"""

from __future__ import annotations

from itertools import product
from math import prod

from ..errors import NotYet
from ..ir import Op
from .asm import flag, ptx, sync, thread_in_task
from .descriptor_address import HINTED, Inputs, eviction, point_at
from .emitter import Emitter, emits

_MOST = 256  # elements of a box in one dimension: PTX ISA, "Tensors", bounding box


@emits("tma_load_multicast")
def tma_load_multicast(emitter: Emitter, op: Op):
    """The sync keeps the copy behind the task's earlier accesses of the buffer."""
    descriptor, offsets, barrier, buffer, targets, when, policy = op.args
    inputs = Inputs()
    for value in (thread_in_task(emitter), emitter.values[buffer], emitter.values[barrier], _mask(emitter, targets),
                  *(emitter.values[offset] for offset in offsets)):
        inputs.add(value)
    prepared = point_at(emitter, descriptor, "map", inputs)
    if prepared is None:
        raise NotYet("not yet: tlx.async_descriptor_load(multicast_targets=...) with a descriptor that an `if` or a loop hands on",
                     op.site, hint="use the descriptor where it is made, or keep it in a slot: tlx.reinterpret_tensor_descriptor")
    if when is not None:
        prepared.append(f"setp.ne.and.s32 on, {inputs.add(flag(emitter, emitter.values[when]))}, 0, on;")
    sync(emitter)
    ptx(emitter, _assembly(emitter, op, prepared), inputs.kinds, inputs.values)


def _mask(emitter: Emitter, targets):
    """One bit a target."""
    builder = emitter.builder
    bits = [builder.create_shl(builder.get_int32(1), emitter.values[rank]) for rank in targets]
    mask = bits[0]
    for bit in bits[1:]:
        mask = builder.create_or(mask, bit)
    return mask


def _assembly(emitter: Emitter, op: Op, prepared: list[str]) -> str:
    descriptor, _, _, buffer, _, _, policy = op.args
    rank = len(descriptor.type.shape)
    hinted = eviction(policy) in HINTED
    lines = [".reg .pred on;", ".reg .b64 map, hint;", ".reg .b16 mask;",
             f".reg .b32 to, {', '.join(f'c{dim}' for dim in range(rank))};",
             "setp.eq.s32 on, $0, 0;", *prepared, "cvt.u16.u32 mask, $3;"]
    if hinted:
        lines.append(f"createpolicy.fractional.L2::{eviction(policy)}.b64 hint, 1.0;")
    copy = (f"@on cp.async.bulk.tensor.{rank}d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster"
            f"{'.L2::cache_hint' if hinted else ''} [to], [map, {{{', '.join(f'c{dim}' for dim in reversed(range(rank)))}}}], "
            f"[$2], mask{', hint' if hinted else ''};")
    for place, start in boxes(descriptor.type, emitter.layouts.descriptors[descriptor], emitter.placed[buffer].allocated):
        lines += [f"add.u32 to, $1, {place};", *(f"add.s32 c{dim}, ${4 + dim}, {start[dim]};" for dim in range(rank)), copy]
    return "{\n" + "\n".join(lines) + "\n}"


def boxes(type_, layout, allocated: tuple[int, ...]):
    """(byte in the buffer, first element) of each box of a block.

    args:      type_      of the descriptor
               layout     its NV-MMA layout
               allocated  shape of the tile that the buffer is a view of: whole swizzle atoms of a bigger one stand further apart
    """
    shape, size = type_.shape, type_.element.bytes
    row = layout.swizzle or shape[-1] * size
    box = (*(min(extent, _MOST) for extent in shape[:-1]), min(shape[-1], row // size, _MOST))
    rows = prod(allocated[:-1])
    for start in product(*(range(0, extent, step) for extent, step in zip(shape, box))):
        line = 0
        for dim, first in enumerate(start[:-1]):
            line = line * allocated[dim + len(allocated) - len(shape)] + first
        inner = start[-1] * size
        yield inner // row * rows * row + line * row + inner % row, start
