"""The rest: threads, clocks, votes, random numbers, mathematics that rounds, hints, assertions, helpers."""

from __future__ import annotations

from ..maker import Maker
from ..tree import Value
from . import word
from .globals import output
from .tiles import cast, derived, finish, offsets, within

MATH = {
    "tl.exp({} * 0.25)": "np.exp({} * 0.25)",
    "tl.exp2({})": "np.exp2({})",
    "tl.log(tl.abs({}) + 1.0)": "np.log(np.abs({}) + 1)",
    "tl.log2(tl.abs({}) + 1.0)": "np.log2(np.abs({}) + 1)",
    "tl.sqrt(tl.abs({}))": "np.sqrt(np.abs({}))",
    "tl.rsqrt(tl.abs({}) + 1.0)": "1 / np.sqrt(np.abs({}) + 1)",
    "tl.sin({})": "np.sin({})",
    "tl.cos({})": "np.cos({})",
    "tl.floor({} * 0.5)": "np.floor({} * 0.5)",
    "tl.ceil({} * 0.5)": "np.ceil({} * 0.5)",
    "{} / 3.0": "{} / 3",
    "tl.div_rn({}, 3.0)": "{} / 3",
    "tl.fdiv({}, 3.0)": "{} / 3",
    "tl.fdiv({}, 3.0, approx=True)": "{} / 3",
    "tl.sqrt_rn(tl.abs({}))": "np.sqrt(np.abs({}))",
    "tl.erf({})": "np.vectorize(math.erf)({})",
    "tl.sigmoid({})": "1 / (1 + np.exp(-({})))",
    "{} % 3.0": "np.fmod({}, 3)",
    "libdevice.tanh({})": "np.tanh({})",
    "libdevice.pow(tl.abs({}) + 1.0, 1.5)": "(np.abs({}) + 1) ** 1.5",
    "tl.softmax({})": None,
}


@word("math", 2)
def rounding(make: Maker):
    """Functions whose results are rounded, straight into outputs that are compared with a tolerance."""
    for _ in range(make.draws.integer(1, 3)):
        one_function(make)


def one_function(make: Maker) -> None:
    kernel = make.draws.pick(sorted(MATH))
    one = within(make.operand("f32", rank=1 if "softmax" in kernel else None), 8)
    if MATH[kernel] is None:
        text = f"np.exp(wide({one.reading})) / np.exp(wide({one.reading})).sum()"
    else:
        text = MATH[kernel].format(f"wide({one.reading})")
    output(
        make,
        derived((one,), kernel.format(f"({one.kernel})"), text, "f32", one.shape, float("inf")),
        2e-5,
        ways=("plain", "descriptor"),
    )


@word("misc", 1)
def threads(make: Maker):
    """The first thread of each warp may store a word; a scalar is stored by the task's first thread."""
    out = make.array("i32", (make.instances(),), ("zeros",), output=True)
    make.step(
        ["if tlx.thread_id(0) % 32 == 0:", f"    tl.store({out} + __{out}__{make.instance()}, 3)"],
        [f"{out}[{make.instance()}] = 3"],
    )


@word("misc", 1)
def clocks(make: Maker):
    line = make.shape(1)
    name = make.name("h")
    make.let(
        Value(
            f"tl.zeros({list(line)}, tl.int32) + (tlx.clock64() - {name} >= 0).to(tl.int32)",
            f"np.ones({line}, np.int32)",
            "i32",
            line,
            1,
        ),
        before=[f"{name} = tlx.clock64()"],
    )


@word("misc", 1)
def votes(make: Maker):
    """All lanes agree, so the ballot is all ones."""
    if make.amd:
        return False
    line = make.shape(1)
    make.skips["gfx"] = "vote_ballot_sync is a word of NVIDIA's"
    make.let(
        Value(
            f"tl.zeros({list(line)}, tl.int32) + tlx.vote_ballot_sync(0xFFFFFFFF, flag < 100)",
            f"np.full({line}, -1, np.int32)",
            "i32",
            line,
            1,
        )
    )


@word("misc", 1)
def random_numbers(make: Maker):
    """The same seed gives the same number, between 0 and 1; the generator's words are pairwise equal."""
    line = make.shape(1)
    one, other = make.name("h"), make.name("h")
    what = make.draws.pick(
        [
            ("tl.rand(3, {0})", "({0} >= 0) & ({0} < 1)"),
            ("tl.randint(5, {0})", "({0} == {0})"),
            ("tl.randn(7, {0})", "({0} == {0})"),
        ]
    )
    draw = what[0].format(offsets(line))
    make.let(
        Value(
            f"(({one} == {other}) & {what[1].format(one)}).to(tl.int32)", f"np.ones({line}, np.int32)", "i32", line, 1
        ),
        before=[f"{one} = {draw}", f"{other} = {draw}"],
    )


