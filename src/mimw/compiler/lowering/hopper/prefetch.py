"""Cache hints for tiles of a descriptor, and for descriptors (PTX ISA, cp.async.bulk.prefetch.tensor, prefetch.tensormap).

Input: a `tma_prefetch` or `prefetch_descriptor`. Output: PTX, which names the descriptor by its address:

    prefetch_descriptor %map        @on prefetch.tensormap [at];
"""

from __future__ import annotations

from ....ir import Op
from ..asm import ptx, thread_in_task, zero_or_one
from ..emitter import Emitter, emits
from .boxes import coordinates, corners
from .descriptor_address import HINTED, Inputs, eviction, point_at


@emits("prefetch_descriptor")
def prefetch_descriptor(emitter: Emitter, op: Op):
    inputs = Inputs()
    thread = inputs.add(thread_in_task(emitter))
    pointing = point_at(emitter, op.descriptor, "at", inputs)
    lines = ["{", ".reg .pred on;", ".reg .b64 at;", *pointing, f"setp.eq.s32 on, {thread}, 0;",
             "@on prefetch.tensormap [at];", "}"]
    ptx(emitter, "\n".join(lines), inputs.kinds, inputs.values)


@emits("tma_prefetch")
def tma_prefetch(emitter: Emitter, op: Op):
    """One instruction a box: a block wider than the swizzle is several boxes to TMA."""
    inputs, rank, policy = Inputs(), len(op.offsets), eviction(op.cache_policy)
    for value in (thread_in_task(emitter), *emitter.of(op.offsets)):
        inputs.add(value)
    pointing = point_at(emitter, op.descriptor, "at", inputs)
    lines = ["{", ".reg .pred on, leader;", ".reg .b64 at, policy;", f".reg .b32 c<{rank}>;", *pointing,
             "elect.sync _|leader, 0xffffffff;", f"setp.lt.and.s32 on, $0, {emitter.target.warp_size}, leader;"]
    if op.predicate is not None:
        lines.append(f"setp.ne.and.s32 on, {inputs.add(zero_or_one(emitter, emitter.of(op.predicate)))}, 0, on;")
    hint = ""
    if policy in HINTED:
        lines.append(f"createpolicy.fractional.L2::{policy}.b64 policy, 1.0;")
        hint = ".L2::cache_hint"
    layout = emitter.layouts.descriptors[op.descriptor]
    for corner in corners(op.descriptor.type, layout):
        lines += coordinates(layout, [f"${1 + dim}" for dim in range(rank)], corner)
        place = ", ".join(f"c{dim}" for dim in reversed(range(rank)))
        lines.append(f"@on cp.async.bulk.prefetch.tensor.{rank}d.L2.global.tile{hint} [at, {{{place}}}]"
                     + (", policy;" if hint else ";"))
    ptx(emitter, "\n".join([*lines, "}"]), inputs.kinds, inputs.values)
