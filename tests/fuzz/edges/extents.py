"""Tiles whose extents are no powers of two: what idle elements could be seen by, in any order, and products of any columns.

    tile = tl.load(x + rows[:, None] * 44 + columns[None, :], mask=.., other=3)
    tl.store(y + rows, tl.max(tile, 1))             # of 44 columns, and none of the 20 behind them

All numbers are small integers, so every order of sums gives the same.
"""

from __future__ import annotations

from ..draws import Draws
from ..elements import ELEMENTS
from . import family
from .sketch import Sketch, places

SHAPES = ((3,), (11,), (50,), (176,), (3, 5), (12, 20), (5, 16), (8, 7), (24, 40), (2, 3, 5), (1, 9), (48, 3))
ROOM = 220_000      # bytes of shared memory for a ring
LAST = '''
@mimw.jit
def last(a, b):
    return b
'''
PAIR = '''
@mimw.jit
def steeper(a, i, b, j):
    """The larger, and where it is; of equals the first. It has no neutral element that it names."""
    left = (a > b) | ((a == b) & (i < j))
    return tl.where(left, a, b), tl.where(left, i, j)
'''


@family(2)
def extents(draws: Draws):
    """A tile in, two to five changes of it, and a fold, a scan or the tile out after each."""
    s = Sketch(draws, grid=(draws.integer(1, 2),))
    shape, element = draws.pick(SHAPES), draws.pick(["i32", "f32", "i16", "f16"])
    x, size = s.array(element, (s.programs, *shape)), 1
    for extent in shape:
        size *= extent
    s.kernel(f"at = {places(shape)}")
    wide = "tl.int32" if element[0] == "i" else "tl.float32"
    type_ = "np.int32" if element[0] == "i" else "np.float32"
    if draws.chance(50):
        n = s.number(draws.integer(0, size))
        s.kernel(f"t = tl.load({x} + pid * {size} + at, mask=at < {n}, other=3).to({wide})")
        s.reads(f"at = np.arange({size}).reshape({shape})", f"t = np.where(at < {n}, {x}[pid], 3).astype({type_})")
    else:
        s.kernel(f"t = tl.load({x} + pid * {size} + at).to({wide})")
        s.reads(f"at = np.arange({size}).reshape({shape})", f"t = {x}[pid].astype({type_})")
    wide_element = "i32" if element[0] == "i" else "f32"
    for number in range(draws.integer(2, 5)):
        draws.pick([changed, looped, folded, folded, scanned, placed, counted, stored, turned, atomics])(
            s, draws, number, shape, wide_element)
    stored(s, draws, 99, shape, wide_element)
    return s


def changed(s: Sketch, draws: Draws, number: int, shape, element: str) -> None:
    k = draws.integer(-3, 3)
    kernel, reading = draws.pick([
        (f"t = t + {k}", f"t = t + {k}"),
        (f"t = tl.where(at % 3 == 1, t, {k})", f"t = np.where(at % 3 == 1, t, {k}).astype(t.dtype)"),
        ("t = tl.maximum(t, -t)", "t = np.maximum(t, -t)"),
        ("t = -t", "t = -t"),
    ])
    s.kernel(kernel)
    s.reads(reading)


def looped(s: Sketch, draws: Draws, number: int, shape, element: str) -> None:
    trips = s.number(draws.integer(0, 3))
    with s.block(f"for i in range({trips}):"):
        s.kernel("t = tl.where(t > 40, t - 40, t + i)")
    s.reads(f"for i in range({trips}):\n    t = np.where(t > 40, t - 40, t + i).astype(t.dtype)")


def out(s: Sketch, number: int, shape, element: str, kernel: str, reading: str) -> None:
    """Store a result of that shape, a number where it has none."""
    size = 1
    for extent in shape:
        size *= extent
    y = s.output(element, (s.programs, *shape))
    at = f" + {places(shape)}" if shape else ""
    s.kernel(f"tl.store({y} + pid * {size}{at}, {kernel})")
    s.reads(f"{y}[pid] = {reading}")


def folded(s: Sketch, draws: Draws, number: int, shape, element: str) -> None:
    axis = draws.integer(0, len(shape) - 1)
    how = draws.pick(["sum", "max", "min"])
    if draws.chance(30):
        return out(s, number, (), element, f"tl.{how}(t)", f"t.{how}()")
    out(s, number, shape[:axis] + shape[axis + 1:], element, f"tl.{how}(t, {axis})", f"t.{how}({axis})")


def placed(s: Sketch, draws: Draws, number: int, shape, element: str) -> None:
    """The place of the largest along the last axis, by Triton's function, or by one of the author's on two tiles."""
    rest, axis = shape[:-1], len(shape) - 1
    if draws.chance(50):
        return out(s, number, rest, "i32", f"tl.argmax(t, {axis})", f"t.argmax({axis})")
    s.function(PAIR)
    spread = ", ".join(["None"] * axis + [":"])
    line = f"tl.arange(0, {shape[-1]})" + (f"[{spread}]" if axis else "")
    s.kernel(f"m{number}, i{number} = tl.reduce((t, {line} + t.to(tl.int32) * 0), {axis}, steeper)")
    out(s, number, rest, "i32", f"i{number}", f"t.argmax({axis})")


