"""Reductions, scans, histograms: words whose result has another shape, or gathers elements along an axis."""

from __future__ import annotations

from ..maker import Maker
from ..tree import Value
from . import word
from .tiles import cast, derived, finish, within


def along(make: Maker, one: Value):
    """(axis, the other axes' shape) of a reduction that leaves a tile."""
    axis = make.draws.integer(0, len(one.shape) - 1)
    return axis, one.shape[:axis] + one.shape[axis + 1 :]


def settled(make: Maker, parts, kernel: str, reading: str, element: str, shape, bound) -> None:
    """A reduced tile under a name; a scalar becomes a tile again by being added to one."""
    if shape:
        finish(make, derived(parts, kernel, reading, element, shape, bound))
        return
    line = make.shape(1)
    base = Value(f"tl.zeros({list(line)}, {'tl.int32' if element == 'i32' else 'tl.float32'})", "0", element, line, 0)
    finish(
        make, derived((*parts, base), f"{base.kernel} + {kernel}", f"np.full({line}, {reading})", element, line, bound)
    )


@word("sums", 3)
def reductions(make: Maker):
    element = make.draws.pick(["i32", "f32"])
    one = within(make.operand(element), 1 << 12)
    axis, rest = along(make, one)
    how = make.draws.pick(["sum", "max", "min", "xor_sum", "reduce"])
    if element == "f32" and how == "xor_sum":
        how = "sum"
    extent = one.shape[axis]
    if how == "reduce":
        make.function("add", "@triton.jit\ndef combine_add(a, b):\n    return a + b\n")
        kernel, reading, bound = (
            f"tl.reduce({one.kernel}, {axis}, combine_add)",
            f"wide({one.reading}).sum({axis})",
            one.bound * extent,
        )
    else:
        kernel = f"tl.{how}({one.kernel}, axis={axis})"
        reading = {
            "sum": f"wide({one.reading}).sum({axis})",
            "max": f"wide({one.reading}).max({axis})",
            "min": f"wide({one.reading}).min({axis})",
            "xor_sum": f"np.bitwise_xor.reduce(wide({one.reading}), {axis})",
        }[how]
        bound = {"sum": one.bound * extent, "xor_sum": 1 << 13}.get(how, one.bound)
    if rest and make.draws.chance(30) and how != "reduce":
        wide = tuple(one.shape)
        value = derived(
            (one,),
            f"tl.broadcast_to({kernel[:-1]}, keep_dims=True), {list(wide)})",
            f"np.broadcast_to(np.expand_dims({reading}, {axis}), {wide})",
            element,
            wide,
            bound,
        )
        finish(make, value)
        return
    settled(make, (one,), kernel, reading, element, rest, bound)


@word("sums", 1)
def places(make: Maker):
    """Where the largest or smallest element is: the first of equals."""
    element = make.draws.pick(["i32", "f32"])
    one = make.operand(element)
    axis, rest = along(make, one)
    name = make.draws.pick(["max", "min"])
    kernel, reading = f"tl.arg{name}({one.kernel}, {axis})", f"np.arg{name}({one.reading}, {axis})"
    if make.draws.chance(40) and rest:
        both, where = make.name("h"), make.name("h")
        value = derived((one,), where, reading, "i32", rest, one.shape[axis])
        make.let(value, before=[f"{both}, {where} = tl.{name}({one.kernel}, {axis}, return_indices=True)"])
        return
    settled(make, (one,), kernel, reading, "i32", rest, one.shape[axis])


@word("sums", 1.5)
def scans(make: Maker):
    element = make.draws.pick(["i32", "f32"])
    one = within(make.operand(element), 1 << 10)
    axis = make.draws.integer(0, len(one.shape) - 1)
    how = make.draws.pick(["cumsum", "reverse", "scan", "cumprod"])
    bound = one.bound * one.shape[axis]
    if how == "cumprod":
        line = derived(
            (one,),
            f"(1 - 2 * ({one.kernel} > 0).to(tl.int32))",
            f"1 - 2 * (wide({one.reading}) > 0)",
            "i32",
            one.shape,
            1,
        )
        finish(
            make,
            derived(
                (line,),
                f"tl.cumprod({line.kernel}, {axis})",
                f"np.cumprod(wide({line.reading}), {axis})",
                "i32",
                one.shape,
                1,
            ),
        )
    elif how == "reverse":
        finish(
            make,
            derived(
                (one,),
                f"tl.cumsum({one.kernel}, {axis}, reverse=True)",
                f"np.flip(np.cumsum(np.flip(wide({one.reading}), {axis}), {axis}), {axis})",
                element,
                one.shape,
                bound,
            ),
        )
    elif how == "scan":
        make.function("max", "@triton.jit\ndef combine_max(a, b):\n    return tl.maximum(a, b)\n")
        finish(
            make,
            derived(
                (one,),
                f"tl.associative_scan({one.kernel}, {axis}, combine_max)",
                f"np.maximum.accumulate(wide({one.reading}), {axis})",
                element,
                one.shape,
                one.bound,
            ),
        )
    else:
        finish(
            make,
            derived(
                (one,),
                f"tl.cumsum({one.kernel}, {axis})",
                f"np.cumsum(wide({one.reading}), {axis})",
                element,
                one.shape,
                bound,
            ),
        )


@word("sums", 1)
def histograms(make: Maker):
    one = make.operand("i32", rank=1)
    bins = make.draws.pick([8, 16, 32])
    kernel, reading = f"{one.kernel} & {bins - 1}", f"wide({one.reading}) & {bins - 1}"
    if make.draws.chance(40):
        limit = make.draws.integer(0, one.size)
        finish(
            make,
            derived(
                (one,),
                f"tl.histogram({kernel}, {bins}, mask=tl.arange(0, {one.size}) < {limit})",
                f"np.bincount(({reading})[:{limit}], minlength={bins})",
                "i32",
                (bins,),
                one.size,
            ),
        )
    else:
        finish(
            make,
            derived(
                (one,),
                f"tl.histogram({kernel}, {bins})",
                f"np.bincount({reading}, minlength={bins})",
                "i32",
                (bins,),
                one.size,
            ),
        )


@word("tle_tiles", 1.5)
def exclusive_sums(make: Maker):
    """tle.cumsum: the sums before each element, and the sum of all."""
    element = make.draws.pick(["i32", "f32", "i16"])
    one = within(make.operand(element, rank=1), 1 << 9)
    if element == "i16":
        one = cast(one, "i16")
    given = "i32" if element == "i16" else element
    before, total = make.name("h"), make.name("h")
    reverse = make.draws.chance(40)
    order = f"np.flip(wide({one.reading}))" if reverse else f"wide({one.reading})"
    sums = f"(np.cumsum({order}) - {order})"
    if reverse:
        sums = f"np.flip{sums}"
    value = derived(
        (one,), f"{before} + {total}", f"{sums} + wide({one.reading}).sum()", given, one.shape, one.bound * one.size * 2
    )
    make.let(value, before=[f"{before}, {total} = tle.cumsum({one.kernel}{', reverse=True' if reverse else ''})"])
