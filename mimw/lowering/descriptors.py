"""Descriptors made in device memory, in memory of their own or in slots.

Triton's builder makes a descriptor only in scratch of its own. For one in a slot, a marker on the base pointer names the slot;
`triton_port.descriptor_slots` puts it in place of the scratch once Triton has written out the making.
"""

from __future__ import annotations

from ..ir import Op
from ..triton_port.builder import mlir
from ..triton_port.descriptor_slots import MAKE, SLOT_BYTES, SLOTS, VIEW
from .emitter import Emitter, emits


@emits("make_tensor_descriptor")
def make_tensor_descriptor(emitter: Emitter, op: Op):
    base, shape, strides, _, _, padding = op.args
    return _made(emitter, op, emitter.values[base], shape, strides, padding)


def _made(emitter: Emitter, op: Op, base, shape, strides, padding):
    return emitter.builder.create_make_tensor_descriptor(
        emitter.mlir_type(op.result), base, [emitter.values[extent] for extent in shape],
        [emitter.values[stride] for stride in strides], padding)


def _marked(emitter: Emitter, marker: str, values: list, type_):
    constraints = ",".join(["=l", *("l" for _ in values)])
    return emitter.builder.create_threadwise_inline_asm(marker, constraints, values, [type_], True).get_result(0)


@emits("descriptor_slots")
def descriptor_slots(emitter: Emitter, op: Op):
    return _marked(emitter, f"{SLOTS} {op.args[0] * SLOT_BYTES}", [], emitter.mlir_type(op.result))


@emits("descriptor_slot")
def descriptor_slot(emitter: Emitter, op: Op):
    slots, index = emitter.operands(op)
    builder = emitter.builder
    return builder.create_addptr(slots, builder.create_mul(index, builder.get_int32(SLOT_BYTES)))


@emits("fill_descriptor_slot")
def fill_descriptor_slot(emitter: Emitter, op: Op):
    slot, base, shape, strides, padding = op.args
    address = emitter.values[base]
    if slot is not None:
        address = _marked(emitter, MAKE, [address, emitter.values[slot]], address.get_type())
    return _made(emitter, op, address, shape, strides, padding)


@emits("view_descriptor_slot")
def view_descriptor_slot(emitter: Emitter, op: Op):
    """A making whose scratch becomes the slot and whose writes are taken out again."""
    builder, type_ = emitter.builder, op.result.type
    slot = emitter.values[op.args[0]]
    pointer = builder.get_ptr_ty(emitter.types.element(type_.element), "global")
    address = _marked(emitter, VIEW, [builder.create_bitcast(slot, pointer), slot], pointer)
    one, wide = builder.get_int32(1), builder.get_int64(1)
    return builder.create_make_tensor_descriptor(emitter.mlir_type(op.result), address, [one] * len(type_.shape),
                                                 [wide] * len(type_.shape), mlir.PADDING_OPTION.PAD_ZERO)