def scanned(s: Sketch, draws: Draws, number: int, shape, element: str) -> None:
    axis, reverse = draws.integer(0, len(shape) - 1), draws.chance(50)
    turn = f"np.flip({{}}, {axis})" if reverse else "{}"
    if draws.chance(25):
        s.function(LAST)
        return out(s, number, shape, element, f"tl.associative_scan(t, {axis}, last, reverse={reverse})", "t")
    flipped = turn.format("t")
    out(s, number, shape, element, f"tl.cumsum(t, {axis}, reverse={reverse})",
        turn.format(f"np.cumsum({flipped}, {axis}).astype(t.dtype)"))


def counted(s: Sketch, draws: Draws, number: int, shape, element: str) -> None:
    """How many of each of a few numbers there are, in a tile of one axis."""
    if len(shape) > 1:
        return changed(s, draws, number, shape, element)
    bins = draws.pick([3, 5, 8, 12])
    out(s, number, (bins,), "i32", f"tl.histogram(tl.maximum(tl.minimum(t, {bins - 1}), 0).to(tl.int32), {bins})",
        f"np.bincount(np.clip(t, 0, {bins - 1}).astype(np.int64), minlength={bins})")


def stored(s: Sketch, draws: Draws, number: int, shape, element: str) -> None:
    out(s, number, shape, element, "t", "t")


def turned(s: Sketch, draws: Draws, number: int, shape, element: str) -> None:
    """The tile with its axes in another order, or with its outermost axis cut in two."""
    if len(shape) == 2 and draws.chance(60):
        return out(s, number, shape[::-1], element, "tl.trans(t)", "t.T")
    if shape[0] % 2 or any(extent & (extent - 1) for extent in shape[1:]):
        return folded(s, draws, number, shape, element)
    new = (shape[0] // 2, 2, *shape[1:])
    out(s, number, new, element, f"tl.reshape(t, {new})", f"t.reshape({new})")


def atomics(s: Sketch, draws: Draws, number: int, shape, element: str) -> None:
    """Everyone adds to a few places."""
    count = draws.pick([1, 3, 7])
    y = s.output(element, (s.programs, count))
    s.kernel(f"tl.atomic_add({y} + pid * {count} + at % {count}, t)")
    s.reads(f"np.add.at({y}[pid], at % {count}, t)")


@family(2)
def columns(draws: Draws):
    """A product by wgmma of any multiple of 8 columns, both operands by TMA, in a ring; sums out by pointers."""
    s = Sketch(draws)
    n, element, steps = 8 * draws.integer(1, 32), draws.pick(["f16", "bf16", "f8e4"]), draws.integer(1, 4)
    m, k, deep = draws.pick([64, 128]), draws.pick([64, 32, 128]), draws.pick([1, 2, 3])
    warps = 8 if m == 128 and draws.chance(50) else 4
    k = max(k, 64) if element == "f8e4" else k
    size = 1 if element == "f8e4" else 2
    deep = max(1, min(deep, ROOM // ((m + n) * k * size)))
    a, b = s.array(element, (m, k * steps), ("ints", -3, 4, s.seed())), s.array(element, (n, k * steps), ("ints", -3, 4, s.seed()))
    da, db, y = s.descriptor(a, (m, k)), s.descriptor(b, (n, k)), s.output("f32", (m, n))
    type_ = ELEMENTS[element].tl
    s.kernel(f"a = tlx.local_alloc(({m}, {k}), {type_}, {deep})", f"b = tlx.local_alloc(({n}, {k}), {type_}, {deep})",
             f"full, free = tlx.alloc_barriers({deep}), tlx.alloc_barriers({deep})")
    wait = s.dropped(f"tlx.barrier_wait(full[i % {deep}], i // {deep} % 2)", "the product reads what has not come")
    with s.block("with tlx.async_tasks():"):
        with s.block('with tlx.async_task("default"):'), s.block(f"for i in range({steps}):"):
            s.kernel(f"tlx.barrier_wait(free[i % {deep}], (i // {deep} % 2) ^ 1)",
                     f"tlx.barrier_expect_bytes(full[i % {deep}], {(m + n) * k * size})",
                     f"tlx.async_descriptor_load({da}, a[i % {deep}], [0, i * {k}], full[i % {deep}])",
                     f"tlx.async_descriptor_load({db}, b[i % {deep}], [0, i * {k}], full[i % {deep}])")
        with s.block(f"with tlx.async_task(num_warps={warps}):"):
            s.kernel(f"acc = tl.zeros(({m}, {n}), tl.float32)")
            with s.block(f"for i in range({steps}):"):
                s.kernel(wait, f"acc = tlx.async_dot_wait(0, tlx.async_dot(a[i % {deep}], tlx.local_trans(b[i % {deep}]), acc))",
                         f"tlx.barrier_arrive(free[i % {deep}])")
            s.kernel(f"tl.store({y} + {places((m, n))}, acc)")
    s.reads(f"{y}[...] = {a}.astype(np.float32) @ {b}.astype(np.float32).T")
    s.meta["num_warps"] = 4
    s.skips["compile sm_100a"] = "wgmma is Hopper's"
    return s
