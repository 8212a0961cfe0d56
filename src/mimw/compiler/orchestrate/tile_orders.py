"""The order in which programs take the tiles of a grid in turn: as the grid starts its programs, y first, in bands, or backwards.

    Order(band=8).number((3, 9, 0), (32, 16))                   the tile of column 3 and row 9 is taken as number 281
    column, row = place_in_bands(b, tile, bands(b, 8, x, y))    the ops that turn the number back

Input: a plain program, and what a plan says. Output: numbers, and the ops of a kernel that compute them.

Tiles lie in rows: those of a grid's x behind each other, and where a kernel asks for its number along x alone and takes it apart
itself, `pid // n` and `pid % n`, those of one quotient. Started in that order, as many programs as there are multiprocessors have a
few rows of all columns: of a product all of one operand, which L2 may not hold. In bands of 8 rows they have 8 rows of a part of
the columns. Where tiles differ in length, as those of causal attention, whose last rows have most keys, the last ones come first,
and programs take them there and back: who has the shortest tile of a round has the longest one of the next. Programs of a grid are
not ordered, so any order of tiles is right (persist.py).
"""

from __future__ import annotations

from dataclasses import dataclass

from ...ir import Builder, Op, Program, Value
from ..analysis.flows import Flows

BAND = 8        # rows: the usual number of kernels that order their tiles themselves


