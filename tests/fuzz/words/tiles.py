"""New tiles, and what is done element by element.

In kernels the arithmetic is Triton's; the numpy side computes in 64 bits and casts back, which is the same, since generated
values are integers that every step keeps exact (`Value.bound`), and integer types wrap.
"""

from __future__ import annotations

from ..elements import ELEMENTS
from ..maker import ARITHMETIC, Maker
from ..tree import Load, Value
from . import word

SMALL = 4  # the magnitude of input values


def offsets(shape: tuple[int, ...]) -> str:
    """The row-major element numbers of a tile, in a kernel."""
    if len(shape) == 1:
        return f"tl.arange(0, {shape[0]})"
    if len(shape) == 2:
        return f"(tl.arange(0, {shape[0]})[:, None] * {shape[1]} + tl.arange(0, {shape[1]})[None, :])"
    raise AssertionError(shape)


def numbers(shape: tuple[int, ...]) -> str:
    """The same in numpy."""
    count = 1
    for extent in shape:
        count *= extent
    return f"np.arange({count}).reshape({shape})"


def kind(element: str) -> str:
    return ELEMENTS[element].kind


def cast(value: Value, element: str) -> Value:
    """The value as another type; floats that could be out of an integer type's range are clipped first."""
    if value.element == element:
        return value
    if kind(element) != "int" or value.bound > ELEMENTS[element].exact:
        value = within(value, min(value.bound, ELEMENTS[element].exact))
    source = value.element
    if kind(element) == "uint" and kind(source) != "uint":
        value = Value(
            f"tl.abs({value.kernel})",
            f"np.abs(wide({value.reading}))",
            source,
            value.shape,
            value.bound,
            value.uses,
            value.states,
        )
    # bf16 and fp8 reach small integer types through float32, as every chip does it.
    through = ".to(tl.float32)" if source in ("bf16", "f8e4", "f8e5") or element in ("f8e4", "f8e5") else ""
    return Value(
        f"({value.kernel}){through}.to({ELEMENTS[element].tl})",
        f"cast({value.reading}, {ELEMENTS[element].reading})",
        element,
        value.shape,
        value.bound,
        value.uses,
        value.states,
    )


def within(value: Value, bound: float) -> Value:
    """The value, clipped to that magnitude if it can be larger."""
    if value.bound <= bound:
        return value
    bound = int(bound)
    low = 0 if kind(value.element) == "uint" else -bound
    narrow = (
        f".to({ELEMENTS[value.element].tl})" if kind(value.element) != "float" else ""
    )  # numbers are 32 bits wide there
    return derived(
        (value,),
        f"tl.minimum(tl.maximum({value.kernel}, {low}), {bound}){narrow}",
        f"np.clip(wide({value.reading}), {low}, {bound})",
        value.element,
        value.shape,
        bound,
    )


def derived(
    parts, kernel: str, reading: str, element: str, shape: tuple[int, ...], bound: float, whole: bool = False
) -> Value:
    """A value made from `parts`; `reading` gives 64-bit numbers, which are cast, unless `whole`."""
    uses = frozenset().union(*(part.uses for part in parts))
    states = frozenset().union(*(part.states for part in parts))
    text = reading if whole else f"cast({reading}, {ELEMENTS[element].reading})"
    if kind(element) != "float":
        bound = min(bound, ELEMENTS[element].exact)
    return Value(kernel, text, element, tuple(shape), bound, uses, states)


def fits(element: str, bound: float) -> bool:
    return kind(element) != "float" or bound <= ELEMENTS[element].exact


