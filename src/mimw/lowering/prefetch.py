"""Cache hints: lines at pointers, tiles of a descriptor, descriptors (PTX ISA, prefetch, cp.async.bulk.prefetch)."""

from __future__ import annotations

from itertools import product

from ..ir import I32, Op, Tensor
from ..ir.layouts import NvmmaShared
from ..ir.types import Descriptor
from .asm import flag, ptx, registers_of, thread_in_task
from .descriptor_address import HINTED, Inputs, eviction, point_at
from .descriptors import box
from .emitter import Emitter, emits


@emits("prefetch")
def prefetch(emitter: Emitter, op: Op):
    """Each thread prefetches what its elements point at; of a single pointer only the first thread."""
    pointer, mask, level = op.args
    address = emitter.operand(op, pointer)
    if not isinstance(pointer.type, Tensor):
        operands = [address, thread_in_task(emitter)] + ([flag(emitter, emitter.values[mask])] if mask else [])
        also = "setp.ne.and.s32 on, $2, 0, on;\n" if mask else ""
        ptx(emitter, f"{{\n.reg .pred on;\nsetp.eq.s32 on, $1, 0;\n{also}@on prefetch.global.{level} [$0];\n}}",
            ["l"] + ["r"] * (len(operands) - 1), operands)
        return
    held = registers_of(emitter, address)
    if mask is None:
        ptx(emitter, "\n".join(f"prefetch.global.{level} [${i}];" for i in range(held)), ["l"] * held, [address])
        return
    wanted = emitter.operand(op, mask)
    numbers = emitter.types.tensor(Tensor(I32, mask.type.shape), emitter.layouts.wanted(op, 1))
    lines = [f"setp.ne.s32 on, ${held + i}, 0;\n@on prefetch.global.{level} [${i}];" for i in range(held)]
    ptx(emitter, "\n".join(["{", ".reg .pred on;", *lines, "}"]), ["l"] * held + ["r"] * held,
        [address, emitter.builder.create_int_cast(wanted, numbers, False)])


@emits("prefetch_descriptor")
def prefetch_descriptor(emitter: Emitter, op: Op):
    inputs = Inputs()
    thread = inputs.add(thread_in_task(emitter))
    pointing = point_at(emitter, op.args[0], "at", inputs)
    if pointing is not None:
        lines = ["{", ".reg .pred on;", ".reg .b64 at;", *pointing, f"setp.eq.s32 on, {thread}, 0;",
                 "@on prefetch.tensormap [at];", "}"]
        ptx(emitter, "\n".join(lines), inputs.kinds, inputs.values)


@emits("tma_prefetch")
def tma_prefetch(emitter: Emitter, op: Op):
    """One instruction a box: a block wider than the swizzle is several boxes to TMA."""
    descriptor, offsets, when, policy = op.args
    inputs = Inputs()
    for value in (thread_in_task(emitter), *(emitter.values[offset] for offset in offsets)):
        inputs.add(value)
    pointing = point_at(emitter, descriptor, "at", inputs)
    if pointing is None:
        return
    lines = ["{", ".reg .pred on, leader;", ".reg .b64 at, policy;", f".reg .b32 c<{len(offsets)}>;", *pointing,
             "elect.sync _|leader, 0xffffffff;", "setp.lt.and.s32 on, $0, 32, leader;"]
    if when is not None:
        lines.append(f"setp.ne.and.s32 on, {inputs.add(flag(emitter, emitter.values[when]))}, 0, on;")
    hint = ""
    if eviction(policy) in HINTED:
        lines.append(f"createpolicy.fractional.L2::{eviction(policy)}.b64 policy, 1.0;")
        hint = ".L2::cache_hint"
    for corner in _corners(descriptor.type, emitter.layouts.descriptors[descriptor]):
        lines += [f"add.s32 c{dim}, ${1 + dim}, {step};" for dim, step in enumerate(corner)]
        place = ", ".join(f"c{dim}" for dim in reversed(range(len(offsets))))
        lines.append(f"@on cp.async.bulk.prefetch.tensor.{len(offsets)}d.L2.global.tile{hint} [at, {{{place}}}]"
                     + (", policy;" if hint else ";"))
    ptx(emitter, "\n".join([*lines, "}"]), inputs.kinds, inputs.values)


def _corners(type_: Descriptor, layout: NvmmaShared):
    """Where each box of a block begins, by dimension."""
    return product(*(range(0, extent, step) for extent, step in zip(type_.shape, box(type_, layout))))
