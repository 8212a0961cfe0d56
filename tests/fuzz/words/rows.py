"""Rows that a tile of row numbers picks, by TMA: gathered into a buffer, scattered to an output of their own.

    tlx.async_descriptor_gather(d0, g0[0], v0, 0, bar0[0])
    tlx.async_descriptor_scatter(d1, g1[0], v1, 0)
"""

from __future__ import annotations

from ..elements import ELEMENTS
from ..maker import Maker
from ..tree import Line, Mark, Value
from . import word
from .copies import round_of
from .tiles import SMALL

WIDTHS = {"f32": (8, 16, 32), "i32": (8, 32), "f16": (16, 64), "bf16": (32,), "i8": (32, 64)}


def row_numbers(make: Maker, count: int, low: int, high: int) -> tuple[str, str]:
    """A load of so many row numbers, in both languages: drawn, some of them equal or outside."""
    array = make.array("i32", (make.instances() * count,), ("ints", low, high))
    index = make.instance()
    return f"tl.load({array} + {index} * {count} + tl.arange(0, {count}))", f"take({array}, {index}, ({count},))"


@word("rows", 4)
def gathers(make: Maker):
    """Rows from anywhere, also outside, which are then zero."""
    draws = make.draws
    element = draws.pick(list(WIDTHS))
    width, count = draws.pick(WIDTHS[element]), draws.pick([8, 16, 32, 64])
    rows, total = draws.integer(4, 40), width * draws.integer(1, 3)
    if not make.shared(count * width * ELEMENTS[element].bytes):
        return False
    source = make.array(element, (rows, total), ("ints", -SMALL, SMALL))
    buffer, bars = make.name("g"), make.name("bar")
    make.head += [
        f"{buffer} = tlx.local_alloc({(count, width)}, {ELEMENTS[element].tl}, 1)",
        f"{bars} = tlx.alloc_barriers(1)",
    ]
    make.captured += [buffer, bars]
    descriptor = make.descriptor(source, (1, width))
    column = draws.pick([0, width, 16 // ELEMENTS[element].bytes])
    places, placed = row_numbers(make, count, 0, rows + 3 if draws.chance(30) else rows - 1)
    phase, counted = round_of(make, bars)
    channel, size = f"t{buffer}", count * width * ELEMENTS[element].bytes
    make.reading_function("rows_of", ROWS_OF)
    make.let(
        Value(
            f"tlx.local_load({buffer}[0])",
            f"rows_of({source}, {placed}, {column}, {width}, seen('{channel}'))",
            element,
            (count, width),
            SMALL,
            states=frozenset({buffer}),
        ),
        before=[
            Line(f"tlx.barrier_expect_bytes({bars}[0], {size})", Mark("expect", channel)),
            f"tlx.async_descriptor_gather({descriptor}, {buffer}[0], {places}, {column}, {bars}[0])",
            Line(f"tlx.barrier_wait({bars}[0], {phase})", Mark("wait of bytes", channel)),
            *counted,
        ],
    )


ROWS_OF = '''
def rows_of(array, rows, column, width, *_):
    """Picked rows, some columns of them; zero outside."""
    found = np.zeros((len(rows), width), array.dtype)
    part = array[:, column:column + width]
    inside = (rows >= 0) & (rows < len(array))
    found[inside, :part.shape[1]] = part[rows[inside]]
    return found
'''
ROWS_TO = '''
def rows_to(array, rows, column, value):
    """Write rows to their places; those outside are left out."""
    inside = rows < len(array)
    width = min(value.shape[1], array.shape[1] - column)
    array[rows[inside], column:column + width] = value[inside][:, :width]
'''


@word("rows", 3)
def scatters(make: Maker):
    """Rows to places of their own in the program's part of an output, in another order; some fall behind its end."""
    draws = make.draws
    fitting = [
        tile
        for tile in make.tiles
        if len(tile.shape) == 2
        and tile.shape[0] >= 8
        and tile.element in WIDTHS
        and 32 <= tile.shape[1] * ELEMENTS[tile.element].bytes <= 256
        and tile.shape[1] >= 8 * 4 // ELEMENTS[tile.element].bytes
    ]
    if not fitting:
        return gathers(make)
    tile = draws.pick(fitting)
    (count, width), element = tile.shape, tile.element
    if not make.shared(tile.bytes):
        return False
    room = make.instances() * count - draws.pick([0, 0, 3])
    target = make.array(element, (room, width), ("zeros",), output=True)
    stage, turn = make.name("g"), draws.integer(0, count - 1)
    make.head.append(f"{stage} = tlx.local_alloc({(count, width)}, {ELEMENTS[element].tl}, 1)")
    make.captured.append(stage)
    index = make.instance()
    places = f"{index} * {count} + (tl.arange(0, {count}) ^ {turn})"
    placed = f"{index} * {count} + (np.arange({count}) ^ {turn})"
    make.reading_function("rows_to", ROWS_TO)
    make.step(
        [
            f"tlx.local_store({stage}[0], {tile.kernel})",
            Line("tlx.fence('async_shared')", Mark("fence of a store", f"s{stage}")),
            f"tlx.async_descriptor_scatter({make.descriptor(target, (1, width))}, {stage}[0], {places}, 0)",
            Line("tlx.async_descriptor_store_wait(0)", Mark("wait of a store", f"s{stage}")),
        ],
        [f"seen('s{stage}')", f"rows_to({target}, {placed}, 0, {tile.reading})"],
        tile.uses,
        (*tile.states, stage),
        private=True,
    )


@word("rows", 2)
def own_rows(make: Maker):
    """The register form of Triton's descriptors, and tle's copy of rows: gathered, perhaps scattered to places of their own."""
    draws = make.draws
    width, count, rows = draws.pick([32, 64]), draws.pick([8, 32]), draws.integer(4, 40)
    source = make.array("f16", (rows, width), ("ints", -SMALL, SMALL))
    places, placed = row_numbers(make, count, 0, rows - 1)
    make.reading_function("rows_of", ROWS_OF)
    form, states, before = f"{make.descriptor(source, (1, width))}.gather({places}, 0)", frozenset(), []
    if draws.chance(40) and make.shared(count * width * 2):
        buffer = make.name("g")
        make.head.append(f"{buffer} = tle.gpu.alloc([{count}, {width}], tl.float16)")
        make.captured.append(buffer)
        copy = f"tle.gpu.copy({make.descriptor(source, (1, width))}, {buffer}, [{count}, {width}], [{places}, 0])"
        form, states, before = f"tl.load(tle.gpu.local_ptr({buffer}))", frozenset({buffer}), [copy]
    reading = f"rows_of({source}, {placed}, 0, {width})"
    tile = make.let(Value(form, reading, "f16", (count, width), SMALL, states=states), before=before)
    if draws.chance(50):
        return
    target, turn = make.array("f16", (make.instances() * count, width), ("zeros",), output=True), draws.integer(0, count - 1)
    index = make.instance()
    make.reading_function("rows_to", ROWS_TO)
    make.step(
        [
            f"{make.descriptor(target, (1, width))}.scatter({tile.kernel}, "
            f"{index} * {count} + (tl.arange(0, {count}) ^ {turn}), 0)"
        ],
        [f"rows_to({target}, {index} * {count} + (np.arange({count}) ^ {turn}), 0, {tile.reading})"],
        tile.uses,
        tile.states,
        private=True,
    )
