"""TMA copies that Triton has no op for, as PTX: one instruction for each box of a descriptor's block (`boxes`).

Input: a `tma_load`, `tma_fetch` or `tma_store` of a block whose extents are no powers of two, a load into several CTAs, or a
reduction with an eviction policy. Output: assembly:

    tma_load %map (%row, %column) %full %tile  @on cp.async.bulk.tensor.2d...mbarrier::complete_tx::bytes [to], [map, {c1, c0}], ..;
    tma_store .. evict_last add                @leader cp.reduce.async.bulk.tensor.2d...add... [map, {c1, c0}], [from], hint;

PTX ISA, "cp.async.bulk.tensor", "cp.reduce.async.bulk.tensor"; a box has 1 to 256 elements along each dimension (CUDA Driver API,
cuTensorMapEncodeTiled), powers of two or not. What lies outside of the tensor counts as bytes of a load.
"""

from __future__ import annotations

from ....ir import Op, Value
from ..asm import own_address, ptx, sync, thread_in_task, zero_or_one
from ..emitter import Emitter
from .boxes import boxes, coordinates
from .descriptor_address import HINTED, Inputs, eviction, point_at


def load(emitter: Emitter, op: Op, barrier, predicate: Value | None = None) -> None:
    """Load into this CTA."""
    load_boxes(emitter, op, own_address(emitter, emitter.of(op.buffer)), own_address(emitter, barrier), predicate)


def load_boxes(emitter: Emitter, op: Op, buffer, barrier, predicate: Value | None, mask=None) -> None:
    """Load by the task's first thread to an address, completing on a barrier; with the `mask` of several CTAs at that place in each
    of them. The sync keeps the copy behind the task's earlier accesses of the buffer."""
    inputs = Inputs()
    thread, to, full = (inputs.add(value) for value in (thread_in_task(emitter), buffer, barrier))
    targets = [] if mask is None else [".reg .b16 mask;", f"cvt.u16.u32 mask, {inputs.add(mask)};"]
    offsets = [inputs.add(offset) for offset in emitter.of(op.offsets)]
    prepared = point_at(emitter, op.descriptor, "map", inputs)
    if predicate is not None:
        prepared.append(f"setp.ne.and.s32 on, {inputs.add(zero_or_one(emitter, emitter.of(predicate)))}, 0, on;")
    copy = (f"@on cp.async.bulk.tensor.{len(offsets)}d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
            f"{'.multicast::cluster' if targets else ''}{'.L2::cache_hint' if _is_hinted(op) else ''} [to], [map, {_corner(op)}], "
            f"[{full}]{', mask' if targets else ''}{', hint' if _is_hinted(op) else ''};")
    lines = [".reg .pred on;", f"setp.eq.s32 on, {thread}, 0;", *prepared, *targets, *_copies(emitter, op, "to", to, offsets, copy)]
    _emit(emitter, op, "to", lines, inputs)


def store(emitter: Emitter, op: Op) -> None:
    """Store, or reduce, by the thread that Triton's own stores elect, so that all bulk groups of a task are one thread's; all
    threads commit, as they do there. The sync brings the buffer's last writes, which the author has fenced, before the copy."""
    inputs = Inputs()
    thread, source = inputs.add(thread_in_task(emitter)), inputs.add(own_address(emitter, emitter.of(op.buffer)))
    starts = [inputs.add(offset) for offset in emitter.of(op.offsets)]
    kind = ("cp.reduce", f".{op.reduce}") if op.reduce else ("cp", "")
    copy = (f"@leader {kind[0]}.async.bulk.tensor.{len(starts)}d.global.shared::cta{kind[1]}.tile.bulk_group"
            f"{'.L2::cache_hint' if _is_hinted(op) else ''} [map, {_corner(op)}], [from]{', hint' if _is_hinted(op) else ''};")
    lines = [".reg .pred warp, leader;", f"setp.lt.s32 warp, {thread}, 32;", "elect.sync _|leader, 0xffffffff;",
             "and.pred leader, leader, warp;", *point_at(emitter, op.descriptor, "map", inputs),
             *_copies(emitter, op, "from", source, starts, copy), "cp.async.bulk.commit_group;"]
    _emit(emitter, op, "from", lines, inputs)


def _is_hinted(op: Op) -> bool:
    return eviction(op.cache_policy) in HINTED


def _corner(op: Op) -> str:
    return "{" + ", ".join(f"c{dim}" for dim in reversed(range(len(op.offsets)))) + "}"


def _copies(emitter: Emitter, op: Op, register: str, address: str, offsets: list[str], copy: str) -> list[str]:
    """The eviction policy, if there is one, and the copies of all boxes."""
    type_, layout = op.descriptor.type, emitter.layouts.descriptors[op.descriptor]
    allocated = emitter.placed[op.buffer].allocated
    hint = [f"createpolicy.fractional.L2::{eviction(op.cache_policy)}.b64 hint, 1.0;"] if _is_hinted(op) else []
    return hint + [line for place, first in boxes(type_, layout, allocated)
                   for line in (f"add.u32 {register}, {address}, {place};", *coordinates(layout, offsets, first), copy)]


def _emit(emitter: Emitter, op: Op, register: str, lines: list[str], inputs: Inputs) -> None:
    registers = ", ".join([register, *(f"c{dim}" for dim in range(len(op.offsets)))])
    declared = [".reg .b64 map, hint;", f".reg .b32 {registers};"]
    sync(emitter)
    ptx(emitter, "{\n" + "\n".join([*declared, *lines]) + "\n}", inputs.kinds, inputs.values)
