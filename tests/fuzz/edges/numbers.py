"""Casts between all types, and arithmetic of whole numbers where it wraps, overflows or divides by -1.

The reference of a cast rounds by itself, bit by bit; that of whole numbers computes with Python's, which have no width:

    rounded(1.0625, "f8e4")     1.0, the even neighbour         turned(-128, "//", -1, 8)     -128
"""

from __future__ import annotations

from ..draws import Draws
from ..elements import ELEMENTS
from . import family
from .sketch import Sketch, places

FLOATS = ("f32", "f16", "bf16", "f8e4", "f8e5")
WIDE = ("f32", "f16", "bf16")
INTEGERS = ("i32", "i64", "i16", "i8", "u8", "u16", "u32", "u64")
SHAPES = ((64,), (128,), (256,), (16, 16), (4, 64), (8, 4, 8))

ROUNDED = '''
FORMATS = {"f32": (23, -126, 3.4028234663852886e38, np.inf), "f16": (10, -14, 65504.0, np.inf),
           "bf16": (7, -126, 3.3895313892515355e38, np.inf), "f8e4": (3, -6, 448.0, 448.0), "f8e5": (2, -14, 57344.0, 57344.0)}


def rounded(value, name, to_zero=False):
    """Numbers as a float format has them, as longdoubles: ties go to the even neighbour; formats of 8 bits know no infinity."""
    bits, least, most, over = FORMATS[name]
    value = np.asarray(value).astype(np.longdouble)
    step = np.maximum(np.frexp(np.where(np.isfinite(value), value, 0))[1] - 1, least) - bits
    scaled = np.ldexp(value, -step)
    near = np.ldexp(np.trunc(scaled) if to_zero else np.rint(scaled), step)
    beyond = np.where(np.isinf(value), over, most if to_zero else over)
    return np.where(np.abs(near) > most, np.copysign(beyond, value), np.where(np.isnan(value), np.nan, near))
'''
WHOLE = '''
def whole(value, low, high):
    """Floats to whole numbers: towards zero, as far as the instruction goes, which has 16 bits at least; a NaN gives 0."""
    out = np.zeros(value.shape, object)
    bottom, top = (low, high) if high > 255 else (-(1 << 15), (1 << 15) - 1) if low else (0, (1 << 16) - 1)
    for place in np.ndindex(value.shape):
        one = value[place]
        out[place] = 0 if np.isnan(one) else bottom if one <= bottom else top if one >= top else int(one)
    return wrapped(out, low, high)


def wrapped(value, low, high):
    """Python's whole numbers as a type of that range keeps them."""
    return (value - low) % (high - low + 1) + low
'''
TURNED = '''
def turned(one, how, other, low, high):
    """An operation on Python's whole numbers, as the hardware has it: division goes towards zero, a shift by the width or more
    leaves nothing but the sign, a negative distance is a long one."""
    bits = (high - low + 1).bit_length() - 1
    if how == "<<":
        made = one << other if 0 <= other < bits else 0
    elif how == ">>":
        made = one >> (other if 0 <= other < bits else bits)
    elif how in ("//", "%"):
        quotient = abs(one) // abs(other) * (1 if (one < 0) == (other < 0) else -1)
        made = quotient if how == "//" else one - quotient * other
    elif how == "abs":
        made = abs(one)
    elif how == "umulhi":
        made = one * other >> bits
    else:
        made = {"+": one + other, "-": one - other, "*": one * other, "&": one & other, "|": one | other, "^": one ^ other,
                "min": min(one, other), "max": max(one, other), "neg": -one, "~": ~one, "<": one < other, ">=": one >= other,
                "==": one == other}[how]
    return (made - low) % (high - low + 1) + low


def each(one, how, other, low, high):
    """`turned` of all elements."""
    out = np.zeros(one.shape, object)
    for place in np.ndindex(one.shape):
        out[place] = turned(int(one[place]), how, int(other[place]), low, high)
    return out
'''


def limits(element: str) -> tuple[int, int]:
    bits = 8 * ELEMENTS[element].bytes
    return (0, (1 << bits) - 1) if element[0] == "u" else (-(1 << bits - 1), (1 << bits - 1) - 1)


