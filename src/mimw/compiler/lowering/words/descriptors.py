"""Descriptors made in device memory: in a workspace that Triton finds, or in slots of the author's.

What a tensor map holds, in which codes: PTX ISA, tensormap.replace. The box and the codes below are those
that Triton gives `tt.make_tensor_descriptor`.

Input: an op that makes a descriptor, or names one. Output: Triton's op, or a stand-in for one that its builder has no method for
(`triton_port.descriptor_slots`):

    %slots = descriptor_slots 2        ttg.inline_asm "mimw.slots 256"
"""

from __future__ import annotations

from ....ir import Descriptor, Op
from ...triton_port.builder import mlir
from ...triton_port.descriptor_slots import ACQUIRE, SLOT_BYTES, fill_marker, mark_view, slots_marker
from ..emitter import Emitter, emits
from ..hopper.boxes import box, counted
from ..hopper.descriptor_address import named_in_memory

_ELEMENTS = {"i8": 0, "fp8e5": 0, "fp8e4nv": 0, "i16": 1, "i32": 2, "i64": 4, "fp16": 6, "fp32": 7, "fp64": 9, "bf16": 10}
_PADDED_FP4 = 14        # .b4x16_p64


@emits("make_tensor_descriptor")
def make_tensor_descriptor(emitter: Emitter, op: Op):
    if op.result in named_in_memory(emitter.program):
        return _fill(emitter, op, _new_slots(emitter, 1))
    return emitter.builder.create_make_tensor_descriptor(
        emitter.mlir_type(op.result), emitter.of(op.base), emitter.of(op.shape), emitter.of(op.strides), op.padding)


@emits("descriptor_slots")
def descriptor_slots(emitter: Emitter, op: Op):
    return _new_slots(emitter, op.count)


def _new_slots(emitter: Emitter, count: int):
    return emitter.builder.create_threadwise_inline_asm(slots_marker(count), "=l", [], [emitter.types.slots()],
                                                        True).get_result(0)


@emits("descriptor_slot")
def descriptor_slot(emitter: Emitter, op: Op):
    builder = emitter.builder
    return builder.create_addptr(emitter.of(op.slots), builder.create_mul(emitter.of(op.index), builder.get_int32(SLOT_BYTES)))


@emits("fill_descriptor_slot")
def fill_descriptor_slot(emitter: Emitter, op: Op):
    if op.slot is not None:
        return _fill(emitter, op, emitter.of(op.slot))
    return make_tensor_descriptor(emitter, op)


def _fill(emitter: Emitter, op: Op, slot):
    """Write the descriptor of `op` into a slot; the view of it."""
    builder = emitter.builder
    extents, steps = emitter.of(op.shape), emitter.of(op.strides)
    type_, layout = op.result.type, emitter.layouts.descriptors[op.result]
    element_bytes = builder.get_int64(type_.element.bytes)
    one, inner = builder.get_int32(1), counted(layout)
    *outer, width = box(type_, layout)
    last = extents[-1] if inner == 1 else builder.create_mul(extents[-1], builder.get_int32(inner))
    sizes = [builder.get_int32(extent) for extent in (inner * width, *reversed(outer))]
    operands = [slot, emitter.of(op.base), *sizes, last, *reversed(extents[:-1]),
                *(builder.create_mul(step, element_bytes) for step in reversed(steps[:-1])), *(one for _ in extents)]
    code = _PADDED_FP4 if layout.fp4_padded else _element_code(type_)
    marker = fill_marker(len(extents), code, op.padding == mlir.PADDING_OPTION.PAD_NAN, (0, 32, 64, 128).index(layout.swizzle))
    builder.create_threadwise_inline_asm(marker, ",".join("l" for _ in operands), operands, [], False)
    return _view(emitter, op, slot)


@emits("view_descriptor_slot")
def view_descriptor_slot(emitter: Emitter, op: Op):
    # PTX ISA, membar.proxy / fence.proxy: another thread's writes to a tensor map are seen by TMA only after this acquire.
    slot = emitter.of(op.slot)
    emitter.builder.create_threadwise_inline_asm(ACQUIRE, "l", [slot], [], False)
    return _view(emitter, op, slot)


def _view(emitter: Emitter, op: Op, slot):
    builder, type_ = emitter.builder, op.result.type
    emitter.addresses[op.result] = slot
    pointer = builder.get_ptr_ty(emitter.types.element(type_.element), "global")
    one, wide = builder.get_int32(1), builder.get_int64(1)
    view = builder.create_make_tensor_descriptor(
        emitter.mlir_type(op.result), builder.create_bitcast(slot, pointer), [one] * len(type_.shape),
        [wide] * len(type_.shape), mlir.PADDING_OPTION.PAD_ZERO)
    mark_view(builder, view)
    return view


def _element_code(type_: Descriptor) -> int:
    code = _ELEMENTS[type_.element.name]
    return code + 1 if type_.element.name in ("i32", "i64") and type_.signed else code