@dataclass(frozen=True)
class Order:
    """x first; y first if `across`; or, with `band`, so many rows by turns, column after column. Rows behind the last whole band
    come as x first has them. With `last_first` all of this from the last tile on, and in every second round of programs the
    last program first."""

    across: bool = False
    band: int = 0
    last_first: bool = False

    def number(self, place: tuple[int, int, int], grid: tuple[int, ...], columns: int | None = None) -> int:
        """The number under which a program takes a tile of the plain grid, if each has one. `columns` are the tiles of a row that
        the kernel makes of x (`row_of_tiles`), None if it does not."""
        x, y, z = (*grid, 1, 1)[:3]
        number = self._forwards(place, x, y, columns)
        return x * y * z - 1 - number if self.last_first else number

    def _forwards(self, place: tuple[int, int, int], x: int, y: int, columns: int | None) -> int:
        i, j, k = place
        if columns is not None:
            return self._in_rows(i % columns, i // columns, columns, x // columns)
        layer = x * y * k
        return layer + j + y * i if self.across else layer + self._in_rows(i, j, x, y)

    def corners(self, grid: tuple[int, ...], columns: int | None = None) -> tuple[tuple[int, int, int], ...]:
        """The tiles of the plain grid at the ends of bands, for a proof: the last row of the first one and the first row of the
        second, in its first and last column, and the first one behind all bands. () without bands."""
        x, y, _ = (*grid, 1, 1)[:3]
        width, rows = (x, y) if columns is None else (columns, x // columns)
        whole = rows // self.band * self.band if self.band else 0
        found = [(i, j) for i in (0, 1, width - 1) for j in (self.band - 1, self.band, whole) if whole and i < width and j < rows]
        return tuple(dict.fromkeys((i, j, 0) if columns is None else (j * columns + i, 0, 0) for i, j in found))

    def _in_rows(self, column: int, row: int, columns: int, rows: int) -> int:
        if not self.band or row >= rows // self.band * self.band:
            return column + columns * row
        return row // self.band * (self.band * columns) + column * self.band + row % self.band


XFIRST = Order()


def row_of_tiles(program: Program) -> Value | None:
    """The number of tiles in a row by which a kernel takes its number along x apart, into one quotient and one remainder; None for
    kernels that ask for other axes, use the number otherwise, or take these apart again, as those that make bands themselves."""
    if {op.axis for op in program.named("get_program_id")} != {0}:
        return None
    numbers = {op.result for op in program.named("get_program_id")}
    parts = [op for op in program.walk() if not numbers.isdisjoint(op.operands)]
    if not all(_takes_apart(op) and op.lhs in numbers and op.rhs not in numbers and op in program.body.ops for op in parts):
        return None     # under a condition the quotient's divisor might be 0 where it is not asked for
    if {trait for op in parts for trait in ("quotient", "remainder") if trait in op.row.traits} != {"quotient", "remainder"}:
        return None
    by, results = {op.rhs for op in parts}, {op.result for op in parts}
    again = any(_takes_apart(op) and op.lhs in results for op in program.walk())
    return by.pop() if len(by) == 1 and not again and all(isinstance(value, Value) for value in by) else None


def shares_rows_and_columns(program: Program) -> bool:
    """True if loops load what tiles of a row share, and what tiles of a column share: operands of a product."""
    ids = program.named("get_program_id")
    if (by := row_of_tiles(program)) is not None:
        parts = [op for op in program.walk() if _takes_apart(op) and op.rhs is by]
        along = [{op.result for op in parts if trait in op.row.traits} for trait in ("remainder", "quotient")]
    else:
        along = [{op.result for op in ids if op.axis == axis} for axis in (0, 1)]
    flows = program.kept(Flows)
    reached = [values | flows.reached(values) if values else values for values in along]
    loads = [op for loop in program.where(lambda row: "loop" in row.traits) for block in loop.blocks for top in block.ops
             for op in top.walk() if op.row.loads or op.name == "descriptor_load"]
    kinds = {tuple(not values.isdisjoint(op.operands) for values in reached) for op in loads}
    return {(True, False), (False, True)} <= kinds


def there_and_back(b: Builder, tile: Value, first: Value, programs: Value, tiles: Value) -> Value:
    """The tile that a program takes where it would take `tile`, if each second round counts programs from the last one on, and all
    count tiles from the last one on. `first` is the program's number; the last round may have fewer tiles than programs."""
    before = b.emit("sub", (tile, first))
    odd = b.by_constant("icmpNE", b.by_constant("and", b.emit("sdiv", (before, programs)), 1), 0)
    width = b.emit("minsi", (programs, b.emit("sub", (tiles, before))))
    back = b.emit("sub", (b.by_constant("sub", width, 1), first))
    number = b.emit("add", (before, b.emit("select", (odd, back, first))))
    return b.emit("sub", (b.by_constant("sub", tiles, 1), number), label="from_last")


def _takes_apart(op: Op) -> bool:
    return bool({"quotient", "remainder"} & op.row.traits)


@dataclass(frozen=True)
class Bands:
    """Tiles of a row, of a band, and of all whole bands; and the rows of a band. Computed once in front of the loop over tiles: a
    divisor that changes in a loop may be 0, and nothing that takes it is done a trip ahead."""

    columns: Value
    of_one: Value
    of_all: Value
    rows: int


def bands(b: Builder, rows_each: int, columns: Value, rows: Value) -> Bands:
    """The bands of so many rows each, of `rows` rows."""
    whole = b.by_constant("mul", b.by_constant("sdiv", rows, rows_each), rows_each)
    return Bands(columns, b.by_constant("mul", columns, rows_each), b.emit("mul", (whole, columns), label="in_bands"), rows_each)


def place_in_bands(b: Builder, tile: Value, of: Bands) -> tuple[Value, Value]:
    """(column, row) of a tile by its number."""
    in_band = b.emit("icmpSLT", (tile, of.of_all))
    first = b.by_constant("mul", b.emit("sdiv", (tile, of.of_one)), of.rows)
    row = b.emit("add", (first, b.by_constant("srem", tile, of.rows)))
    column = b.by_constant("sdiv", b.emit("srem", (tile, of.of_one)), of.rows)
    return (b.emit("select", (in_band, column, b.emit("srem", (tile, of.columns))), label="tile_x"),
            b.emit("select", (in_band, row, b.emit("sdiv", (tile, of.columns))), label="tile_y"))
