"""Tile arithmetic: Triton's ops, replayed by name.

Input: an op of Triton's. Output: what the builder's method of that name makes of the op's arguments:

    %sum = fadd %a %b        builder.create_fadd(a, b)
"""

from __future__ import annotations

from ....ir import OPS, Tensor, Type, Value
from ...triton_port.builder import mlir
from ...triton_port.enumerations import enumeration_member
from ..anchor import anchored
from ..constants import scalar_constant
from ..emitter import EMISSIONS, Emitter, emits

# The layout rules by which Triton derives the layout of the result.
_DERIVED = ("inferred", "pairs")


def _argument(emitter: Emitter, op, arg, operands, enumeration: str = ""):
    """The argument of the builder's method; of an operand that is a member of an enumeration, passes may give the name."""
    if isinstance(arg, Value):
        return next(operands)
    if enumeration and isinstance(arg, str):
        return enumeration_member(enumeration, arg)
    if isinstance(arg, Type):
        return (emitter.types.tensor(arg, emitter.layouts.registers[op.result]) if isinstance(arg, Tensor)
                else emitter.types.element(arg))
    if isinstance(arg, tuple):
        if arg and arg[0] == "cache":
            return emitter.builder.get_cache_policy(*arg[1:])
        return [_argument(emitter, op, item, operands) for item in arg]
    return arg


def replay(emitter: Emitter, op) -> list:
    """Call the builder's method of the op's name with the op's arguments."""
    operands = iter(emitter.operands(op))
    args = [_argument(emitter, op, arg, operands, operand.enumeration) for operand, arg in zip(op.row.operands, op.args)]
    returned = getattr(emitter.builder, f"create_{op.name}")(*args)
    if hasattr(returned, "get_num_results"):
        returned = [returned.get_result(i) for i in range(returned.get_num_results())]
    results = list(returned) if isinstance(returned, (list, tuple)) else [returned] if op.results else []
    if op.row.layout in _DERIVED:
        results = [_normalised(emitter, value, mlir_value) for value, mlir_value in zip(op.results, results)]
    return results


def _normalised(emitter: Emitter, value: Value, mlir_value):
    """A result whose layout Triton derived, in the layout that the solver chose for it."""
    if not isinstance(value.type, Tensor):
        return mlir_value
    type_ = emitter.mlir_type(value)
    return emitter.builder.create_convert_layout(type_, mlir_value)


@emits("constant")
def constant(emitter: Emitter, op):
    type_ = op.type
    scalar = scalar_constant(emitter.builder, op.value, type_.element if isinstance(type_, Tensor) else type_)
    if isinstance(type_, Tensor):
        filled = emitter.builder.create_splat(emitter.mlir_type(op.result), scalar)
        return anchored(emitter, filled, type_, emitter.layouts.registers[op.result]) if op.attrs.get("layout") else filled
    emitter.constants[op.result] = op
    return scalar


@emits("splat")
def splat(emitter: Emitter, op):
    return emitter.builder.create_splat(emitter.mlir_type(op.result), emitter.of(op.value))


@emits("broadcast")
def broadcast(emitter: Emitter, op):
    return emitter.builder.create_broadcast(emitter.operand(op, "value"), emitter.mlir_type(op.result))


@emits("cut")
def cut(emitter: Emitter, op):
    """The half of the tile in which the part lies, and so on. A thread has the columns of a tensor core's sums by powers of two in
    its registers, so no element changes its thread."""
    part, shape, builder = emitter.operand(op, "value"), list(op.value.type.shape), emitter.builder
    for axis, (first, extent) in enumerate(zip(op.start, op.shape)):
        order = [*(number for number in range(len(shape) + 1) if number != axis), axis]
        while shape[axis] > extent:
            shape[axis] //= 2
            halves = builder.create_reshape(part, [*shape[:axis], 2, *shape[axis:]], False)
            part = builder.create_split(builder.create_trans(halves, order))[first // shape[axis] % 2]
    return _normalised(emitter, op.result, part)


@emits("histogram")
def histogram(emitter: Emitter, op):
    value, mask = emitter.operand(op, "value"), emitter.operand(op, "mask")
    return emitter.builder.create_histogram(value, op.bins, mask, emitter.types.attribute(emitter.layouts.registers[op.result]))


@emits("hint")
def hint(emitter: Emitter, op):
    mlir_value = emitter.of(op.value)
    mlir_value.set_attr(op.attribute, mlir.make_attr(list(op.numbers), mlir_value.get_context()))


@emits("assume")
def assume(emitter: Emitter, op):
    """LLVM assumes single conditions: of a tile nothing is said."""
    if not isinstance(op.condition.type, Tensor):
        emitter.builder.create_assume(emitter.of(op.condition))


@emits("breakpoint")
def breakpoint_(emitter: Emitter, op):
    """Emit nothing: only the simulator stops there."""


@emits("extern_elementwise")
def extern_elementwise(emitter: Emitter, op):
    return emitter.builder.create_extern_elementwise(op.library, op.path, op.symbol, emitter.operands(op, "values"),
                                                     emitter.mlir_type(op.result), op.is_pure)


@emits("inline_asm")
def inline_asm(emitter: Emitter, op):
    types = [emitter.mlir_type(result) for result in op.results]
    values = emitter.operands(op, "values")
    created = emitter.builder.create_inline_asm(op.assembly, op.constraints, values, types, op.is_pure, op.pack)
    return [created.get_result(i) for i in range(len(types))]


# Every op of Triton's that is emitted nowhere by a function of its own; those of other files are registered after these.
emits(*(name for name, row in OPS.items() if not row.ours and (name, "") not in EMISSIONS))(replay)