@family(2)
def casts(draws: Draws):
    """A tile of edge numbers through one to four casts; each result is an output of its own type."""
    s, shape = Sketch(draws), draws.pick(SHAPES)
    element = draws.pick(draws.pick([FLOATS, FLOATS, INTEGERS]))
    x = s.array(element, shape, ("edges", s.seed(), ("subnormal",) if element == "f32" and draws.chance(50) else ()))
    s.helper(ROUNDED)
    s.helper(WHOLE)
    s.kernel(f"at = {places(shape)}", f"v0 = tl.load({x} + at)")
    s.reads(f"v0 = {x}.astype(np.longdouble if {element[0] == 'f' or element == 'bf16'} else object)")
    held = shape[-1] * ELEMENTS[element].bytes >= 16 and draws.chance(30)
    if held:  # through shared memory, where 8-bit floats lie as they are
        s.kernel(
            f"held = tlx.local_alloc({shape}, {ELEMENTS[element].tl}, 1)",
            "tlx.local_store(held[0], v0)",
            "v0 = tlx.local_load(held[0])",
        )
    s.skips["gfx"] = "the instructions of NVIDIA are what the numbers are from"
    for number in range(1, draws.integer(1, 4) + 1):
        element = _one_cast(s, draws, element, number)
        y = s.output(element, shape)
        s.kernel(f"tl.store({y} + at, v{number})")
        s.reads(f"{y}[...] = v{number}.astype({ELEMENTS[element].reading})")
    return s


def _one_cast(s: Sketch, draws: Draws, source: str, number: int) -> str:
    """v{number}, a cast of the one before; gives its type. Triton has no casts between whole numbers and floats of 8 bits."""
    narrow = source in ("f8e4", "f8e5")
    floats = FLOATS if source in WIDE else WIDE
    target = draws.pick(floats if narrow else draws.pick([floats, floats, INTEGERS]))
    low, high = limits(target) if target in INTEGERS else (0, 0)
    before, more = f"v{number - 1}", ""
    if target in INTEGERS and source in WIDE:
        before = _within(s, before, low, high)
    if target in INTEGERS:
        reading = f"{'whole' if source in WIDE else 'wrapped'}({before}, {low}, {high})"
    else:
        zero = source == "f32" and target in ("f16", "bf16") and draws.chance(30)
        more = ", fp_downcast_rounding='rtz'" if zero else ""
        reading = f"rounded({before}, {target!r}, {zero})"
    cast = f"{before}.to({ELEMENTS[target].tl}{more})"
    if (source, target) == ("f8e5", "bf16"):  # Triton makes numbers of infinities and NaN: tests/triton_port/test_casts.py
        cast = f"tl.where(tl.abs({before}.to(tl.float32)) < 1e30, {cast}, 0.0)"
        reading = f"np.where(np.isfinite({before}), {reading}, 0.0)"
    s.kernel(f"v{number} = {cast}")
    s.reads(f"v{number} = {reading}")
    return target


def _within(s: Sketch, value: str, low: int, high: int) -> str:
    """The value with zeros for what such a whole number does not hold, NaN among it: of these the conversion is undefined (LLVM,
    fptosi). On an H100 a later conversion back gave the float that had not fit."""
    lower = f">= {float(low)}" if low else "> -1.0"
    above = float(high + 1)
    s.kernel(f"f{value} = {value}.to(tl.float32)")
    s.kernel(f"{value} = tl.where((f{value} {lower}) & (f{value} < {above}), {value}, 0.0)")
    s.reads(f"{value} = np.where(({value} {lower}) & ({value} < {above}), {value}, 0.0)")
    return value


