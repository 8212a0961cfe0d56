"""TMA copies of single rows, where the chip has none of four rows at a time: a lane copies a row, each in its place of the tile.

Where a task has more threads than the tile has rows, several lanes copy the boxes of one row.

Input: an op with a tile of row numbers, one a thread or some. Output: PTX, one instruction for each row and swizzle width:

    tma_gather %map %rows %column %full %tile        @on cp.async.bulk.tensor.2d.shared::cluster... [to], [map, {c, $4}], [$3];

The descriptor's box is one row as wide as the swizzle. A row of the tile begins at a multiple of the swizzle width, and the swizzle
goes by the address, so a row lies there as if the tile had been copied as a block. TMA begins at multiples of 128 bytes of shared
memory (PTX ISA, cp.async.bulk.tensor), where rows of a narrower swizzle do not: `narrow_rows` gives these a line of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from ...errors import NotYet
from ...ir import Op, Value
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

    def sharers(self, threads: int) -> int:
        """How many threads have one and the same row, and share out its boxes."""
        return min(max(1, threads // self.rows), self.width // self.swizzle)

    def boxes(self, threads: int) -> Iterator[tuple[int, int]]:
        """(byte in the tile, first column) of each box that a thread copies, behind the first one of that thread."""
        for box in range(0, self.width // self.swizzle, self.sharers(threads)):
            yield box * self.apart, box * self.columns


def rows_of(emitter: Emitter, op: Op, allocated: tuple[int, ...] = ()) -> Rows:
    """The rows that `op` copies from or to a tile; `allocated` is the shape of what the tile is a view of."""
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
    """Copies in one group of each thread, empty or not, as Triton's own stores are: the wait counts groups in each thread. The sync
    brings the tile's last writes, which the author has fenced, before the copies."""
    inputs, lines = _begin(emitter, op, tile, shape, None)
    sync(emitter)
    _copy(emitter, inputs, lines, rows, shape, lambda row: (
        f"cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [map, {{column, {row}}}], [place];"),
        "cp.async.bulk.commit_group;")


def _begin(emitter: Emitter, op: Op, tile, shape: Rows, predicate: Value | None) -> tuple[Inputs, list[str]]:
    """What the assembly begins with: the map, the place of the thread's first row, and whether the thread has one."""
    inputs = Inputs()
    thread, start = inputs.add(thread_in_task(emitter)), inputs.add(own_address(emitter, tile))
    column = emitter.builder.create_int_cast(emitter.of(op.column), emitter.builder.get_int32_ty(), True)
    pointing = point_at(emitter, op.descriptor, "map", inputs)
    if pointing is None:
        raise NotYet(f"not yet: tlx.{op.row.word} on {emitter.target} with a descriptor that an `if` or a loop hands on", op.site,
                     hint="use the descriptor where it is made, or keep it in a slot: tlx.reinterpret_tensor_descriptor")
    lines = [".reg .pred on;", ".reg .b64 map;", ".reg .b32 home, place, first, column;", *pointing]
    sharers = shape.sharers(emitter.threads)
    if sharers == 1:
        lines += [f"mov.b32 first, {inputs.add(column)};", f"mad.lo.u32 home, {thread}, {shape.pitch}, {start};"]
    else:   # thread t has row t modulo the number of rows, a power of two
        lines += [".reg .b32 row, box;", f"and.b32 row, {thread}, {shape.rows - 1};",
                  f"shr.u32 box, {thread}, {shape.rows.bit_length() - 1};",
                  f"mad.lo.u32 home, row, {shape.pitch}, {start};", f"mad.lo.u32 home, box, {shape.apart}, home;",
                  f"mad.lo.s32 first, box, {shape.columns}, {inputs.add(column)};"]
    lines.append(f"setp.lt.u32 on, {thread}, {shape.rows * sharers};")
    if predicate is not None:
        lines.append(f"setp.ne.and.s32 on, {inputs.add(zero_or_one(emitter, emitter.of(predicate)))}, 0, on;")
    return inputs, lines


def _copy(emitter: Emitter, inputs: Inputs, lines: list[str], rows, shape: Rows, copy: Callable[[str], str], *after: str) -> None:
    """`copy` for each row of a thread, by the name of the register with the row's number, and each box of the row."""
    for index, row in enumerate(row_registers(inputs, rows, registers_of(emitter, rows))):
        for place, column in shape.boxes(emitter.threads):
            lines += [f"add.u32 place, home, {index * emitter.threads * shape.pitch + place};",
                      f"add.s32 column, first, {column};", f"@on {copy(row)}"]
    ptx(emitter, "\n".join(["{", *lines, *after, "}"]), inputs.kinds, inputs.values)


def row_registers(inputs: Inputs, rows, held: int) -> list[str]:
    """How the assembly names the `held` registers of a tile, which is its last operand."""
    first = int(inputs.add(rows)[1:])
    inputs.kinds += ["r"] * (held - 1)
    return [f"${first + index}" for index in range(held)]
