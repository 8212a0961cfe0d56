"""Reductions, sorts and scans of NaN, infinities and signed zeros, and by combinations of the author's own.

Sums are of few finite numbers that are exact in every order, so what is infinite or no number does not depend on the order:

    fold([1, inf, -inf])    nan          folds of (a, b): a -> b -> a * x + b, in order
"""

from __future__ import annotations

from ..draws import Draws
from ..elements import ELEMENTS
from . import family
from .sketch import Sketch, places

SHAPES = ((64,), (128,), (16, 16), (4, 64), (32, 8), (4, 8, 8), (256,))

# The network by which Triton sorts, on pairs of rows: with a NaN a sort gives what its comparisons give, in any layout.
NETWORK = '''
def swapped(x, distance, falls):
    """Elements `distance` apart along the last axis change places where they stand in the wrong order; `falls`: of each element,
    whether its pair is to fall."""
    at = np.arange(x.shape[-1])
    other = x[..., at ^ distance]
    right = (at & distance) != 0
    with np.errstate(invalid="ignore"):
        return np.where((x > other) != (falls ^ right), other, x)


def network(x, falls):
    """A bitonic sort along the last axis."""
    extent, at, size = x.shape[-1], np.arange(x.shape[-1]), 2
    while size <= extent:
        turn = (at & size) != 0 if size < extent else np.full(extent, falls)
        distance = size // 2
        while distance:
            x = swapped(x, distance, turn)
            distance //= 2
        size *= 2
    return x
'''


@family(2)
def nonfinite(draws: Draws):
    """One to four folds of a tile that holds infinities, NaN, zeros of both signs and the largest numbers."""
    s, shape = Sketch(draws), draws.pick(SHAPES)
    element = draws.pick(["f32", "f32", "f16", "bf16"])
    reading = ELEMENTS[element].reading
    some = draws.pick([("inf", "-inf", "nan"), ("inf",), ("nan",), ("inf", "-inf"), ("nan", "-nan", "-inf")])
    numbers = [0.0, -0.0, 1.0, -1.0, 2.0, -3.0, 4.0, 7.0, 0.5, -6.0, 3.0][: draws.integer(3, 11)]
    drawn = [
        float(some[draws.integer(0, len(some) - 1)])
        if draws.chance(25)
        else numbers[draws.integer(0, len(numbers) - 1)]
        for _ in range(37)
    ]
    x = s.array(element, shape, ("listed", tuple(drawn)))
    s.kernel(f"at = {places(shape)}", f"v = tl.load({x} + at)")
    s.reads(f"v = {x}.astype(np.float64)")
    without = any(one != one for one in drawn)
    for number in range(draws.integer(1, 4)):
        axis = draws.integer(0, len(shape) - 1)
        rest = shape[:axis] + shape[axis + 1 :]
        kinds = [
            "sum",
            "max",
            "min",
            "cumsum",
            "sort",
            "descending",
            "maximum",
            "minimum",
            "clamp",
            "compare",
            "flip",
            "count",
            "all NaN",
        ]
        how = draws.pick(kinds + ([] if without else ["argmax", "argmin", "topk"]))
        _fold(s, draws, how, number, shape, axis, rest, element, reading)
    return s


