"""Rows that a tile of numbers picks, by descriptors: from before and behind the tensor, of columns that reach over its end.

Rows outside read as zero, and are dropped where they are written. A row number may be negative where rows are read, never where
they are written; a place is written by one row only:

    tlx.async_descriptor_gather(desc, buffer, [-2, 5, 5, 99, ..], 32, bar)
"""

from __future__ import annotations

from ..draws import Draws
from ..elements import ELEMENTS
from ..words.rows import WIDTHS
from . import family
from .sketch import Sketch

ROWS = '''
def picked(array, rows, column, width):
    """Some columns of picked rows; zero outside."""
    out = np.zeros((len(rows), width), array.dtype)
    for place, row in enumerate(rows):
        for at in range(width):
            if 0 <= row < array.shape[0] and 0 <= column + at < array.shape[1]:
                out[place, at] = array[row, column + at]
    return out


def put_rows(array, rows, column, value):
    """Write rows to their places, but those outside."""
    for place, row in enumerate(rows):
        width = min(value.shape[1], array.shape[1] - column)
        if row < array.shape[0] and width > 0:
            array[row, column:column + width] = value[place, :width]
'''


@family(2)
def picks(draws: Draws):
    """One to three gathers and scatters, by the words of TLX, TLE and Triton."""
    s = Sketch(draws, grid=(draws.integer(1, 2),))
    s.helper(ROWS)
    s.kernel("ready = tlx.alloc_barriers(4)")
    for number in range(draws.integer(1, 3)):
        draws.pick([gather, scatter])(s, draws, number)
    return s


def shape_of(draws: Draws) -> tuple[str, int, int]:
    """(element, columns, rows) of a tile of rows."""
    element = draws.pick(list(WIDTHS))
    return element, draws.pick(WIDTHS[element]), draws.pick([8, 16, 32])


def gather(s: Sketch, draws: Draws, number: int) -> None:
    element, width, count = shape_of(draws)
    rows, each = draws.integer(1, 30), 16 // ELEMENTS[element].bytes
    x = s.array(element, (rows, width * draws.integer(1, 3)), ("ints", 1, 9, s.seed()))
    wild = draws.pick([(0, rows - 1), (-3, rows + 3), (-2, -1), (rows - 1, rows + 9)])
    numbers = s.array("i32", (s.programs, count), ("ints", *wild, s.seed()))
    column = each * draws.integer(0, 3 * width // each)
    at = s.number(column) if draws.chance(50) else str(column)
    y, d = s.output(element, (s.programs, count, width)), s.descriptor(x, (1, width))
    s.kernel(f"rows{number} = tl.load({numbers} + pid * {count} + tl.arange(0, {count}))")
    way = draws.pick(["tlx", "own", "tle"])
    if way == "own" and width * ELEMENTS[element].bytes >= 32 and width >= 32 // ELEMENTS[element].bytes:
        s.kernel(f"v{number} = {d}.gather(rows{number}, {at})")
    elif way == "tle":
        s.kernel(
            f"b{number} = tle.gpu.alloc([{count}, {width}], {ELEMENTS[element].tl})",
            f"tle.gpu.copy({d}, b{number}, [{count}, {width}], [rows{number}, {at}])",
            f"v{number} = tl.load(tle.gpu.local_ptr(b{number}))",
        )
    else:
        size = count * width * ELEMENTS[element].bytes
        s.kernel(
            f"b{number} = tlx.local_alloc(({count}, {width}), {ELEMENTS[element].tl}, 1)",
            s.dropped(f"tlx.barrier_expect_bytes(ready[{number}], {size})", "bytes come that nobody expects"),
            f"tlx.async_descriptor_gather({d}, b{number}[0], rows{number}, {at}, ready[{number}])",
            s.dropped(f"tlx.barrier_wait(ready[{number}], 0)", "the rows are read before they are there"),
            f"v{number} = tlx.local_load(b{number}[0])",
        )
    where = f"tl.arange(0, {count})[:, None] * {width} + tl.arange(0, {width})[None, :]"
    s.kernel(f"tl.store({y} + pid * {count * width} + {where}, v{number})")
    s.reads(f"{y}[pid] = picked({x}, {numbers}[pid].tolist(), {column}, {width})")


def scatter(s: Sketch, draws: Draws, number: int) -> None:
    element, width, count = shape_of(draws)
    total = s.programs * count
    rows, each = max(1, total - draws.pick([0, 3, total // 2])), 16 // ELEMENTS[element].bytes
    columns = width * draws.integer(1, 2)
    x, y = s.array(element, (s.programs, count, width)), s.output(element, (rows, columns), ("ints", 0, 5, s.seed()))
    column = each * draws.integer(0, columns // each)
    at, turn = s.number(column) if draws.chance(50) else str(column), draws.integer(0, count - 1)
    d = s.descriptor(y, (1, width))
    where = f"tl.arange(0, {count})[:, None] * {width} + tl.arange(0, {width})[None, :]"
    s.kernel(
        f"v{number} = tl.load({x} + pid * {count * width} + {where})",
        f"rows{number} = pid * {count} + (tl.arange(0, {count}) ^ {turn})",
    )
    if draws.chance(40) and width * ELEMENTS[element].bytes >= 32:
        s.kernel(f"{d}.scatter(v{number}, rows{number}, {at})")
    else:
        s.kernel(
            f"b{number} = tlx.local_alloc(({count}, {width}), {ELEMENTS[element].tl}, 1)",
            f"tlx.local_store(b{number}[0], v{number})",
            "tlx.fence('async_shared')",  # without it the compiler puts one in, so that is no mistake
            f"tlx.async_descriptor_scatter({d}, b{number}[0], rows{number}, {at})",
            "tlx.async_descriptor_store_wait(0)",
        )
    s.reads(f"put_rows({y}, (pid * {count} + (np.arange({count}) ^ {turn})).tolist(), {column}, {x}[pid])")
