"""Meshes of two and three axes: neighbours on a torus, lines that meet by themselves, sums in a peer's memory, tensors that are
spread over the axes in one way and then in another.

    tle.remote(pointers, ((i + 1) % 2, j), scope=MESH)
    tle.reshard(tle.make_sharded_tensor(tile, tle.sharding(MESH, ["a", ["b"]]), [16, 32]), tle.sharding(MESH, [["b", "a"], None]))
"""

from __future__ import annotations

from math import prod

from ..draws import Draws
from ..elements import ELEMENTS
from . import family
from .sketch import Sketch

MESHES = ((2, 2), (4, 2), (2, 4), (2, 2, 2), (1, 4), (4, 1))
ROWS, COLUMNS = 16, 32


@family(2)
def planes(draws: Draws):
    """One to three exchanges in clusters of four or eight CTAs."""
    shape, groups = draws.pick(MESHES), draws.integer(1, 2)
    size = prod(shape)
    s = Sketch(draws, grid=(size * groups,), cluster=size, meshed=True)
    names = "abc"[: len(shape)]
    s.function(f"MESH = tle.device_mesh({{'cluster': {[(name, extent) for name, extent in zip(names, shape)]}}})")
    s.kernel(*(f"{name} = tle.shard_id(MESH, '{name}')" for name in names))
    s.reads(f"{', '.join(names)}, = np.unravel_index(rank, {shape})")
    for number in range(draws.integer(1, 3)):
        draws.pick([shifted, lines, added, spread, spread])(s, draws, number, shape, names)
    return s


def moved(draws: Draws, shape, names: str, axes=None) -> tuple[str, bool]:
    """(the coordinates of another CTA, as text of both languages; it is another one)."""
    texts, away = [], False
    for name, extent in zip(names, shape):
        step = draws.integer(0, extent - 1) if axes is None or name in axes else 0
        away = away or step > 0
        texts.append(f"({name} + {step}) % {extent}" if step else name)
    return f"({', '.join(texts)})", away


def begun(s: Sketch, number: int, rounds: int, size: int) -> tuple[str, str]:
    """(the input, the output) of an exchange in rounds; the kernel's loop is to stand around `v{number}`."""
    x, y = s.array("i32", (s.programs, rounds, size)), s.output("i32", (s.programs, rounds, size))
    s.kernel(f"b{number} = tle.gpu.alloc([{size}], tl.int32)", f"p{number} = tle.gpu.local_ptr(b{number})")
    return x, y


def shifted(s: Sketch, draws: Draws, number: int, shape, names: str) -> None:
    """Each CTA reads what another one has stored, some times in a row, with a meeting on both sides."""
    rounds, size = draws.integer(1, 3), draws.pick([32, 64])
    x, y = begun(s, number, rounds, size)
    there, away = moved(draws, shape, names)
    first, then = (f"tle.distributed_barrier(MESH){s.mark()}" for _ in range(2))
    with s.block(f"for r in range({rounds}):"):
        s.kernel(
            f"at{number} = (pid * {rounds} + r) * {size} + tl.arange(0, {size})",
            f"tl.store(p{number}, tl.load({x} + at{number}))",
            first,
            f"tl.store({y} + at{number}, tl.load(tle.remote(p{number}, {there}, scope=MESH)))",
            then,
        )
    if away:
        s.mistake(first, "pass", "a peer's tile is read before it is stored")
        if rounds > 1:
            s.mistake(then, "pass", "a tile is stored over while a peer reads it")
    s.reads(f"for r in range({rounds}):\n    {y}[pid, r] = {x}[pid - rank + np.ravel_multi_index({there}, {shape}), r]")


def lines(s: Sketch, draws: Draws, number: int, shape, names: str) -> None:
    """The CTAs of each line along an axis meet by themselves, and read from each other only."""
    axis = draws.integer(0, len(shape) - 1)
    size = draws.pick([32, 64])
    x, y = begun(s, number, 1, size)
    there, away = moved(draws, shape, names, names[axis])
    keys = [""]
    for dim, extent in enumerate(shape):
        keys = [
            f"{key}, {one}" if key else str(one) for key in keys for one in ([":"] if dim == axis else range(extent))
        ]
    first = [f"tle.distributed_barrier(MESH[{key}]){s.mark()}" for key in keys]
    s.kernel(
        f"at{number} = pid * {size} + tl.arange(0, {size})",
        f"tl.store(p{number}, tl.load({x} + at{number}))",
        *first,
        f"tl.store({y} + at{number}, tl.load(tle.remote(p{number}, {there}, scope=MESH)))",
        "tle.distributed_barrier(MESH)",
    )
    if away:
        s.mistake(first[draws.integer(0, len(first) - 1)], "pass", "the CTAs of one line do not meet")
    s.reads(f"{y}[pid, 0] = {x}[pid - rank + np.ravel_multi_index({there}, {shape}), 0]")