def _fold(s: Sketch, draws: Draws, how: str, number: int, shape, axis: int, rest, element: str, reading: str) -> None:
    name, last, to = f"r{number}", len(shape) - 1, f".to({ELEMENTS[element].tl})"
    if how in ("sum", "max", "min", "argmax", "argmin"):
        kernel = (
            f"tl.{how}(v{'.to(tl.float32)' if how == 'sum' else ''}, axis={axis})"  # narrow sums may round on the way
        )
        text = {
            "sum": "v.sum({0})",
            "max": "np.fmax.reduce(v, {0})",
            "min": "np.fmin.reduce(v, {0})",
            "argmax": "v.argmax({0})",
            "argmin": "v.argmin({0})",
        }[how].format(axis)
        out, kind = rest or (1,), "i32" if how.startswith("arg") else element
        kernel = f"{kernel}{'' if kind == 'i32' else to}"
    elif how == "all NaN":  # a fold that hands a NaN on
        s.function("@triton.jit\ndef either(a, b):\n    return tl.maximum(a, b, propagate_nan=tl.PropagateNan.ALL)")
        kernel, text, out, kind = f"tl.reduce(v.to(tl.float32), {axis}, either)", f"v.max({axis})", rest or (1,), "f32"
    elif how == "cumsum":
        reverse = draws.chance(40)
        kernel = f"tl.cumsum(v.to(tl.float32), {axis}{', reverse=True' if reverse else ''})"
        flip = "np.flip({0}, %d)" % axis if reverse else "{0}"
        text, out, kind = flip.format(f"np.cumsum({flip.format('v')}, {axis})"), shape, "f32"
    elif how in ("sort", "descending"):
        s.helper(NETWORK)
        kernel, text, out, kind = (
            f"tl.sort(v, descending={how != 'sort'})",
            f"network(v, {how != 'sort'})",
            shape,
            element,
        )
    elif how == "topk":
        kernel, text = f"tl.topk(v, 4){to}", "np.sort(v, -1)[..., ::-1][..., :4]"
        out, kind = (*shape[:-1], 4), element
    elif how in ("maximum", "minimum"):
        spread = draws.chance(50)
        more = ", propagate_nan=tl.PropagateNan.ALL" if spread else ""
        kernel = f"tl.{how}(v, tl.flip(v, {axis}){more}){to}"
        function = f"np.{how}" if spread else "np.f" + how[:3]
        text, out, kind = f"{function}(v, np.flip(v, {axis}))", shape, element
    elif how == "clamp":
        kernel, out, kind = "tl.clamp(v.to(tl.float32), -2.0, 3.0, propagate_nan=tl.PropagateNan.ALL)", shape, "f32"
        text = "np.clip(v, -2, 3)"
    elif how == "compare":
        sign = draws.pick(["<", ">", "<=", ">=", "==", "!="])
        kernel, out, kind = f"(v {sign} tl.flip(v, {axis})).to(tl.int32)", shape, "i32"
        text = f"v {sign} np.flip(v, {axis})"
    elif how == "flip":
        kernel, text, out, kind = f"tl.flip(v, {axis})", f"np.flip(v, {axis})", shape, element
    else:
        kernel, out, kind = f"tl.sum((v != v).to(tl.int32), axis={last})", shape[:-1] or (1,), "i32"
        text = f"np.isnan(v).sum({last})"
    y = s.output(kind, out)
    s.kernel(f"{name} = {kernel}")
    scalar = len(shape) == 1 and out == (1,)
    s.kernel(f"tl.store({y}{'' if scalar else f' + {places(out)}'}, {name})")
    s.reads(
        f"with np.errstate(invalid='ignore'):\n    {y}[...] = np.asarray({text}).reshape({out}).astype({ELEMENTS[kind].reading})"
    )


