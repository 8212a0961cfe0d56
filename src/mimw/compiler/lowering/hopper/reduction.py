"""TMA reductions with an eviction policy: Triton's op takes no policy, so this one is PTX, one instruction a box.

Input: a `tma_store` with a reduction and a policy. Output: PTX:

    tma_store %map (%row, %column) %tile evict_last add
        @leader cp.reduce.async.bulk.tensor.2d.global.shared::cta.add... [map, {c1, c0}], [from], hint;
"""

from __future__ import annotations

from ....ir import Op
from ..asm import own_address, ptx, sync, thread_in_task
from ..emitter import Emitter
from .boxes import boxes
from .descriptor_address import Inputs, eviction, point_at


def hinted_reduction(emitter: Emitter, op: Op) -> None:
    """Reduce by the thread that Triton's own stores elect, so that all bulk groups of a task are one thread's; all threads
    commit, as they do there. The sync brings the buffer's last writes, which the author has fenced, before the copy."""
    inputs, rank = Inputs(), len(op.offsets)
    thread, source = inputs.add(thread_in_task(emitter)), inputs.add(own_address(emitter, emitter.of(op.buffer)))
    starts = [inputs.add(offset) for offset in emitter.of(op.offsets)]
    pointing = point_at(emitter, op.descriptor, "map", inputs)
    lines = [".reg .pred warp, leader;", ".reg .b64 map, hint;", f".reg .b32 from, {', '.join(f'c{dim}' for dim in range(rank))};",
             f"setp.lt.s32 warp, {thread}, 32;", "elect.sync _|leader, 0xffffffff;", "and.pred leader, leader, warp;", *pointing,
             f"createpolicy.fractional.L2::{eviction(op.cache_policy)}.b64 hint, 1.0;"]
    corner = ", ".join(f"c{dim}" for dim in reversed(range(rank)))
    for place, first in boxes(op.descriptor.type, emitter.layouts.descriptors[op.descriptor],
                              emitter.placed[op.buffer].allocated):
        lines += [f"add.u32 from, {source}, {place};", *(f"add.s32 c{dim}, {starts[dim]}, {first[dim]};" for dim in range(rank)),
                  f"@leader cp.reduce.async.bulk.tensor.{rank}d.global.shared::cta.{op.reduce}.tile.bulk_group.L2::cache_hint "
                  f"[map, {{{corner}}}], [from], hint;"]
    sync(emitter)
    ptx(emitter, "\n".join(["{", *lines, "cp.async.bulk.commit_group;", "}"]), inputs.kinds, inputs.values)
