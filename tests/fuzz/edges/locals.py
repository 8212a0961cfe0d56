"""Local memories of `tle.dsa`, of extents that are no powers of two: tails of copies, views with strides, pointers, loops whose
last trip is short, held by the rules of a GPU, and of a chip that has such memories.

    a = tle.dsa.alloc([37], tl.float32, UB)
    tle.dsa.copy(x + at, a, [tail])             # the rest of a stays
"""

from __future__ import annotations

from math import prod

from ..draws import Draws
from ..elements import ELEMENTS
from . import family
from .sketch import Sketch

SHAPES = ((37,), (50,), (1,), (64,), (5, 20), (3, 7), (8, 16), (2, 3, 10), (100,))
ARITHMETIC = {"add": "{0} + {1}", "sub": "{0} - {1}", "max": "np.maximum({0}, {1})", "min": "np.minimum({0}, {1})"}


def rounded(extent: int) -> int:
    return 1 << (extent - 1).bit_length()


def pointers(shape) -> str:
    """Element numbers of a tensor of that shape, as a tile whose extents are rounded up."""
    terms, size = [], prod(shape)
    for dim, extent in enumerate(shape):
        size //= extent
        spread = ", ".join(":" if one == dim else "None" for one in range(len(shape)))
        terms.append(f"tl.arange(0, {rounded(extent)})[{spread}] * {size}")
    return " + ".join(terms)


@family(2)
def locals(draws: Draws):
    """Two or three buffers of one shape, two to six statements, all buffers out at the end."""
    s = Sketch(draws, grid=(draws.integer(1, 2),))
    if draws.chance(25):
        s.chip = "ascend_910b"
        s.skips["gpu"] = "no chip with local memories is at hand"
        s.skips[f"compile {s.chip}"] = "there is no compiler for it"
    shape, element = draws.pick(SHAPES), draws.pick(["f32", "i32", "f16", "i16"])
    size, tl_name = prod(shape), ELEMENTS[element].tl
    whole = ", ".join(map(str, shape))
    s.kernel(f"at = {pointers(shape)}")
    names = ["a", "b", "c"][: draws.integer(2, 3)]
    for name in names:
        x = s.array(element, (s.programs, *shape))
        s.kernel(
            f"{name} = tle.dsa.alloc([{whole}], {tl_name}, tle.dsa.ascend.UB)",
            f"tle.dsa.copy({x} + pid * {size} + at, {name}, [{whole}])",
        )
        s.reads(f"{name} = {x}[pid].copy()")
    for number in range(draws.integer(2, 6)):
        words = [arithmetic, arithmetic, tail_in, tail_out, view, rounds, rounds]
        words += [elements] if len(shape) == 1 and size > 1 else []
        draws.pick(words)(s, draws, number, shape, element, names)
    for name in names:
        y = s.output(element, (s.programs, *shape))
        s.kernel(f"tle.dsa.copy({name}, {y} + pid * {size} + at, [{whole}])")
        s.reads(f"{y}[pid] = {name}")
    return s


def arithmetic(s: Sketch, draws: Draws, number: int, shape, element: str, names) -> None:
    how, one, other, out = draws.pick(list(ARITHMETIC)), draws.pick(names), draws.pick(names), draws.pick(names)
    s.kernel(f"tle.dsa.{how}({one}, {other}, {out})")
    s.reads(f"{out}[...] = {ARITHMETIC[how].format(one, other)}")
    small(s, shape, element, out)


def small(s: Sketch, shape, element: str, out: str) -> None:
    """Keep the numbers small, so that every type holds them: cut off at 64, by a buffer of that number."""
    limit = f"limit_{len(s.lines)}"
    x = s.array(element, shape, ("listed", (64,)))
    low = s.array(element, shape, ("listed", (-64,)))
    whole = ", ".join(map(str, shape))
    for name, word, function in ((x, "min", "np.minimum"), (low, "max", "np.maximum")):
        s.kernel(
            f"{limit} = tle.dsa.alloc([{whole}], {ELEMENTS[element].tl}, tle.dsa.ascend.UB)",
            f"tle.dsa.copy({name} + at, {limit}, [{whole}])",
            f"tle.dsa.{word}({out}, {limit}, {out})",
        )
        s.reads(f"{out}[...] = {function}({out}, {name})")


