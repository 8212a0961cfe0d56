"""TMA copies of single rows, where the chip has none of four rows at a time: each row goes to its place of the tile.

Input: an op with a tile of row numbers, one a lane or some. Output: PTX, one instruction for each row and swizzle width:

    tma_gather %map %rows %column %full %tile
        shfl.sync.idx.b32 row5, $4, 5, 31, 0xffffffff;
        @on cp.async.bulk.tensor.2d.shared::cluster.global.tile... [to], [map, {column, row5}], [$3];

The descriptor's box is one row as wide as the swizzle. A row of the tile begins at a multiple of the swizzle width, and the swizzle
goes by the address, so a row lies there as if the tile had been copied as a block. TMA begins at multiples of 128 bytes of shared
memory (PTX ISA, cp.async.bulk.tensor), where rows of a narrower swizzle do not: `narrow_rows` gives these a line of their own.

One lane of each warp copies the rows of all its lanes. TMA takes uniform registers: were each lane to copy its own row, ptxas would
make a loop over the lanes, some 40 cycles a row, and here it is 6 instructions. Warps to spare share out the boxes of the rows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ....ir import Op, Value
from ..asm import own_address, ptx, registers_of, sync, thread_in_task, zero_or_one
from ..emitter import Emitter
from .descriptor_address import Inputs, point_at

LINE = 128    # bytes of shared memory of which TMA begins at a multiple


@dataclass(frozen=True)
class Rows:
    """A tile of picked rows: how many `rows` it has, of `width` bytes each; a box has `swizzle` bytes of a row. Rows lie `pitch`
    bytes apart, the boxes of one row `apart` bytes."""

    rows: int
    width: int
    swizzle: int
    pitch: int
    apart: int
    element_bytes: int

    @property
    def is_narrow(self) -> bool:
        """True if not every row begins where TMA can."""
        return self.swizzle < LINE

    @property
    def columns(self) -> int:
        """The columns of a box."""
        return self.swizzle // self.element_bytes

    @property
    def boxes(self) -> int:
        """The boxes of a row."""
        return self.width // self.swizzle

    @property
    def warps(self) -> int:
        """The number of warps that hold the rows once."""
        return max(1, self.rows // 32)

    def sharers(self, num_warps: int) -> int:
        """The number of warps, of `num_warps`, that have the same rows and divide their boxes among themselves."""
        return min(max(1, num_warps // self.warps), self.boxes)


def rows_of(emitter: Emitter, op: Op, allocated: tuple[int, ...] = ()) -> Rows:
    """The rows that `op` copies from or to a tile; `allocated` is the shape of the buffer behind the tile."""
    (count, ), type_ = op.rows.type.shape, op.descriptor.type
    size, swizzle, lines = type_.element.bytes, emitter.layouts.descriptors[op.descriptor].swizzle, 1
    for extent in allocated[:-1] or (count, ):
        lines *= extent
    return Rows(count, type_.shape[-1] * size, swizzle, swizzle, lines * swizzle, size)


def start_gather(emitter: Emitter, op: Op, rows, tile, shape: Rows, barrier, predicate: Value | None) -> None:
    """Copies that complete on the barrier. The sync keeps them behind the task's earlier accesses of the tile."""
    inputs, lines = _begin(emitter, op, tile, shape, predicate)
    done = inputs.add(own_address(emitter, barrier))
    sync(emitter)
    _copy(emitter, inputs, lines, rows, shape, lambda row: (
        "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
        f"[place], [map, {{column, {row}}}], [{done}];"))


def start_scatter(emitter: Emitter, op: Op, rows, tile, shape: Rows) -> None:
    """Copies in one group of each thread, mostly an empty one, as Triton's own stores are: the wait counts groups in each thread.
    The sync brings the tile's last writes, which the author has fenced, before the copies."""
    inputs, lines = _begin(emitter, op, tile, shape, None)
    sync(emitter)
    _copy(emitter, inputs, lines, rows, shape, lambda row: (
        f"cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [map, {{column, {row}}}], [place];"),
        "cp.async.bulk.commit_group;")


def _begin(emitter: Emitter, op: Op, tile, shape: Rows, predicate: Value | None) -> tuple[Inputs, list[str]]:
    """The start of the assembly: the map, a predicate that is true in the lane that copies, and place and column of the
    warp's first box."""
    inputs, sharers = Inputs(), shape.sharers(emitter.num_warps)
    thread, start = inputs.add(thread_in_task(emitter)), inputs.add(own_address(emitter, tile))
    column = emitter.builder.create_int_cast(emitter.of(op.column), emitter.builder.get_int32_ty(), True)
    pointing = point_at(emitter, op.descriptor, "map", inputs)
    # The shuffle shows ptxas that a warp has one number.
    lines = [".reg .pred on;", ".reg .b64 map;", ".reg .b32 warp, part, home, place, column;", *pointing,
             f"shr.u32 warp, {thread}, 5;", "shfl.sync.idx.b32 warp, warp, 0, 31, 0xffffffff;",
             f"and.b32 part, warp, {shape.warps - 1};", f"mad.lo.u32 home, part, {32 * shape.pitch}, {start};",
             f"shr.u32 part, warp, {shape.warps.bit_length() - 1};", f"mad.lo.u32 home, part, {shape.apart}, home;",
             f"mad.lo.s32 column, part, {shape.columns}, {inputs.add(column)};"]
    if emitter.num_warps > shape.warps * sharers:
        lines += [f"setp.ge.u32 on, warp, {shape.warps * sharers};", "@on bra DONE;"]
    if predicate is not None:
        lines += [f"setp.eq.s32 on, {inputs.add(zero_or_one(emitter, emitter.of(predicate)))}, 0;", "@on bra DONE;"]
    return inputs, [*lines, "elect.sync _|on, 0xffffffff;"]


def _copy(emitter: Emitter, inputs: Inputs, lines: list[str], rows, shape: Rows, copy: Callable[[str], str], *after: str) -> None:
    """`copy` for each row that a warp holds, by the name of the register with the row's number, and each box of the warp's."""
    sharers, lanes = shape.sharers(emitter.num_warps), min(32, shape.rows)
    held = row_registers(inputs, rows, registers_of(emitter, rows))
    lines.append(f".reg .b32 {', '.join(f'row{lane}' for lane in range(lanes))};")
    rounds = shape.boxes // sharers
    if rounds > 1:
        lines += [".reg .pred more;", ".reg .b32 round;", "mov.b32 round, 0;", "BOX:"]
    for index, register in enumerate(held):
        lines += [f"shfl.sync.idx.b32 row{lane}, {register}, {lane}, 31, 0xffffffff;" for lane in range(lanes)]
        for lane in range(lanes):
            lines += [f"add.u32 place, home, {(index * emitter.threads + lane) * shape.pitch};", f"@on {copy(f'row{lane}')}"]
    if rounds > 1:
        lines += [f"add.u32 home, home, {sharers * shape.apart};", f"add.s32 column, column, {sharers * shape.columns};",
                  "add.u32 round, round, 1;", f"setp.lt.u32 more, round, {rounds};", "@more bra BOX;"]
    if "@on bra DONE;" in lines:
        lines.append("DONE:")
    ptx(emitter, "\n".join(["{", *lines, *after, "}"]), inputs.kinds, inputs.values)


def row_registers(inputs: Inputs, rows, held: int) -> list[str]:
    """The names in the assembly of the `held` registers of a tile, which is its last operand."""
    first = int(inputs.add(rows)[1:])
    inputs.kinds += ["r"] * (held - 1)
    return [f"${first + index}" for index in range(held)]