def added(s: Sketch, draws: Draws, number: int, shape, names: str) -> None:
    """Each CTA adds to the memory of two others, by atomics, and reads its own afterwards."""
    size = draws.pick([32, 64])
    x, y = begun(s, number, 1, size)
    one, other = moved(draws, shape, names)[0], moved(draws, shape, names)[0]
    first, then = (f"tle.distributed_barrier(MESH){s.mark()}" for _ in range(2))
    s.kernel(
        f"at{number} = pid * {size} + tl.arange(0, {size})",
        f"tl.store(p{number}, tl.zeros([{size}], tl.int32))",
        first,
        f"tl.atomic_add(tle.remote(p{number}, {one}, scope=MESH), tl.load({x} + at{number}))",
        f"tl.atomic_add(tle.remote(p{number}, {other}, scope=MESH), tl.load({x} + at{number}) * 3)",
        then,
        f"tl.store({y} + at{number}, tl.load(p{number}))",
        "tle.distributed_barrier(MESH)",
    )
    if prod(shape) > 1 and (one != f"({', '.join(names)})" or other != one):
        s.mistake(first, "pass", "added to before it was set to zero")
        s.mistake(then, "pass", "read before all have added")
    inverse = "".join(
        f"\nfor there, times in ((np.ravel_multi_index({text}, {shape}), {times}),):\n"
        f"    {y}[pid - rank + there, 0] += {x}[pid, 0] * {times}"
        for text, times in ((one, 1), (other, 3))
    )
    s.reads(inverse.strip("\n"))


def spread(s: Sketch, draws: Draws, number: int, shape, names: str) -> None:
    """A matrix that is spread by one spec, parts of which may be sums to be added, spread by another one."""
    element = draws.pick(["i32", "f32", "f16", "i8"])
    have, want = drawn_spec(draws, shape, names, True), drawn_spec(draws, shape, names, False)
    sums = [name for name in names if have[name] == "P"]
    parts = prod(shape[names.index(name)] for name in sums)
    clusters = s.programs // prod(shape)
    x = s.array(element, (clusters, parts, ROWS, COLUMNS))
    cuts = []
    for spec in (have, want):
        split = [[name for name in spec["order"] if spec[name] == axis] for axis in (0, 1)]
        cuts.append(([ROWS // extent(split[0], shape, names), COLUMNS // extent(split[1], shape, names)], split))
    (m1, n1), old = cuts[0]
    (m2, n2), new = cuts[1]
    y = s.output(element, (s.programs, m2, n2))
    i, j = "tl.arange(0, {0})[:, None]", "tl.arange(0, {0})[None, :]"
    part = index(sums, shape, names)
    row, column = index(old[0], shape, names), index(old[1], shape, names)
    corner = f"({row} * {m1} + {i.format(m1)}) * {COLUMNS} + {column} * {n1} + {j.format(n1)}"
    s.kernel(
        f"g = pid // {prod(shape)}",
        f"v = tl.load({x} + (g * {parts} + {part}) * {ROWS * COLUMNS} + {corner})",
        f"r{number} = tle.reshard(tle.make_sharded_tensor(v, {sharding(old, sums)}, [{ROWS}, {COLUMNS}]), {sharding(new, [])})",
        f"tl.store({y} + pid * {m2 * n2} + {i.format(m2)} * {n2} + {j.format(n2)}, r{number}.handle)",
    )
    s.reads(
        f"whole = {x}[pid // {prod(shape)}].astype(np.int64).sum(0)",
        f"row, column = ({index(new[0], shape, names)}) * {m2}, ({index(new[1], shape, names)}) * {n2}",
        f"{y}[pid] = whole[row:row + {m2}, column:column + {n2}].astype({ELEMENTS[element].reading})",
    )


def drawn_spec(draws: Draws, shape, names: str, partial: bool) -> dict:
    """Along each mesh axis: 0 or 1, the axis of the matrix that it cuts; "B" for whole, "P" for sums to be added."""
    spec: dict = {name: draws.pick([0, 1, "B", *(["P"] if partial else [])]) for name in names}
    spec["order"] = list(names)[:: draws.pick([1, -1])]
    return spec


def sharding(split, sums) -> str:
    axes = ", ".join(repr(one[0]) if len(one) == 1 else repr(one) if one else "None" for one in split)
    return f"tle.sharding(MESH, [{axes}]" + (f", {sums})" if sums else ")")


def extent(split, shape, names: str) -> int:
    return prod(shape[names.index(name)] for name in split)


def index(split, shape, names: str) -> str:
    """The number of a piece, by the coordinates along the axes that cut, the first of which counts most."""
    text = "0"
    for name in split:
        text = f"({text} * {shape[names.index(name)]} + {name})"
    return text
