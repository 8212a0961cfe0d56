"""Task regions: `ttg.warp_specialize` with the default task in place and the others as partitions.

A partition is isolated: what it reads from outside comes in through explicit captures. Constants are made again inside
instead, so that Triton sees them as constants.

Input: a `warp_specialize` op, one block for each task. Output: Triton's op, each worker task a partition that takes the captures:

    warp_specialize {tasks: default, mma}        ttg.warp_specialize(%buffer, %full) default {...} partition0(%b, %f) {...}
"""

from __future__ import annotations

from ....ir import Block, Op, Value
from ..emitter import Emitter, emits
from ..hopper.descriptor_address import address_types
from .control import results_of


def captured(blocks: tuple[Block, ...]) -> list[Value]:
    """Values used in the blocks but defined outside all of them, in order of first use."""
    inside, used = set(), {}

    def visit(block: Block) -> None:
        inside.update(block.args)
        for op in block.ops:
            used.update(dict.fromkeys(op.operands))
            inside.update(op.results)
            for child in op.blocks:
                visit(child)

    for block in blocks:
        visit(block)
    return [value for value in used if value not in inside]


@emits("warp_specialize")
def warp_specialize(emitter: Emitter, op: Op):
    builder = emitter.builder
    tasks = op.attrs["tasks"]
    default, *workers = op.blocks
    outside = captured(tuple(workers))
    constants = [value for value in outside if value in emitter.constants]
    captures = [value for value in outside if value not in emitter.constants and not emitter.is_token(value)]

    types = [emitter.mlir_type(result) for result in op.results] + address_types(emitter, op.results)
    created = builder.create_warp_specialize(types, [task.num_warps for task in tasks[1:]])
    builder.create_block_with_parent(created.get_default_region(), [])
    own, *requests = op.attrs.get("registers", [task.registers for task in tasks])
    if own is not None:
        # Triton has left the default task more than it asked for. PTX ISA, setmaxnreg: by all warps of a warpgroup.
        builder.create_threadwise_inline_asm(f"setmaxnreg.dec.sync.aligned.u32 {own};", "", [], [], False)
    given: list = []
    emitter.region(default, given.extend)
    emitter.carry(default.yielded, op.results)
    builder.create_warp_yield(given)
    if all(request is not None for request in requests):
        created.set_requested_registers(requests)

    outer, outer_addresses, outer_warps = dict(emitter.values), dict(emitter.addresses), emitter.num_warps
    addressed = [value for value in captures if value in emitter.addresses]
    arguments = [emitter.values[value] for value in captures] + [emitter.addresses[value] for value in addressed]
    builder.create_block_with_parent(created.get_partition_op_holder(), [])
    partitions = builder.create_warp_specialize_partitions(arguments, len(workers))
    for index, block in enumerate(workers):
        mlir_block = builder.create_block_with_parent(partitions.get_region(index),
                                                      [argument.get_type() for argument in arguments])
        emitter.values = dict(outer)
        for position, value in enumerate(captures):
            emitter.values[value] = mlir_block.get_argument(position)
        emitter.addresses = {value: mlir_block.get_argument(position)
                             for position, value in enumerate(addressed, start=len(captures))}
        builder.set_insertion_point_to_start(mlir_block)
        for value in constants:
            emitter.op(emitter.constants[value])
        emitter.num_warps, emitter.partition = tasks[index + 1].num_warps, index
        emitter.frame(mlir_block, block)
        builder.create_warp_return()
    emitter.values, emitter.addresses, emitter.num_warps = outer, outer_addresses, outer_warps
    emitter.partition = None
    builder.set_insertion_point_after(created.get_operation())
    return results_of(emitter, op.results, [created.get_result(index) for index in range(len(types))])