def fresh(make: Maker, element: str, shape: tuple[int, ...], bound: float | None = None) -> Value:
    """A tile that depends on no other."""
    how = make.draws.pick(["load", "range", "full", "zeros"], [8, 1, 1, 0.5])
    if how == "load":
        return load_tile(make, element, shape)
    limit = min(bound or 8, 8)
    if how == "range":
        mask = 3 if limit < 8 else 7
        return make.let(
            Value(
                f"({offsets(shape)} & {mask}).to({ELEMENTS[element].tl})",
                f"cast({numbers(shape)} & {mask}, {ELEMENTS[element].reading})",
                element,
                shape,
                mask,
            )
        )
    number = 0 if how == "zeros" else make.draws.integer(0, 3)
    tl_name = ELEMENTS[element].tl
    kernel = {"full": f"tl.full({list(shape)}, {number}, {tl_name})", "zeros": f"tl.zeros({list(shape)}, {tl_name})"}[
        how
    ]
    return make.let(
        Value(kernel, f"np.full({shape}, {number}).astype({ELEMENTS[element].reading})", element, shape, number)
    )


def input_array(make: Maker, element: str, shape: tuple[int, ...]) -> str:
    """An input with a tile for each time that this place is reached."""
    rows = make.instances() * (shape[0] if len(shape) == 2 else 1)
    low = 0 if kind(element) == "uint" else -SMALL
    size = (rows, shape[-1]) if len(shape) == 2 else (make.instances() * shape[0],)
    return make.array(element, size, ("ints", low, SMALL))


def load_tile(make: Maker, element: str, shape: tuple[int, ...]) -> Value:
    """One tile of an input, by one of the ways to load."""
    array, size, draws = input_array(make, element, shape), shape[0] * (shape[1] if len(shape) == 2 else 1), make.draws
    index, where = make.instance(), offsets(shape)
    pointer = f"{array} + {index} * {size} + {where}"
    reading = f"take({array}, {index}, {shape})"
    ways = (
        ["plain", "masked", "tle"]
        if make.limits.portable
        else ["plain", "masked", "tle", "policy", "descriptor", "made"]
    )
    way = draws.pick(ways, [8, 2, 1, 1, 2, 1][: len(ways)])
    if way in ("descriptor", "made") and shape[-1] * ELEMENTS[element].bytes < 16 or size > 65536:
        way = "plain"
    if way == "masked" and ELEMENTS[element].exact > 16:  # Triton casts no number to fp8
        valid = draws.integer(0, size)
        limit = make.number(valid, "m")
        other = draws.integer(0, 3)
        return make.let(
            Value(
                f"tl.load({pointer}, mask={where} < {limit}, other={other})",
                f"np.where({numbers(shape)} < {limit}, {reading}, {ELEMENTS[element].reading}({other}))"
                f".astype({ELEMENTS[element].reading})",
                element,
                shape,
                SMALL,
            )
        )
    if way in ("descriptor", "made"):
        at = f"[{index} * {shape[0]}, 0]" if len(shape) == 2 else f"[{index} * {shape[0]}]"
        full = make.arguments[array].shape
        if way == "descriptor":
            return make.let(Value(f"{make.descriptor(array, shape)}.load({at})", reading, element, shape, SMALL))
        name = make.name("t")
        strides = f"[{full[1]}, 1]" if len(shape) == 2 else "[1]"
        return make.let(
            Value(f"{name}.load({at})", reading, element, shape, SMALL),
            before=[f"{name} = tl.make_tensor_descriptor({array}, {list(full)}, {strides}, {list(shape)})"],
        )
    if way == "tle":
        kernel = f"tle.load({pointer}, is_async=True)"
    elif way == "policy":
        kernel = (
            f"tl.load({pointer}, "
            + draws.pick(
                [
                    "cache_modifier='.cg'",
                    "eviction_policy='evict_first'",
                    "volatile=True",
                    "cache_modifier='.ca'",
                    "eviction_policy='evict_last'",
                ]
            )
            + ")"
        )
    else:
        kernel = f"tl.load({pointer})"
    value = Value(kernel, reading, element, shape, SMALL)
    return make.let(value, load=Load(array, index) if way == "plain" else None)


def finish(make: Maker, value: Value) -> Value:
    """The value under a name, clipped so that it stays exact."""
    if not fits(value.element, value.bound):
        raise AssertionError(f"{value} is not exact")
    return make.let(value)


