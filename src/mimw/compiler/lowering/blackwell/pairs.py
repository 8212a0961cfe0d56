"""Joint operations of a pair of CTAs, where each CTA is a program of its own: PTX, as Triton has it only for programs of two
CTAs.

Input: a `tcgen05_mma_pair`, `tcgen05_commit_pair`, `tma_load_pair` or `tma_load_pair_multicast`. Output: assembly:

    tcgen05_mma_pair %a %b %acc ..       @leader tcgen05.mma.cta_group::2.kind::f16 [acc], a, b, ..;  once for 32 bytes of K
    tcgen05_commit_pair %done ..         @leader tcgen05.commit.cta_group::2...multicast::cluster.b64 [done], mask;
    tma_load_pair .. %full %tile         @on cp.async.bulk.tensor.2d.cta_group::2... [tile], .., [full of the even CTA];

PTX ISA, tcgen05.commit: it tracks what the executing thread has issued, so products and commits elect in the same way: the lane
that `elect.sync` names in the first warp of the task. Triton puts neither sync nor proxy fence before assembly: the sync stands
here, and the fence where one is needed (`passes/fence_pairs.py`). No `tcgen05.fence` stands here, for the reasons in `mma.py`.
"""

from __future__ import annotations

from collections.abc import Callable

from ....ir import Op, Value
from ....ir.types import I32
from ..asm import own_address, ptx, sync, thread_in_task, zero_or_one
from ..emitter import Emitter, emits
from ..hopper.boxes import boxes, coordinates
from ..hopper.descriptor_address import HINTED, Inputs, eviction, point_at
from ..hopper.multicast import mask_of
from .matrices import Operand, instruction, kind, operand

_TENSOR_STEP = 8        # columns of tensor memory that hold 32 bytes of K


@emits("tcgen05_mma_pair")
def tcgen05_mma_pair(emitter: Emitter, op: Op):
    a_type, b_type, acc = op.attrs.get("exact") or (op.a.type, op.b.type, op.acc.type)
    (rows, columns), b = acc.shape, b_type.element
    a = b if acc.element == I32 else a_type.element      # where bytes lie as 8-bit floats, `passes/tile_bytes.py`

    def instructions(left: bool, right: bool, steps: int) -> list[str]:
        return [str(instruction(a, b, left, right, 2 * rows, columns))] * steps

    multiply(emitter, op, Inputs(), kind(a), instructions, shapes=(a_type.shape, b_type.shape))


def multiply(emitter: Emitter, op: Op, inputs: Inputs, kind: str, instructions: Callable[[bool, bool, int], list[str]],
             group: int = 2, shapes: tuple[tuple[int, int], tuple[int, int]] | None = None) -> None:
    """A product, one instruction for 32 bytes of K.

    args:      inputs        operands of the assembly that `instructions` names
               instructions  of each step along K what stands between the descriptors of shared memory and the predicate: the
                             descriptor of the instruction, and scales. Given whether A and B are contiguous along K, and how
                             many steps there are
               group         how many CTAs work on it
               shapes        extents of A and B, if they are others than those of their buffers
    """
    thread = inputs.add(thread_in_task(emitter))
    on = "1" if op.predicate is None else inputs.add(zero_or_one(emitter, emitter.of(op.predicate)))
    acc, b = inputs.add(emitter.of(op.acc)), inputs.add(emitter.of(op.b))
    left_shape, right_shape = shapes or (op.a.type.shape, op.b.type.shape)
    right = _operand(emitter, op.b, right_shape, 0)
    a, left = inputs.add(emitter.of(op.a)), None if op.a.type.space == "tmem" else _operand(emitter, op.a, left_shape, 1)
    adds = op.use_acc
    if not isinstance(adds, bool):
        adds = inputs.add(zero_or_one(emitter, emitter.of(adds)))
    lines = [".reg .pred on, leader, adds;", ".reg .b32 lane, low, a, b;", ".reg .b64 left, right;",
             *elect(thread, on), f"bfe.u32 b, {b}, 4, 14;",
             *([] if left is None else [f"bfe.u32 a, {a}, 4, 14;"])]
    described = instructions(left is None or left.k_major, right.k_major, len(right.steps))
    for step, (place, told) in enumerate(zip(right.steps, described)):
        lines += _descriptor("right", "b", right.high, place)
        if left is None:
            lines += [f"add.u32 low, {a}, {step * _TENSOR_STEP};"]
        else:
            lines += _descriptor("left", "a", left.high, left.steps[step])
        if step == 0:
            lines.append(f"setp.ne.s32 adds, {int(adds) if isinstance(adds, bool) else adds}, 0;")
        elif step == 1:
            lines.append("setp.eq.s32 adds, 0, 0;")
        lines.append(f"@leader tcgen05.mma.cta_group::{group}.kind::{kind} [{acc}], "
                     f"{'[low]' if left is None else 'left'}, right, {told}, adds;")
    by_one(emitter, op, lines, inputs)


