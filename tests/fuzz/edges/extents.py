"""Tiles whose extents are no powers of two: what idle elements could be seen by, in any order, and products of any columns and of
operands in registers.

    tile = tl.load(x + rows[:, None] * 44 + columns[None, :], mask=.., other=3)
    tl.store(y + rows, tl.max(tile, 1))             # of 44 columns, and none of the 20 behind them

All numbers are small integers, so every order of sums gives the same.
"""

from __future__ import annotations

from math import prod

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
    """The tile with its axes in another order, or its elements in rows of another length."""
    if len(shape) == 2 and draws.chance(50):
        return out(s, number, shape[::-1], element, "tl.trans(t)", "t.T")
    size = prod(shape)
    row = draws.pick([part for part in range(1, size + 1) if size % part == 0])
    new = draws.pick([(size, ), shape[::-1], (size // row, row), (*shape[:-1], 1, shape[-1])])
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


@family(2)
def weights(draws: Draws):
    """Sums of wgmma that become, by a chain of changes, the operand A of another product, in registers; blocks of any multiple of
    16 of keys, in a ring. Weights are small integers, which every type holds."""
    s = Sketch(draws)
    element = draws.pick(["f16", "bf16", "f8e4", "f32"])
    size = ELEMENTS[element].bytes
    n = draws.pick([16, 32]) * draws.integer(1, 8) if size > 1 else 32 * draws.integer(1, 8)
    keys_last = size != 2 or draws.chance(40)       # other types than those of 16 bits lie along K
    d = 8 * draws.integer(1, 24) if keys_last else 16 * draws.integer(1, 12)
    m, steps = draws.pick([64, 128]), draws.integer(1, 3)
    warps = 8 if m == 128 and draws.chance(50) else 4
    deep = max(1, min(draws.pick([1, 2]), (ROOM - m * 64) // (n * 64 + n * d * size)))
    q, k = s.array("f16", (m, 32), ("ints", -2, 3, s.seed())), s.array("f16", (n * steps, 32), ("ints", -2, 3, s.seed()))
    v = s.array(element, (d, n * steps) if keys_last else (n * steps, d), ("ints", -2, 3, s.seed()))
    box, at = ((d, n), f"[0, i * {n}]") if keys_last else ((n, d), f"[i * {n}, 0]")
    dq, dk, dv, y = s.descriptor(q, (m, 32)), s.descriptor(k, (n, 32)), s.descriptor(v, box), s.output("f32", (m, d))
    tile = ELEMENTS[element].tl
    s.kernel(f"q = tlx.local_alloc(({m}, 32), tl.float16, 1)", f"k = tlx.local_alloc(({n}, 32), tl.float16, {deep})",
             f"v = tlx.local_alloc({box}, {tile}, {deep})",
             f"full, free = tlx.alloc_barriers({deep}), tlx.alloc_barriers({deep})", "start = tlx.alloc_barriers(1)")
    wait = s.dropped(f"tlx.barrier_wait(full[i % {deep}], i // {deep} % 2)", "the products read what has not come")
    s.reads(f"acc, total = np.zeros(({m}, {d}), np.float32), np.zeros({m}, np.float32)")
    with s.block("with tlx.async_tasks():"):
        with s.block('with tlx.async_task("default"):'):
            s.kernel(f"tlx.barrier_expect_bytes(start[0], {m * 64})",
                     f"tlx.async_descriptor_load({dq}, q[0], [0, 0], start[0])")
            with s.block(f"for i in range({steps}):"):
                s.kernel(f"tlx.barrier_wait(free[i % {deep}], (i // {deep} % 2) ^ 1)",
                         f"tlx.barrier_expect_bytes(full[i % {deep}], {n * 64 + n * d * size})",
                         f"tlx.async_descriptor_load({dk}, k[i % {deep}], [i * {n}, 0], full[i % {deep}])",
                         f"tlx.async_descriptor_load({dv}, v[i % {deep}], {at}, full[i % {deep}])")
        with s.block(f"with tlx.async_task(num_warps={warps}):"):
            s.kernel(f"acc, total = tl.zeros(({m}, {d}), tl.float32), tl.zeros(({m}, ), tl.float32)",
                     "tlx.barrier_wait(start[0], 0)")
            with s.block(f"for i in range({steps}):"):
                s.kernel(wait, f"p = tlx.async_dot_wait(0, tlx.async_dot(q[0], tlx.local_trans(k[i % {deep}])))")
                reading = [f"p = {q}.astype(np.float32) @ {k}[i * {n}:(i + 1) * {n}].astype(np.float32).T"]
                for _ in range(draws.integer(1, 3)):
                    change, read = _weighed(draws, m, n)
                    s.kernel(change)
                    reading.append(read)
                s.kernel("p = tl.maximum(tl.minimum(p, 3), -3)", "total += tl.sum(p, 1)")
                right = f"tlx.local_trans(v[i % {deep}])" if keys_last else f"v[i % {deep}]"
                s.kernel(f"acc = tlx.async_dot_wait(0, tlx.async_dot(p.to({tile}), {right}, acc))",
                         f"tlx.barrier_arrive(free[i % {deep}])")
                block = f"{v}[:, i * {n}:(i + 1) * {n}].astype(np.float32).T" if keys_last else (
                    f"{v}[i * {n}:(i + 1) * {n}].astype(np.float32)")
                reading += ["p = np.clip(p, -3, 3)", "total += p.sum(1)", f"acc += p @ {block}"]
            s.kernel(f"tl.store({y} + {places((m, d))}, acc + total[:, None])")
    s.reads("\n    ".join([f"for i in range({steps}):", *reading]), f"{y}[...] = acc + total[:, None]")
    s.meta["num_warps"] = 4
    s.skips["compile sm_100a"] = "wgmma is Hopper's"
    return s


def _weighed(draws: Draws, m: int, n: int) -> tuple[str, str]:
    """A change of the weights: element by element, by columns, or by a fold of the rows, of which idle columns are no part."""
    k = draws.integer(-3, 3)
    return draws.pick([
        (f"p = p + {k}", f"p = p + {k}"),
        ("p = p - tl.max(p, 1)[:, None]", "p = p - p.max(1)[:, None]"),
        ("p = tl.where(p > tl.min(p, 1)[:, None], p, 1)", "p = np.where(p > p.min(1)[:, None], p, 1)"),
        (f"p = tl.where(tl.arange(0, {n})[None, :] % 3 == i, p, {k})", f"p = np.where(np.arange({n})[None, :] % 3 == i, p, {k})"),
        (f"p = tl.where(tl.arange(0, {n})[None, :] <= tl.arange(0, {m})[:, None] + i, p, -1)",
         f"p = np.where(np.arange({n})[None, :] <= np.arange({m})[:, None] + i, p, -1)"),
        ("p = tl.where(tl.argmax(p, 1)[:, None] == 0, p, -p)", "p = np.where(p.argmax(1)[:, None] == 0, p, -p)"),
        ("p = tl.where(tl.cumsum(p, 1) > 0, p, 2)", "p = np.where(np.cumsum(p, 1) > 0, p, 2)"),
    ])