@word("misc", 1)
def hints(make: Maker):
    one = make.operand("i32")
    rank = len(one.shape)
    name = make.draws.pick(["multiple_of", "max_contiguous", "max_constancy"])
    ones = ", ".join("1" for _ in range(rank))
    finish(
        make,
        derived((one,), f"tl.{name}({one.kernel}, [{ones}]) + 0", one.reading, "i32", one.shape, one.bound, whole=True),
    )


@word("misc", 1)
def facts(make: Maker):
    """Assumptions and assertions that hold, at run time and while compiling."""
    text = make.draws.pick(
        [
            "tl.assume(flag < 100)",
            "tl.device_assert(flag < 100, 'flag')",
            "tl.static_assert(2 > 1)",
            "if flag > 100:\n    tl.device_print('never', flag)",
        ]
    )
    make.step([text], ["pass"])


@word("misc", 1)
def helper(make: Maker):
    """A function of the module, with early returns, that a program may call from several places. The `else`: a program without
    words of ours is Triton's, which reads on behind the return of a branch that it knows to be taken."""
    one = make.operand(make.draws.pick(["i32", "f32"]))
    one = within(one, 1 << 12)
    make.function(
        "clip",
        "@mimw.jit\ndef clipped(value, low: tl.constexpr, high):\n    if low is None:\n        return value\n"
        "    else:\n        if high < low:\n            return value - value\n        return tl.maximum(value, low)\n",
    )
    low = make.draws.pick([None, 0, 2])
    reading = f"wide({one.reading})" if low is None else f"np.maximum(wide({one.reading}), {low})"
    finish(
        make, derived((one,), f"clipped({one.kernel}, {low}, flag + 9)", reading, one.element, one.shape, one.bound + 2)
    )


@word("misc", 1)
def element_functions(make: Maker):
    """tl.map_elementwise with control flow of its own for each element."""
    one = within(make.operand("i32"), 30)
    if one.size * make.instances() > 4096:  # the simulator runs it once for each element
        return False
    make.function(
        "walk",
        "@triton.jit\ndef walk(n, steps):\n    while n > 1 and steps < 8:\n        if n % 2 == 0:\n            n = n // 2\n"
        "        else:\n            n = 3 * n + 1\n        steps += 1\n    return n, steps\n",
    )
    make.reading_function(
        "walked",
        "def walked(tile):\n    out = np.zeros(tile.shape, np.int32)\n    for place in np.ndindex(tile.shape):\n"
        "        n, steps = int(tile[place]), 0\n        while n > 1 and steps < 8:\n"
        "            n, steps = (n // 2 if n % 2 == 0 else 3 * n + 1), steps + 1\n        out[place] = steps\n    return out\n",
    )
    ends, steps = make.name("h"), make.name("h")
    make.let(
        derived((one,), steps, f"walked({one.reading})", "i32", one.shape, 8, whole=True),
        before=[f"{ends}, {steps} = tl.map_elementwise(walk, {one.kernel}, tl.zeros({list(one.shape)}, tl.int32))"],
    )


@word("misc", 1)
def swizzles(make: Maker):
    """tl.swizzle2d of a scalar position."""
    line = make.shape(1)
    a, b = make.name("h"), make.name("h")
    make.let(
        Value(
            f"tl.zeros({list(line)}, tl.int32) + {a} * 4 + {b}",
            f"np.full({line}, swizzled(pid % 4, flag % 4), np.int32)",
            "i32",
            line,
            64,
        ),
        before=[f"{a}, {b} = tl.swizzle2d(pid % 4, flag % 4, 4, 4, 2)"],
    )


@word("misc", 0.7)
def sizes(make: Maker):
    """Sizes and types that are known while compiling; the names of fp8 formats."""
    line = make.shape(1)
    array = make.array("f16", (16,), ("ints", 0, 3))
    name = make.name("F")
    make.let(
        Value(
            f"tl.full({list(line)}, tlx.size_of(tlx.dtype_of({array})), tl.int32)",
            f"np.full({line}, 2, np.int32)",
            "i32",
            line,
            2,
        )
    )
    if make.around:  # a constexpr is named once, and an unrolled loop would name it again
        return
    make.step(
        [f"{name}: tl.constexpr = tlx.get_fp8_format_name(tl.float8e5)", f"tl.static_assert({name} == 'e5m2')"],
        ["pass"],
    )