def tails(s: Sketch, draws: Draws, shape) -> tuple[str, list[int]]:
    """(the extents of a copy, as text; as numbers): some come at run time, nothing or less than nothing among them."""
    numbers = [draws.pick([extent, draws.integer(0, extent), max(extent - 1, 0), -1]) for extent in shape]
    return ", ".join(s.number(one) if draws.chance(70) or one < 0 else str(one) for one in numbers), [
        max(one, 0) for one in numbers
    ]


def cut(extents) -> str:
    return ", ".join(f":{one}" for one in extents)


def tail_in(s: Sketch, draws: Draws, number: int, shape, element: str, names) -> None:
    x, out = s.array(element, (s.programs, *shape)), draws.pick(names)
    text, extents = tails(s, draws, shape)
    s.kernel(f"tle.dsa.copy({x} + pid * {prod(shape)} + at, {out}, [{text}])")
    s.reads(f"{out}[{cut(extents)}] = {x}[pid][{cut(extents)}]")


def tail_out(s: Sketch, draws: Draws, number: int, shape, element: str, names) -> None:
    y, one = s.output(element, (s.programs, *shape), ("listed", (9,))), draws.pick(names)
    text, extents = tails(s, draws, shape)
    s.kernel(f"tle.dsa.copy({one}, {y} + pid * {prod(shape)} + at, [{text}])")
    s.reads(f"{y}[pid][{cut(extents)}] = {one}[{cut(extents)}]")


def view(s: Sketch, draws: Draws, number: int, shape, element: str, names) -> None:
    """Elements in steps as a buffer of their own, changed in place; from a place that may come at run time."""
    one, texts, boxes, sizes, strides = draws.pick(names), [], [], [], []
    for extent in shape:
        stride = draws.integer(1, 3)
        first = draws.integer(0, min(extent - 1, 4))
        count = draws.integer(1, (extent - first - 1) // stride + 1)
        texts.append(s.number(first) if draws.chance(40) else str(first))
        sizes.append(count)
        strides.append(stride)
        boxes.append(f"{first}:{first + (count - 1) * stride + 1}:{stride}")
    s.kernel(
        f"v{number} = tle.dsa.subview({one}, [{', '.join(texts)}], {sizes}, {strides})",
        f"tle.dsa.sub(v{number}, v{number}, v{number})",
    )
    s.reads(f"{one}[{', '.join(boxes)}] = 0")


def elements(s: Sketch, draws: Draws, number: int, shape, element: str, names) -> None:
    """Pointers to some elements."""
    one, count = draws.pick(names), draws.pick([each for each in (1, 2, 8, 16) if each <= shape[0]])
    first = draws.integer(0, shape[0] - count)
    text = s.number(first) if draws.chance(50) else str(first)
    s.kernel(
        f"p{number} = tle.dsa.local_ptr({one}, [tl.arange(0, {count}) + {text}])",
        f"tl.store(p{number}, (tl.load(p{number}) * 0 + {number}).to({ELEMENTS[element].tl}))",
    )
    s.reads(f"{one}[{first}:{first + count}] = {number}")


def rounds(s: Sketch, draws: Draws, number: int, shape, element: str, names) -> None:
    """A loop over blocks of a line, the last of which is short; in order, or with copies that run ahead."""
    extent, blocks = draws.pick([37, 50, 64, 7]), draws.integer(0, 4)
    total = max(0, extent * blocks - draws.integer(0, extent - 1))
    x, y, n = s.array(element, (s.programs, total + 1)), s.output(element, (s.programs, total + 1)), s.number(total)
    kind = draws.pick(["range(", "tle.dsa.pipeline(", "tle.dsa.pipeline("])
    stages = f", num_stages={draws.integer(1, 3)}" if kind != "range(" else ""
    alone = ", inter_no_alias=True" if kind != "range(" and draws.chance(60) else ""
    s.kernel(f"""
        line{number} = tle.dsa.alloc([{extent}], {ELEMENTS[element].tl}, tle.dsa.ascend.UB)
        along{number} = pid * {total + 1} + tl.arange(0, {rounded(extent)})
        for i in {kind}0, {n}, {extent}{stages}):
            tle.dsa.copy({x} + i + along{number}, line{number}, [tl.minimum({n} - i, {extent})]{alone})
            tle.dsa.add(line{number}, line{number}, line{number})
            tle.dsa.copy(line{number}, {y} + i + along{number}, [tl.minimum({n} - i, {extent})]{alone})""")
    s.reads(f"{y}[pid, :{total}] = {x}[pid, :{total}] * 2")