def pair(make: Maker, **wish) -> tuple[Value, Value]:
    one = make.operand(**wish)
    return one, make.operand(element=one.element, shape=one.shape)


@word("tiles", 3)
def sums(make: Maker):
    """+ and -."""
    one, other = pair(make)
    half = ELEMENTS[one.element].exact // 2
    one, other = (within(value, half) if kind(one.element) == "float" else value for value in (one, other))
    sign = make.draws.pick("+-")
    finish(
        make,
        derived(
            (one, other),
            f"{one.kernel} {sign} {other.kernel}",
            f"wide({one.reading}) {sign} wide({other.reading})",
            one.element,
            one.shape,
            one.bound + other.bound,
        ),
    )


@word("tiles", 2)
def products(make: Maker):
    """*, and fma."""
    one, other = pair(make)
    if kind(one.element) == "float":
        one, other = within(one, 15), within(other, 15)
    if one.element == "f32" and make.draws.chance(40):
        third = make.operand("f32", one.shape, bound=1 << 20)
        third = within(third, 1 << 20)
        return finish(
            make,
            derived(
                (one, other, third),
                f"tl.fma({one.kernel}, {other.kernel}, {third.kernel})",
                f"wide({one.reading}) * wide({other.reading}) + wide({third.reading})",
                "f32",
                one.shape,
                one.bound * other.bound + third.bound,
            ),
        )
    finish(
        make,
        derived(
            (one, other),
            f"{one.kernel} * {other.kernel}",
            f"wide({one.reading}) * wide({other.reading})",
            one.element,
            one.shape,
            one.bound * other.bound,
        ),
    )


@word("tiles", 2)
def extremes(make: Maker):
    one, other = pair(make)
    name = make.draws.pick(["minimum", "maximum"])
    more = ", propagate_nan=tl.PropagateNan.ALL" if kind(one.element) == "float" and make.draws.chance(30) else ""
    finish(
        make,
        derived(
            (one, other),
            f"tl.{name}({one.kernel}, {other.kernel}{more})",
            f"np.{name}(wide({one.reading}), wide({other.reading}))",
            one.element,
            one.shape,
            max(one.bound, other.bound),
        ),
    )


@word("tiles", 2)
def bits(make: Maker):
    """& | ^ and shifts by numbers."""
    one, other = pair(make, kinds=("int", "uint"))
    how = make.draws.pick(["&", "|", "^", "<<", ">>", "~"])
    top = ELEMENTS[one.element].exact
    if how == "~":
        value = derived((one,), f"~{one.kernel}", f"~wide({one.reading})", one.element, one.shape, top)
    elif how in ("<<", ">>"):
        by = make.draws.integer(1, 3)
        value = derived(
            (one,), f"{one.kernel} {how} {by}", f"wide({one.reading}) {how} {by}", one.element, one.shape, top
        )
    else:
        value = derived(
            (one, other),
            f"{one.kernel} {how} {other.kernel}",
            f"wide({one.reading}) {how} wide({other.reading})",
            one.element,
            one.shape,
            top,
        )
    finish(make, value)


@word("tiles", 1.5)
def divisions(make: Maker):
    """// and % of integers as in C, cdiv."""
    one = make.operand(make.draws.pick(["i32", "i64", "u32"]))
    by, how = make.draws.integer(1, 9), make.draws.pick(["//", "%", "cdiv"])
    kernel = f"tl.cdiv({one.kernel}, {by})" if how == "cdiv" else f"{one.kernel} {how} {by}"
    if how == "cdiv":
        one = within(one, 1 << 20)
        kernel = f"tl.cdiv({one.kernel}, {by})"
    reading = {
        "//": f"quotient({one.reading}, {by})",
        "%": f"rest({one.reading}, {by})",
        "cdiv": f"quotient(wide({one.reading}) + {by - 1}, {by})",
    }[how]
    finish(make, derived((one,), kernel, reading, one.element, one.shape, one.bound))


