"""Tile arithmetic: Triton's ops, replayed by name."""

from __future__ import annotations

from ..ir import OPS, Tensor, Type, Value
from ..triton_port.builder import mlir
from .emitter import Emitter, emits
from .pins import anchored

_BY_HAND = {"if", "for", "while", "yield", "condition", "reduce", "scan", "map_elementwise", "constant", "broadcast", "splat",
            "histogram", "descriptor_load", "descriptor_store", "descriptor_reduce", "descriptor_gather",
            "descriptor_scatter", "make_tensor_descriptor", "extern_elementwise", "inline_asm", "hint"}


def _argument(emitter: Emitter, op, arg, operands):
    if isinstance(arg, Value):
        return next(operands)
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
    args = [_argument(emitter, op, arg, operands) for arg in op.args]
    returned = getattr(emitter.builder, f"create_{op.name}")(*args)
    if hasattr(returned, "get_num_results"):
        returned = [returned.get_result(i) for i in range(returned.get_num_results())]
    results = list(returned) if isinstance(returned, (list, tuple)) else [returned] if op.results else []
    if OPS[op.name].layout == "inferred":
        results = [_normalised(emitter, value, mlir_value) for value, mlir_value in zip(op.results, results)]
    return results


def _normalised(emitter: Emitter, value: Value, mlir_value):
    """A result whose layout Triton derived, in the layout that the solver chose for it."""
    if not isinstance(value.type, Tensor):
        return mlir_value
    type_ = emitter.mlir_type(value)
    return emitter.builder.create_convert_layout(type_, mlir_value)


emits(*(name for name, row in OPS.items() if not row.ours and name not in _BY_HAND))(replay)


@emits("constant")
def constant(emitter: Emitter, op):
    value, type_ = op.args
    scalar = scalar_constant(emitter.builder, value, type_.element if isinstance(type_, Tensor) else type_)
    if isinstance(type_, Tensor):
        filled = emitter.builder.create_splat(emitter.mlir_type(op.result), scalar)
        return anchored(emitter, filled, type_, emitter.layouts.registers[op.result]) if op.attrs.get("layout") else filled
    emitter.constants[op.result] = op
    return scalar


def scalar_constant(builder, value, type_):
    """An MLIR constant of a scalar type."""
    bits = {"i8": 8, "i16": 16, "i32": 32, "i64": 64}.get(type_.name)
    if type_.name == "i1":
        return builder.get_int1(bool(value))
    if bits:
        wrapped = (int(value) + (1 << bits - 1)) % (1 << bits) - (1 << bits - 1)
        return getattr(builder, f"get_int{bits}")(wrapped)
    if type_.name in ("fp16", "bf16", "fp32", "fp64"):
        return getattr(builder, f"get_{type_.name}")(float(value))
    if value == 0:
        return builder.get_null_value(getattr(builder, f"get_{type_.name}_ty")())
    raise ValueError(f"no constant {value} of type {type_}")


@emits("splat")
def splat(emitter: Emitter, op):
    (scalar, ) = emitter.operands(op)
    return emitter.builder.create_splat(emitter.mlir_type(op.result), scalar)


@emits("broadcast")
def broadcast(emitter: Emitter, op):
    (value, ) = emitter.operands(op)
    return emitter.builder.create_broadcast(value, emitter.mlir_type(op.result))


@emits("histogram")
def histogram(emitter: Emitter, op):
    value, *mask = emitter.operands(op)
    layout = emitter.types.attribute(emitter.layouts.registers[op.result])
    return emitter.builder.create_histogram(value, op.args[1], mask[0] if mask else None, layout)


@emits("hint")
def hint(emitter: Emitter, op):
    value, attribute, numbers = op.args
    mlir_value = emitter.values[value]
    mlir_value.set_attr(attribute, mlir.make_attr(list(numbers), mlir_value.get_context()))


@emits("extern_elementwise")
def extern_elementwise(emitter: Emitter, op):
    library, path, symbol, _, _, is_pure = op.args
    return emitter.builder.create_extern_elementwise(library, path, symbol, emitter.operands(op),
                                                     emitter.mlir_type(op.result), is_pure)


@emits("inline_asm")
def inline_asm(emitter: Emitter, op):
    assembly, constraints, _, _, is_pure, pack = op.args
    types = [emitter.mlir_type(result) for result in op.results]
    created = emitter.builder.create_inline_asm(assembly, constraints, emitter.operands(op), types, is_pure, pack)
    return [created.get_result(i) for i in range(len(types))]
