"""Products with block scales of a pair of CTAs, and copies to the tensor memory of both: PTX, for the reasons in `pairs.py`.

Input: a `tcgen05_mma_pair_scaled` or `tmem_copy_pair`. Output: assembly:

    tcgen05_mma_pair_scaled ..      @leader tcgen05.mma.cta_group::2.kind::mxf8f6f4.block_scale.block32 [acc], a, b, .., [sa], [sb]
    tmem_copy_pair %packed %table   @leader tcgen05.cp.cta_group::2.warpx4.32x128b [table], packed;  once for 512 bytes

The copy is by the lane that issues the products and commits: what one thread issues of copies and products is in order (PTX
ISA, tcgen05 Memory Consistency Model, pipelined instructions). Addresses are the same in both CTAs, of which each reads and
writes its own.
"""

from __future__ import annotations

from collections.abc import Iterator

from ....ir import Op
from ....ir.tensor_memory import holds_scales, is_repeated
from ..asm import thread_in_task, zero_or_one
from ..emitter import Emitter, emits
from ..hopper.descriptor_address import Inputs
from .matrices import operand, packed_scales, scaled_instructions, scaled_kind
from .pairs import by_one, elect, multiply

_TILE_STEP = 8          # columns of tensor memory that one copy of a tile fills, 32 bytes a row


@emits("tcgen05_mma_pair_scaled")
def tcgen05_mma_pair_scaled(emitter: Emitter, op: Op):
    (rows, columns), tables = op.acc.type.shape, (op.a_scale, op.b_scale)
    block = op.a.type.shape[1] * (1 + (op.a_format == "e2m1")) // op.a_scale.type.shape[1]
    inputs = Inputs()
    table_a, table_b = (inputs.add(emitter.of(table)) for table in tables)

    def instructions(left: bool, right: bool, steps: int) -> list[str]:
        told = scaled_instructions(op.a_format, op.b_format, block, left, right, 2 * rows, columns,
                                   tuple(table.type.shape[0] for table in tables), steps)
        return [f"{one.instruction}, [{table_a} + {one.a_scale}], [{table_b} + {one.b_scale}]" for one in told]

    multiply(emitter, op, inputs, scaled_kind(op.a_format, op.b_format, block), instructions)


@emits("tmem_copy_pair")
def tmem_copy_pair(emitter: Emitter, op: Op):
    inputs = Inputs()
    thread, on = inputs.add(thread_in_task(emitter)), inputs.add(zero_or_one(emitter, emitter.of(op.predicate)))
    source, into = inputs.add(emitter.of(op.source)), inputs.add(emitter.of(op.buffer))
    shape = "warpx4.32x128b" if holds_scales(op.buffer.type) or _is_repeated(op) else "128x256b"
    lines = [".reg .pred on, leader;", ".reg .b32 lane, low, from;", ".reg .b64 tile;", *elect(thread, on),
             f"bfe.u32 from, {source}, 4, 14;"]
    for high, start, column in _copies(emitter, op):
        lines += [f"add.u32 low, from, {start};", f"mov.b64 tile, {{low, {high:#x}}};",
                  f"@leader tcgen05.cp.cta_group::2.{shape} [{into} + {column}], tile;"]
    by_one(emitter, op, lines, inputs)


def _is_repeated(op: Op) -> bool:
    """True for a copy of 32 rows to those of each warp."""
    return is_repeated(op.source.type.shape, *op.buffer.type.shape)


def _copies(emitter: Emitter, op: Op) -> Iterator[tuple[int, int, int]]:
    """Yield copies like `packed_scales`; a tile is read like an operand that is contiguous along K."""
    rows, columns = op.buffer.type.shape
    if holds_scales(op.buffer.type) or _is_repeated(op):
        yield from packed_scales(rows, columns // 4 if _is_repeated(op) else columns)   # as `scaled._repeated`
        return
    placed = emitter.placed[op.source]
    tile = operand(placed.layout, op.source.type.shape, placed.allocated[-2:], op.source.type.element, 1)
    for number, start in enumerate(tile.steps):
        yield tile.high, start, number * _TILE_STEP