@word("tiles", 1.5)
def signs(make: Maker):
    """Negation and magnitude."""
    one = make.operand(kinds=("int", "float"))
    kernel, reading = make.draws.pick([("-{}", "-wide({})"), ("tl.abs({})", "np.abs(wide({}))")])
    finish(
        make, derived((one,), kernel.format(one.kernel), reading.format(one.reading), one.element, one.shape, one.bound)
    )


@word("tiles", 2)
def choices(make: Maker):
    """Comparisons and where, with conditions joined by & and |."""
    one, other = pair(make)
    third = make.operand(one.element, one.shape)
    compare = make.draws.pick([">", "<", ">=", "<=", "==", "!="])
    kernel, reading = f"{one.kernel} {compare} {other.kernel}", f"wide({one.reading}) {compare} wide({other.reading})"
    if make.draws.chance(30):
        join = make.draws.pick("&|")
        kernel, reading = f"({kernel}) {join} ({third.kernel} > 0)", f"({reading}) {join} (wide({third.reading}) > 0)"
    finish(
        make,
        derived(
            (one, other, third),
            f"tl.where({kernel}, {one.kernel}, {third.kernel})",
            f"np.where({reading}, wide({one.reading}), wide({third.reading}))",
            one.element,
            one.shape,
            max(one.bound, third.bound),
        ),
    )


@word("tiles", 2)
def casts(make: Maker):
    one = make.operand()
    target = make.draws.pick([name for name in make.limits.elements if name in ARITHMETIC])
    finish(make, cast(one, target))


@word("tiles", 1)
def bitcasts(make: Maker):
    """The same bits as another type, and back after a change that is no accident of rounding."""
    one = make.operand("f32" if make.draws.chance(50) else "i32")
    if one.element == "f32":
        finish(
            make,
            derived(
                (one,),
                f"{one.kernel}.to(tl.int32, bitcast=True)",
                f"({one.reading}).view(np.int32)",
                "i32",
                one.shape,
                (1 << 31) - 1,
                whole=True,
            ),
        )
    else:
        finish(
            make,
            derived(
                (one,),
                f"{one.kernel}.to(tl.uint32, bitcast=True)",
                f"({one.reading}).view(np.uint32)",
                "u32",
                one.shape,
                (1 << 32) - 1,
                whole=True,
            ),
        )


@word("tiles", 1)
def clamps(make: Maker):
    one = make.operand("f32" if make.draws.chance(60) else "f16")
    low, high = -make.draws.integer(0, 3), make.draws.integer(0, 9)
    finish(
        make,
        derived(
            (one,),
            f"tl.clamp({one.kernel}, {low}.0, {high}.0)",
            f"np.clip(wide({one.reading}), {low}, {high})",
            one.element,
            one.shape,
            max(-low, high),
        ),
    )


@word("tiles", 1)
def high_products(make: Maker):
    """The upper half of a product of unsigned words."""
    one, other = pair(make, element="u32")
    finish(
        make,
        derived(
            (one, other),
            f"tl.umulhi({one.kernel}, {other.kernel})",
            f"(({one.reading}).astype(np.uint64) * ({other.reading}).astype(np.uint64)) >> np.uint64(32)",
            "u32",
            one.shape,
            (1 << 32) - 1,
        ),
    )


@word("tiles", 1)
def with_scalars(make: Maker):
    """A tile and a scalar of the launch, a loop or the program."""
    one = make.operand(make.draws.pick(["i32", "f32"]))
    names = ["pid", "flag", *(loop.variable for loop in make.around)]
    scalar = make.draws.pick(names)
    limit = 1 << 20
    one = within(one, limit)
    sign = make.draws.pick("+-")
    finish(
        make,
        derived(
            (one,),
            f"{one.kernel} {sign} {scalar}",
            f"wide({one.reading}) {sign} {scalar}",
            one.element,
            one.shape,
            limit + 64,
        ),
    )
