"""Tiles of odd extents in more words: put into another order, and in buffers that TMA fills and sends, and threads change.

    tile = tl.flip(tl.sort(tile), 0)                # of 20 columns, and none of the 12 behind them
    tile = tlx.local_load(tlx.local_slice(b[0], [i * 24, 0], [24, 96]))

All numbers are small integers.
"""

from __future__ import annotations

from ..draws import Draws
from ..elements import ELEMENTS
from . import family
from .sketch import Sketch, places

SHAPES = ((11,), (50,), (3, 5), (12, 20), (5, 16), (8, 7), (1, 9), (24, 40))


@family(2)
def odd_orders(draws: Draws):
    """A tile in, one to four changes of its elements' order, and the tile out after each."""
    s = Sketch(draws)
    shape, element = draws.pick(SHAPES), draws.pick(["i32", "f32"])
    x = s.array(element, shape)
    s.kernel(f"at = {places(shape)}", f"t = tl.load({x} + at)")
    s.reads(f"t = {x}")
    for _ in range(draws.integer(1, 4)):
        axis, last = draws.integer(0, len(shape) - 1), len(shape) - 1
        kernel, reading = draws.pick([
            (f"t = tl.flip(t, {axis})", f"t = np.flip(t, {axis})"),
            ("t = tl.sort(t)", "t = np.sort(t)"),
            ("t = tl.sort(t, descending=True)", f"t = np.flip(np.sort(t), {last})"),
            (f"t = tl.gather(t, (at * 0 + {shape[axis] // 2}), {axis}) + t", f"t = np.take(t, [{shape[axis] // 2}], {axis}) + t"),
        ])
        s.kernel(kernel)
        s.reads(reading)
        y = s.output(element, shape)
        s.kernel(f"tl.store({y} + at, t)")
        s.reads(f"{y}[...] = t")
    y = s.output(element, (2 * shape[0], *shape[1:]))
    s.kernel(f"tl.store({y} + {places((2 * shape[0], *shape[1:]))}, tl.cat(t, t + 1))")
    s.reads(f"{y}[...] = np.concatenate([t, t + 1])")
    few = draws.integer(1, shape[-1])
    y = s.output(element, (*shape[:-1], few))
    s.kernel(f"tl.store({y} + {places((*shape[:-1], few))}, tl.topk(t, {few}))")
    s.reads(f"{y}[...] = np.flip(np.sort(t), {len(shape) - 1})[..., :{few}]")
    return s


@family(2)
def odd_buffers(draws: Draws):
    """A tile comes by TMA, by pointers or by a descriptor of Triton's; threads change it, in boxes or transposed; out it goes by
    TMA, by a descriptor or by pointers."""
    s = Sketch(draws)
    element = draws.pick(["f16", "f32", "i8"])
    size = {"f16": 2, "f32": 4, "i8": 1}[element]
    high, wide = draws.pick([1, 2, 3, 6]), draws.pick([1, 2, 3, 5])
    rows, columns = 8 * high * draws.pick([1, 2, 3]), 32 // size * wide
    shape, type_ = (rows, columns), ELEMENTS[element].tl
    x, y = s.array(element, shape), s.output(element, shape)
    dx, dy = s.descriptor(x, shape), s.descriptor(y, shape)
    s.kernel(f"at = {places(shape)}", f"a = tlx.local_alloc({shape}, {type_}, 2)", "full = tlx.alloc_barriers(1)")
    way = draws.pick(["tma", "pointers", "descriptor"])
    if way == "tma":
        s.kernel(f"tlx.barrier_expect_bytes(full[0], {rows * columns * size})",
                 f"tlx.async_descriptor_load({dx}, a[1], [0, 0], full[0])")
        s.kernel(s.dropped("tlx.barrier_wait(full[0], 0)", "the tile is read before it has come"))
    elif way == "pointers":
        s.kernel(f"tlx.async_load({x} + at, a[1])", "tlx.async_load_commit_group()")
        s.kernel(s.dropped("tlx.async_load_wait_group(0)", "the tile is read before it has come"))
    else:
        s.kernel(f"tlx.local_store(a[1], {dx}.load([0, 0]))")
    if draws.chance(50):
        box = rows // high
        with s.block(f"for i in range({high}):"):
            s.kernel(f"part = tlx.local_slice(a[1], [i * {box}, 0], [{box}, {columns}])",
                     f"tlx.local_store(tlx.local_slice(a[0], [i * {box}, 0], [{box}, {columns}]), tlx.local_load(part) + 1)")
    elif draws.chance(50):
        s.kernel("tlx.local_store(tlx.local_trans(a[0]), tlx.local_load(tlx.local_trans(a[1])) + 1)")
    elif draws.chance(40):      # a part of it under a mask, then the rest
        part = draws.pick([f"rows < {draws.integer(0, rows)}", f"columns >= {draws.integer(0, columns)}",
                           "(rows + columns) % 3 == 0"])
        s.kernel(f"rows, columns = at // {columns}, at % {columns}", f"part = {part}", "t = tlx.local_load(a[1]) + 1",
                 "tl.store(tle.gpu.local_ptr(a[0]), t, mask=part)", "tl.store(tle.gpu.local_ptr(a[0]), t, mask=part == 0)")
    elif draws.chance(40):      # each element by its number, in turns along an axis
        axis, turn = draws.integer(0, 1), draws.integer(0, 9)
        s.kernel(f"there = (at // {columns} + {turn}) % {rows}" if axis == 0 else f"there = (at % {columns} + {turn}) % {columns}",
                 f"tlx.local_scatter(a[0], tlx.local_gather(a[1], there, {axis}) + 1, there, {axis})")
    else:
        s.kernel("tlx.local_store(a[0], tlx.local_load(a[1]) + 1)")
    out = draws.pick(["tma", "descriptor", "pointers"])
    if out == "tma":
        s.kernel(f"tlx.async_descriptor_store({dy}, a[0], [0, 0])", "tlx.async_descriptor_store_wait(0)")
    elif out == "descriptor":
        s.kernel(f"{dy}.store([0, 0], tlx.local_load(a[0]))")
    else:
        s.kernel(f"tl.store({y} + at, tlx.local_load(a[0]))")
    s.reads(f"{y}[...] = {x} + 1")
    return s
