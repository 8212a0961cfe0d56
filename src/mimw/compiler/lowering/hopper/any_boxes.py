"""TMA copies of blocks whose extents are no powers of two, which Triton's ops do not take: PTX, one instruction a box.

Input: a `tma_load` or a `tma_store` of a block such as 176 x 64. Output: an instruction for each box of the block (`boxes`):

    tma_load %map (%row, %column) %full %tile       @on cp.async.bulk.tensor.2d...mbarrier::complete_tx::bytes [to], [map, {c1,
    c0}], [$2];

PTX ISA, "cp.async.bulk.tensor"; a box has 1 to 256 elements along each dimension (CUDA Driver API, cuTensorMapEncodeTiled),
powers of two or not. What lies outside of the tensor counts as bytes of a load.
"""

from __future__ import annotations

from ....ir import Op
from ..asm import own_address, ptx, sync, thread_in_task, zero_or_one
from ..emitter import Emitter
from .boxes import boxes, coordinates
from .descriptor_address import HINTED, Inputs, eviction, point_at


def load(emitter: Emitter, op: Op) -> None:
    """Load by the task's first thread. The sync keeps the copy behind the task's earlier accesses of the buffer."""
    inputs = Inputs()
    for value in (thread_in_task(emitter), emitter.of(op.buffer), emitter.of(op.barrier), *emitter.of(op.offsets)):
        inputs.add(value)
    prepared = point_at(emitter, op.descriptor, "map", inputs)
    if op.predicate is not None:
        prepared.append(f"setp.ne.and.s32 on, {inputs.add(zero_or_one(emitter, emitter.of(op.predicate)))}, 0, on;")
    rank, hinted = len(op.descriptor.type.shape), eviction(op.cache_policy) in HINTED
    copy = (f"@on cp.async.bulk.tensor.{rank}d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
            f"{'.L2::cache_hint' if hinted else ''} [at], [map, {_corner(rank)}], [$2]{', hint' if hinted else ''};")
    copies = _copies(emitter, op, "$1", [f"${3 + dim}" for dim in range(rank)], copy)
    _emit(emitter, op, ["setp.eq.s32 on, $0, 0;", *prepared, *_hint(op), *copies], inputs)


def store(emitter: Emitter, op: Op) -> None:
    """Store by the thread that Triton's own stores elect, so that all bulk groups of a task are one thread's; all threads commit,
    as they do there. The sync brings the buffer's last writes, which the author has fenced, before the copy."""
    inputs = Inputs()
    thread, source = inputs.add(thread_in_task(emitter)), inputs.add(own_address(emitter, emitter.of(op.buffer)))
    starts = [inputs.add(offset) for offset in emitter.of(op.offsets)]
    rank, hinted = len(starts), eviction(op.cache_policy) in HINTED
    reduced = f"cp.reduce.async.bulk.tensor.{rank}d.global.shared::cta.{op.reduce}.tile.bulk_group"
    copied = f"cp.async.bulk.tensor.{rank}d.global.shared::cta.tile.bulk_group"
    copy = (f"@on {reduced if op.reduce else copied}{'.L2::cache_hint' if hinted else ''} [map, {_corner(rank)}], [at]"
            f"{', hint' if hinted else ''};")
    lines = [".reg .pred warp;", f"setp.lt.s32 warp, {thread}, 32;", "elect.sync _|on, 0xffffffff;", "and.pred on, on, warp;",
             *point_at(emitter, op.descriptor, "map", inputs), *_hint(op), *_copies(emitter, op, source, starts, copy),
             "cp.async.bulk.commit_group;"]
    _emit(emitter, op, lines, inputs)


def _hint(op: Op) -> list[str]:
    policy = eviction(op.cache_policy)
    return [f"createpolicy.fractional.L2::{policy}.b64 hint, 1.0;"] if policy in HINTED else []


def _corner(rank: int) -> str:
    return "{" + ", ".join(f"c{dim}" for dim in reversed(range(rank))) + "}"


def _copies(emitter: Emitter, op: Op, address: str, offsets: list[str], copy: str) -> list[str]:
    type_, layout = op.descriptor.type, emitter.layouts.descriptors[op.descriptor]
    return [line for place, first in boxes(type_, layout, type_.shape)
            for line in (f"add.u32 at, {address}, {place};", *coordinates(layout, offsets, first), copy)]


def _emit(emitter: Emitter, op: Op, lines: list[str], inputs: Inputs) -> None:
    registers = ", ".join(f"c{dim}" for dim in range(len(op.offsets)))
    declared = [".reg .pred on;", ".reg .b64 map, hint;", f".reg .b32 at, {registers};"]
    sync(emitter)
    ptx(emitter, "{\n" + "\n".join([*declared, *lines]) + "\n}", inputs.kinds, inputs.values)