def by_one(emitter: Emitter, op: Op, lines: list[str], inputs: Inputs) -> None:
    """Assembly that ends for all but the elected thread, behind the earlier work of the task."""
    if op.attrs.get("fences"):      # by each thread for its own writes, before all have come
        emitter.builder.create_fence_async_shared(False)
    sync(emitter)
    ptx(emitter, "{\n" + "\n".join([*lines, "over:"]) + "\n}", inputs.kinds, inputs.values)


def elect(thread: str, on: str) -> list[str]:
    """Lines that leave but the lane `leader` of the task's first warp, if `on` is not 0."""
    return [f"setp.lt.u32 on, {thread}, 32;", f"setp.ne.and.s32 on, {on}, 0, on;", "@!on bra over;",
            "elect.sync lane|leader, 0xffffffff;"]


def _operand(emitter: Emitter, value: Value, shape: tuple[int, int], k_axis: int) -> Operand:
    placed = emitter.placed[value]
    return operand(placed.layout, shape, placed.allocated[-2:], value.type.element, k_axis)


def _descriptor(name: str, address: str, high: int, step: int) -> list[str]:
    """Lines that make the descriptor of one step along K."""
    return [f"add.u32 low, {address}, {step};", f"mov.b64 {name}, {{low, {high:#x}}};"]


_COMMIT = """{{
.reg .pred on, leader;
.reg .b32 lane;
.reg .b16 mask;
setp.lt.u32 on, $0, 32;
{when}
@!on bra over;
cvt.u16.u32 mask, $2;
elect.sync lane|leader, 0xffffffff;
@leader tcgen05.commit.cta_group::2.mbarrier::arrive::one.shared::cluster.multicast::cluster.b64 [$1], mask;
over:
}}"""


@emits("tcgen05_commit_pair")
def tcgen05_commit_pair(emitter: Emitter, op: Op):
    operands = [thread_in_task(emitter), own_address(emitter, emitter.of(op.barrier)), mask_of(emitter, op.targets)]
    when = ""
    if op.predicate is not None:
        operands.append(zero_or_one(emitter, emitter.of(op.predicate)))
        when = "setp.ne.and.s32 on, $3, 0, on;"
    ptx(emitter, _COMMIT.format(when=when), ["r"] * len(operands), operands)


@emits("tma_load_pair", "tma_load_pair_multicast")
def tma_load_pair(emitter: Emitter, op: Op):
    """The sync keeps the copy behind the task's earlier accesses of the buffer. PTX ISA, cp.async.bulk.tensor: with .cta_group::2
    and .multicast::cluster the bytes of each target count there or in the other CTA of its pair: in the one whose rank is even, as
    that of the barrier's CTA is."""
    inputs = Inputs()
    thread = inputs.add(thread_in_task(emitter))
    to, barrier = inputs.add(own_address(emitter, emitter.of(op.buffer))), inputs.add(emitter.of(op.barrier))
    leader, offsets = inputs.add(emitter.of(op.leader)), [inputs.add(offset) for offset in emitter.of(op.offsets)]
    prepared = point_at(emitter, op.descriptor, "map", inputs)
    targets = op.targets if "targets" in op.row.places else ()
    if targets:
        prepared += [".reg .b16 mask;", f"cvt.u16.u32 mask, {inputs.add(mask_of(emitter, targets))};"]
    if op.predicate is not None:
        prepared.append(f"setp.ne.and.s32 on, {inputs.add(zero_or_one(emitter, emitter.of(op.predicate)))}, 0, on;")
    type_, policy = op.descriptor.type, eviction(op.cache_policy)
    rank, hinted = len(type_.shape), policy in HINTED
    lines = [".reg .pred on;", ".reg .b64 map, hint;", f".reg .b32 to, bar, {', '.join(f'c{dim}' for dim in range(rank))};",
             f"setp.eq.s32 on, {thread}, 0;", *prepared, f"mapa.shared::cluster.u32 bar, {barrier}, {leader};"]
    if hinted:
        lines.append(f"createpolicy.fractional.L2::{policy}.b64 hint, 1.0;")
    copy = (f"@on cp.async.bulk.tensor.{rank}d.cta_group::2.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
            f"{'.multicast::cluster' if targets else ''}{'.L2::cache_hint' if hinted else ''} "
            f"[to], [map, {{{', '.join(f'c{dim}' for dim in reversed(range(rank)))}}}], "
            f"[bar]{', mask' if targets else ''}{', hint' if hinted else ''};")
    layout = emitter.layouts.descriptors[op.descriptor]
    for place, start in boxes(type_, layout, emitter.placed[op.buffer].allocated):
        lines += [f"add.u32 to, {to}, {place};", *coordinates(layout, offsets, start), copy]
    sync(emitter)
    ptx(emitter, "{\n" + "\n".join(lines) + "\n}", inputs.kinds, inputs.values)
