"""Control flow and the ops with combining regions.

Tokens have no MLIR value, so they drop out of carried values. A descriptor whose address is needed has two: itself, and the address
behind all the values that are carried.

Input: an op with blocks. Output: the same op of the dialect `scf`, or of Triton's, around what the blocks become:

    %end = for %start %stop %step (%acc)        %end = scf.for ... iter_args(%arg = %acc)
"""

from __future__ import annotations

from ....ir.flow import bounds
from ...triton_port.differences import held
from ..emitter import Emitter, emits
from ..hopper.descriptor_address import came_along, going_along


@emits("if")
def if_(emitter: Emitter, op):
    """The branches first: the type of a carried buffer view is that of the value that the branch yields."""
    builder = emitter.builder
    condition = emitter.of(op.condition)
    point, branches = builder.get_insertion_point(), []
    for block in op.blocks:
        mlir_block, yielded = builder.create_block(), []
        builder.set_insertion_point_to_start(mlir_block)
        emitter.region(block, yielded.extend)
        branches.append((mlir_block, yielded))
        emitter.carry(block.yielded, op.results)
    builder.restore_insertion_point(point)
    emitter.locate(op)
    created = builder.create_if_op([value.get_type() for value in branches[0][1]], condition, True)
    for (mlir_block, yielded), place in zip(branches, (created.get_then_block(), created.get_else_block())):
        mlir_block.merge_block_before(place)
        builder.set_insertion_point_to_end(place)
        if yielded:
            builder.create_yield_op(yielded)
    builder.restore_insertion_point(point)
    return results_of(emitter, op.results, [created.get_result(i) for i in range(created.get_num_results())])


def results_of(emitter: Emitter, values, mlir_values: list) -> list:
    """The MLIR values of the op's results, without the addresses behind them."""
    kept = sum(not emitter.is_token(value) for value in values)
    came_along(emitter, values, mlir_values[kept:])
    return mlir_values[:kept]


def _into(emitter: Emitter, mlir_block, block, carried) -> None:
    """Map a block's arguments, and the addresses behind them, to an MLIR block's; `carried` are those that were handed on."""
    emitter.into(mlir_block, block)
    kept = sum(not emitter.is_token(argument) for argument in block.args)
    came_along(emitter, carried, [mlir_block.get_argument(i) for i in range(kept, mlir_block.get_num_arguments())])


_AUTHORS = ("dsa", "ahead", "alone", "later", "at_once")     # what is known of a loop, and no attribute of Triton's
_ATTRIBUTES = {"llvm.loop_annotation": lambda builder, value: builder.get_disable_loop_licm_attr()}


def _set_attributes(emitter: Emitter, op, created) -> None:
    for name, value in op.attrs.items():
        if name in _AUTHORS:
            continue
        builder = emitter.builder
        if name in _ATTRIBUTES:
            attribute = _ATTRIBUTES[name](builder, value)
        elif value is True:
            attribute = builder.get_unit_attr()
        else:
            attribute = builder.get_int32_attr(value)
        created.set_attr(name, attribute)


@emits("for")
def for_(emitter: Emitter, op):
    builder = emitter.builder
    start, end, step = map(emitter.of, bounds(op))
    inits = emitter.operands(op, "inits") + going_along(emitter, op.inits)
    created = builder.create_for_op(start, end, step, inits)
    _set_attributes(emitter, op, created)
    point = builder.get_insertion_point()
    (block, ) = op.blocks
    emitter.carry(op.inits, block.args[1:])
    emitter.carry(op.inits, op.results)
    _into(emitter, created.get_body(0), block, block.args[1:])
    emitter.region(block, lambda values: builder.create_yield_op(values) if values else None)
    emitter.carry(block.yielded, op.results)
    builder.restore_insertion_point(point)
    return results_of(emitter, op.results, [created.get_result(i) for i in range(len(inits))])


@emits("while")
def while_(emitter: Emitter, op):
    builder = emitter.builder
    inits = _held(emitter, emitter.operands(op, "inits")) + going_along(emitter, op.inits)
    types = [init.get_type() for init in inits]
    created = builder.create_while_op(types, inits)
    _set_attributes(emitter, op, created)
    point = builder.get_insertion_point()
    before, after = op.blocks
    for carried in (before.args, after.args, op.results):
        emitter.carry(op.inits, carried)
    _into(emitter, builder.create_block_with_parent(created.get_before(), types), before, before.args)
    _hold_arguments(emitter, before)
    emitter.block(before)
    _into(emitter, builder.create_block_with_parent(created.get_after(), types), after, after.args)
    _hold_arguments(emitter, after)
    emitter.region(after, lambda values: builder.create_yield_op(_held(emitter, values)))
    emitter.carry(after.yielded, before.args)
    builder.restore_insertion_point(point)
    return results_of(emitter, op.results, _held(emitter, [created.get_result(i) for i in range(len(types))]))


def _held(emitter: Emitter, values: list) -> list:
    """The values that a `while` carries, on their way in or out."""
    return [held(emitter.builder, value) for value in values]


def _hold_arguments(emitter: Emitter, block) -> None:
    for value in block.args:
        if not emitter.is_token(value):
            emitter.values[value] = held(emitter.builder, emitter.values[value])


@emits("condition")
def condition(emitter: Emitter, op):
    values = _held(emitter, emitter.operands(op, "values")) + going_along(emitter, op.values)
    emitter.builder.create_condition_op(emitter.of(op.condition), values)


@emits("yield")
def yield_(emitter: Emitter, op):
    emitter.yield_to[-1](emitter.operands(op, "values") + going_along(emitter, op.values))


def _combining(emitter: Emitter, op, created, yield_to):
    builder = emitter.builder
    point = builder.get_insertion_point()
    (block, ) = op.blocks
    types = [emitter.types.element(arg.type) for arg in block.args]
    emitter.into(builder.create_block_with_parent(created.get_region(0), types), block)
    emitter.region(block, yield_to)
    builder.restore_insertion_point(point)
    return [created.get_result(i) for i in range(len(op.results))]


@emits("reduce")
def reduce(emitter: Emitter, op):
    created = emitter.builder.create_reduce(emitter.operands(op, "values"), op.axis)
    return _combining(emitter, op, created, lambda values: emitter.builder.create_reduce_ret(*values))


@emits("scan")
def scan(emitter: Emitter, op):
    created = emitter.builder.create_scan(emitter.operands(op, "values"), op.axis, op.reverse)
    return _combining(emitter, op, created, lambda values: emitter.builder.create_scan_ret(*values))


@emits("map_elementwise")
def map_elementwise(emitter: Emitter, op):
    types = [emitter.mlir_type(result) for result in op.results]
    created = emitter.builder.create_map_elementwise(emitter.operands(op, "values"), types, op.pack)
    return _combining(emitter, op, created, emitter.builder.create_map_elementwise_ret)