@word("misc", 0.7)
def uniform(make: Maker):
    line = make.shape(1)
    make.let(
        Value(
            f"tl.zeros({list(line)}, tl.int32) + tlx.assume_uniform(flag + pid)",
            f"np.full({line}, flag + pid, np.int32)",
            "i32",
            line,
            64,
        )
    )


@word("misc", 1)
def while_on_data(make: Maker):
    """A loop whose end the data decides."""
    one = within(make.operand("i32", rank=1), 15)
    left, steps = make.name("h"), make.name("h")
    total = f"tl.sum(tl.abs({one.kernel}), 0)"
    line = one.shape
    make.let(
        derived(
            (one,),
            f"tl.zeros({list(line)}, tl.int32) + {steps}",
            f"np.full({line}, halvings(np.abs(wide({one.reading})).sum()))",
            "i32",
            line,
            32,
        ),
        before=[
            f"{left} = {total}",
            f"{steps} = 0",
            f"while {left} > 0:",
            f"    {left} = {left} // 2",
            f"    {steps} += 1",
        ],
    )


@word("misc", 0.7)
def branch_on_data(make: Maker):
    """A run-time branch that gives a tile either way."""
    one = cast(within(make.operand("i32", rank=1), 100), "i32")
    name = make.name("h")
    make.let(
        derived(
            (one,),
            name,
            f"wide({one.reading}) * 2 if wide({one.reading}).max() > 3 else wide({one.reading}) - 1",
            "i32",
            one.shape,
            202,
        ),
        before=[
            f"if tl.max({one.kernel}, 0) > 3:",
            f"    {name} = {one.kernel} * 2",
            "else:",
            f"    {name} = {one.kernel} - 1",
        ],
    )


@word("assembly", 1)
def assembly(make: Maker):
    """Inline assembly for each element, that a compiler must neither drop nor move past others of its kind."""
    if make.amd:
        return False
    one = make.operand("i32")
    make.skips["gfx"] = "NVIDIA's assembly"
    pure = make.draws.pick(["True", "False"])
    finish(
        make,
        derived(
            (one,),
            f"tl.inline_asm_elementwise('add.s32 $0, $1, 5;', '=r,r', [{one.kernel}], dtype=tl.int32, is_pure={pure}, pack=1)",
            f"wide({one.reading}) + 5",
            "i32",
            one.shape,
            one.bound + 5,
        ),
    )


@word("misc", 0.7)
def launches_that_overlap(make: Maker):
    """Programmatic dependent launch: nothing to wait for, unless the launch asks for it."""
    if make.amd:
        return False
    make.skips["gfx"] = "dependent launches are NVIDIA's"
    make.step([make.draws.pick(["gdc_wait()", "gdc_launch_dependents()"])], ["pass"])


@word("misc", 0.7)
def addresses(make: Maker):
    """A pointer as a number and back."""
    from .tiles import SMALL, input_array

    shape = make.shape(1)
    array = input_array(make, "f32", shape)
    make.let(
        Value(
            f"tl.load(({array} + {make.instance()} * {shape[0]} + {offsets(shape)}).to(tl.uint64).to(tl.pointer_type(tl.float32)))",
            f"take({array}, {make.instance()}, {shape})",
            "f32",
            shape,
            SMALL,
        )
    )


@word("misc", 0.7)
def unsigned_comparisons(make: Maker):
    one = make.operand("u32")
    by, compare = make.draws.integer(0, 5), make.draws.pick([">=", "<", "<=", ">"])
    finish(
        make,
        derived(
            (one,),
            f"tl.where({one.kernel} {compare} {by}, {one.kernel}, {one.kernel} + 1)",
            f"np.where(wide({one.reading}) {compare} {by}, wide({one.reading}), wide({one.reading}) + 1)",
            "u32",
            one.shape,
            1 << 32,
        ),
    )


@word("math", 0.7)
def fast_functions(make: Maker):
    """Library functions that numpy has, too, of two arguments."""
    one = within(make.operand("f32"), 8)
    kernel, reading = make.draws.pick(
        [
            ("libdevice.hypot({0}, {0})", "np.hypot({0}, {0})"),
            ("libdevice.atan2({0}, {0} + 9.0)", "np.arctan2({0}, {0} + 9)"),
            ("libdevice.fmod({0}, 3.0)", "np.fmod({0}, 3)"),
            ("libdevice.cbrt({0})", "np.cbrt({0})"),
        ]
    )
    if "cbrt" in kernel:
        make.skips["gfx"] = "AMD's libdevice has no such function"
    output(
        make,
        derived(
            (one,), kernel.format(one.kernel), reading.format(f"wide({one.reading})"), "f32", one.shape, float("inf")
        ),
        2e-5,
        ways=("plain",),
    )