@family(2)
def wraps(draws: Draws):
    """Whole numbers at the ends of their types: two to five operations, each on what there is so far, and folds of the results."""
    s, shape, element = Sketch(draws), draws.pick(SHAPES), draws.pick(INTEGERS)
    low, high = limits(element)
    bits = 8 * ELEMENTS[element].bytes
    s.helper(TURNED)
    s.helper(WHOLE)
    s.kernel(f"at = {places(shape)}")
    tiles = []
    for name in ("a", "b"):
        x = s.array(element, shape, ("edges", s.seed()))
        s.kernel(f"{name} = tl.load({x} + at)")
        s.reads(f"{name} = {x}.astype(object)")
        tiles.append(name)
    far = [0, 1, 2, bits - 1, bits, bits + 1, 3, min(2 * bits, high), *([-1, -bits] if low else [high])]
    by = s.array(element, shape, ("listed", tuple(far[draws.integer(0, len(far) - 1)] for _ in range(7))))
    divisors = [*([-1, -1, low, -2, -7] if low else []), 1, 2, 3, 7, high, high - 1, high // 2 + 1]
    over = s.array(element, shape, ("listed", tuple(divisors[draws.integer(0, len(divisors) - 1)] for _ in range(9))))
    s.kernel(f"by, over = tl.load({by} + at), tl.load({over} + at)")
    s.reads(f"by, over = {by}.astype(object), {over}.astype(object)")
    signed = ["neg", "abs"] if low else (["umulhi"] if bits in (32, 64) else [])
    operations = ["<<", ">>", "//", "%", "+", "-", "*", "&", "|", "^", "min", "max", "~", "<", ">=", "==", *signed]
    for number in range(draws.integer(2, 5)):
        how, one, other = draws.pick(operations), tiles[-1 - draws.integer(0, 1)], draws.pick(tiles)
        name = f"r{number}"
        other = {"<<": "by", ">>": "by", "//": "over", "%": "over"}.get(how, other)
        text = {
            "neg": f"-{one}",
            "abs": f"tl.abs({one})",
            "~": f"~{one}",
            "min": f"tl.minimum({one}, {other})",
            "max": f"tl.maximum({one}, {other})",
            "umulhi": f"tl.umulhi({one}, {other})",
        }.get(how, f"{one} {how} {other}")
        cast = f".to({ELEMENTS[element].tl})"  # minima and comparisons have another type
        s.kernel(f"{name} = ({text}){cast}")
        s.reads(f"{name} = each({one}, {how!r}, {other}, {low}, {high})")
        tiles.append(name)
    for name in tiles[2:]:
        y = s.output(element, shape)
        s.kernel(f"tl.store({y} + at, {name})")
        s.reads(f"{y}[...] = {name}.astype({ELEMENTS[element].reading})")
    for _ in range(draws.integer(0, 2)):
        folded(s, draws, draws.pick(tiles), shape, element)
    return s


def folded(s: Sketch, draws: Draws, name: str, shape, element: str) -> None:
    """A reduction, scan or sort along an axis. Narrow types are widened to 32 bits first, but by scans and sorts."""
    axis = draws.integer(0, len(shape) - 1)
    rest = shape[:axis] + shape[axis + 1 :] or (1,)
    wide = element if ELEMENTS[element].bytes >= 4 else "u32" if element[0] == "u" else "i32"
    how = draws.pick(["sum", "max", "min", "xor_sum", "argmax", "argmin", "cumsum", "sort", "topk"])
    flat = f" + {places(rest)}" if len(shape) > 1 else ""
    if how in ("sort", "topk"):
        falls = how == "topk" or draws.chance(50)
        word = f"tl.topk({name}, 4)" if how == "topk" else f"tl.sort({name}, descending={falls})"
        reading = f"np.sort({name}, -1){'[..., ::-1]' if falls else ''}{'[..., :4]' if how == 'topk' else ''}"
        out, kind, flat = (*shape[:-1], 4) if how == "topk" else shape, element, ""
        flat = f" + {places(out)}"
    elif how == "cumsum":
        reverse = draws.chance(40)
        word = f"tl.cumsum({name}, {axis}{', reverse=True' if reverse else ''})"
        reading = f"np.cumsum(np.flip({name}, {axis}), {axis})" if reverse else f"np.cumsum({name}, {axis})"
        reading = f"np.flip({reading}, {axis})" if reverse else reading
        out, kind, flat = shape, wide, f" + {places(shape)}"
    elif how in ("argmax", "argmin"):
        word, out, kind = f"tl.{how}({name}, {axis})", rest, "i32"
        reading = f"np.{how}({name}.astype(np.{'u' if element[0] == 'u' else ''}int64), {axis})"
    else:
        function = {"sum": "np.add", "max": "np.maximum", "min": "np.minimum", "xor_sum": "np.bitwise_xor"}[how]
        word, reading, out = f"tl.{how}({name}, axis={axis})", f"{function}.reduce({name}, {axis})", rest
        kind = element if how == "xor_sum" else wide
    y, (low, high) = s.output(kind, out), limits(kind)
    s.kernel(f"tl.store({y}{flat}, ({word}).to({ELEMENTS[kind].tl}))")
    s.reads(f"{y}[...] = wrapped(np.asarray({reading}, object).reshape({out}), {low}, {high}).astype({ELEMENTS[kind].reading})")