# name -> (parameters of one element, kernel's body, numpy's, does order not matter). Each is associative; whole numbers wrap.
COMBINERS = {
    "affine": ("a, b", "return a0 * a1, a1 * b0 + b1", "(a0 * a1, a1 * b0 + b1)", False),
    "last": (
        "a, b",
        "keep = b1 != 0\n    return tl.where(keep, a1, a0), tl.where(keep, b1, b0)",
        "((a1, b1) if b1 != 0 else (a0, b0))",
        False,
    ),
    "segments": (
        "a, b",
        "return tl.where(b1 != 0, a1, a0 + a1), b0 | b1",
        "(a1 if b1 != 0 else a0 + a1, b0 | b1)",
        False,
    ),
    "best": (
        "a, b",
        "first = (a0 > a1) | ((a0 == a1) & (b0 < b1))\n    return tl.where(first, a0, a1), tl.where(first, b0, b1)",
        "((a0, b0) if (a0, -b0) > (a1, -b1) else (a1, b1))",
        True,
    ),
    "extent": ("a, b", "return tl.minimum(a0, a1), tl.maximum(b0, b1)", "(min(a0, a1), max(b0, b1))", True),
    "sums": ("a, b", "return a0 + a1, b0 ^ b1", "(a0 + a1, b0 ^ b1)", True),
    "matrix": (
        "a, b, c, d",
        "return a0 * a1 + b0 * c1, a0 * b1 + b0 * d1, c0 * a1 + d0 * c1, c0 * b1 + d0 * d1",
        "(a0 * a1 + b0 * c1, a0 * b1 + b0 * d1, c0 * a1 + d0 * c1, c0 * b1 + d0 * d1)",
        False,
    ),
    "product": ("a", "return a0 * a1", "(a0 * a1,)", True),
    "bits": ("a, b", "return a0 & a1, b0 | b1", "(a0 & a1, b0 | b1)", True),
}
FOLDED = '''
def folded(tiles, axis, combine, backwards, bits):
    """All partial folds along an axis, one element after the other, as Python's whole numbers of so many bits."""
    tiles = [np.moveaxis(tile.astype(object), axis, 0) for tile in tiles]
    tiles = [tile[::-1] for tile in tiles] if backwards else tiles
    out = [tile.copy() for tile in tiles]
    half = 1 << bits - 1
    for place in np.ndindex(tiles[0].shape[1:]):
        held = tuple(int(tile[(0, *place)]) for tile in tiles)
        for row in range(1, len(tiles[0])):
            held = combine(*held, *(int(tile[(row, *place)]) for tile in tiles))
            held = tuple((int(one) + half) % (2 * half) - half for one in held)
            for tile, one in zip(out, held):
                tile[(row, *place)] = one
    out = [tile[::-1] for tile in out] if backwards else out
    return [np.moveaxis(tile, 0, axis) for tile in out]
'''


@family(2)
def scans(draws: Draws):
    """Scans, in both directions, and reductions by combinations of the author's own, of one to four tiles at once."""
    s, shape = Sketch(draws), draws.pick(SHAPES)
    how = draws.pick(list(COMBINERS))
    parts, body, text, free = COMBINERS[how]
    names = parts.split(", ")
    element = draws.pick(["i32", "i32", "i64"])
    axis = draws.integer(0, len(shape) - 1)
    reduce = free and draws.chance(50)
    backwards = not reduce and draws.chance(40)
    first, second = (", ".join(f"{name}{which}" for name in names) for which in (0, 1))
    s.function(f"@triton.jit\ndef {how}({first}, {second}):\n    {body}")
    s.helper(FOLDED)
    s.helper(f"def {how}({first}, {second}):\n    return {text}")
    s.kernel(f"at = {places(shape)}")
    for number, name in enumerate(names):
        marks = number and how in ("last", "segments")
        fill = ("ints", 0 if marks else -3, 1 if marks else 3, s.seed())
        if how in ("best", "extent", "sums", "bits") and draws.chance(30):
            fill = ("edges", s.seed())
        x = s.array(element, shape, fill)
        s.kernel(f"{name} = tl.load({x} + at)")
        s.reads(f"{name} = {x}")
    given = ", ".join(names) if len(names) == 1 else f"({', '.join(names)})"
    made = ", ".join(f"r{name}" for name in names)
    word = (
        f"tl.reduce({given}, {axis}, {how})"
        if reduce
        else (f"tl.associative_scan({given}, {axis}, {how}{', reverse=True' if backwards else ''})")
    )
    s.kernel(f"{made} = {word}")
    bits = 8 * ELEMENTS[element].bytes
    s.reads(f"[{made}] = folded([{', '.join(names)}], {axis}, {how}, {backwards}, {bits})")
    out = (shape[:axis] + shape[axis + 1 :] or (1,)) if reduce else shape
    for name in names:
        y = s.output(element, out)
        whole = f"np.reshape(np.take(r{name}, -1, {axis}), {out})" if reduce else f"r{name}"
        scalar = reduce and len(shape) == 1
        s.kernel(f"tl.store({y}{'' if scalar else f' + {places(out)}'}, r{name})")
        s.reads(f"{y}[...] = np.asarray({whole}).astype({ELEMENTS[element].reading})")
    return s
