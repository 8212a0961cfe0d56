"""Products of tiles: tl.dot, the asynchronous dot of buffers and registers, the scaled one.

Operands are small integers, so that every order of summing, and the tensor cores' shorter sums of fp8, give the same number.
"""

from __future__ import annotations

from dataclasses import replace

from ..elements import ELEMENTS
from ..maker import Maker
from ..tree import Dot, Line, Mark, Value
from . import word
from .carries import Carried, new_sum
from .shared import held
from .tiles import SMALL, cast, load_tile, within

TYPES = ("f16", "bf16", "f32", "f8e5", "f8e4", "i8")


def into(make: Maker, m: int, n: int, element: str) -> Carried:
    """An accumulator in sight, or a new one in this block."""
    fitting = [one for one in make.carried if one.product and one.shape == (m, n) and one.element == element]
    return make.draws.pick(fitting) if fitting else new_sum(make, (m, n), element, product=True)


def operand(make: Maker, element: str, shape) -> Value:
    """A tile of small numbers for a dot, by any way that gives one."""
    limit = 3 if ELEMENTS[element].bytes == 1 else 8
    if element in ("f8e5", "f8e4") or make.draws.chance(40):
        low = load_tile(make, element, shape)
        return low if limit > SMALL or element != "i8" else within(low, limit)
    return make.let(cast(within(make.operand(shape=shape), limit), element))


def sizes(make: Maker) -> tuple[int, int, int]:
    """m, n, k that make a product of tiles in sight, or any."""
    draws = make.draws
    products = [one.shape for one in make.carried if one.product]
    m, n = (
        draws.pick(products) if products and draws.chance(75) else (draws.pick([16, 32, 64]), draws.pick([16, 32, 64]))
    )
    ks = [shape[1] for shape in make.shapes if len(shape) == 2 and shape[0] == m and shape[1] >= 16]
    return m, n, draws.pick(ks) if ks and draws.chance(60) else draws.pick([16, 32, 64])


@word("dots", 4)
def plain_dot(make: Maker):
    element = make.draws.pick(TYPES, [5, 2, 1, 1, 1, 1])
    m, n, k = sizes(make)
    if ELEMENTS[element].bytes == 1:
        k = max(k, 32)
    products = [one for one in make.carried if one.product]
    result = "i32" if element == "i8" else "f32"
    if products and result not in [one.element for one in products]:
        element, result = "f16", "f32"
    total = into(make, m, n, result)
    m, n = total.shape
    a, b = operand(make, element, (m, k)), operand(make, element, (k, n))
    more = ", out_dtype=tl.int32" if result == "i32" else ""
    if element == "f32":
        more = make.draws.pick(
            ["", ", input_precision='ieee'", *([] if make.amd else [", input_precision='tf32x3'"]), ", input_precision='tf32'"]
        )
    if "tf32x3" in more:
        make.skips["gfx"] = "tf32x3 is NVIDIA's"
    form = make.draws.pick(
        [
            f"{total.name} = tl.dot({a.kernel}, {b.kernel}, {total.name}{more})",
            f"{total.name} += tl.dot({a.kernel}, {b.kernel}{more})",
        ],
        [4, 1],
    )
    dot = Dot(a.kernel, b.kernel, total.name) if a.uses == {a.kernel} and b.uses == {b.kernel} and not more else None
    make.step(
        [form],
        [f"{total.name} = cast(wide({total.name}) + wide({a.reading}) @ wide({b.reading}), {total.name}.dtype)"],
        a.uses | b.uses,
        (*a.states, *b.states, total.name),
        dot=dot,
    )


def dot_buffer(make: Maker, element: str, shape, across: bool) -> tuple[str, str]:
    """(buffer, reading) of an operand for the tensor core; `across`: it lies transposed, and is read through a view."""
    stored = shape[::-1] if across else shape
    name = make.name("b")
    make.head.append(f"{name} = tlx.local_alloc({stored}, {ELEMENTS[element].tl}, 1)")
    make.captured.append(name)
    tile = operand(make, element, stored)
    make.step(
        [f"tlx.local_store({name}[0], {tile.kernel})"], [f"{name} = {tile.reading}"], tile.uses, (*tile.states, name)
    )
    return name, f"{name}.T" if across else name


@word("async_dots", 3)
def async_dots(make: Maker):
    """One to three wgmma groups in flight, of buffers and of registers, waited for all at once or the last one late."""
    draws = make.draws
    element = draws.pick(TYPES, [4, 2, 1, 1, 1, 1])
    m, n, k = draws.pick([64, 128]), draws.pick([16, 32, 64]), draws.pick([32, 64])
    if not make.shared((m * k + k * n) * ELEMENTS[element].bytes) or 0 in (make.trips(),):
        return False
    make.skips["compile sm_100a"] = "there an asynchronous dot writes tensor memory, which is not offered yet"
    narrow = ELEMENTS[element].bytes != 2  # these read K-contiguous tiles only
    result = "i32" if element == "i8" else "f32"
    a, a_reading = dot_buffer(make, element, (m, k), False)
    b_across = narrow or draws.chance(40)
    b, b_reading = dot_buffer(make, element, (k, n), b_across)
    a_slot, b_slot = f"{a}[0]", f"tlx.local_trans({b}[0])" if b_across else f"{b}[0]"
    state = [a, b]
    if element == "f16" and draws.chance(35):
        registers = operand(make, element, (m, k))
        a_slot, a_reading, uses = registers.kernel, registers.reading, registers.uses
    else:
        uses = frozenset()
    count = draws.integer(1, 3)
    name = make.name("e")
    more = ", out_dtype=tl.int32" if result == "i32" else ""
    lines = [f"{name} = tlx.async_dot({a_slot}, {b_slot}{more})"]
    lines += [f"{name} = tlx.async_dot({a_slot}, {b_slot}, {name}{more})" for _ in range(count - 1)]
    if count > 1 and draws.chance(50):
        lines.append(f"{name} = tlx.async_dot_wait(1, {name})")
    channel = f"w{a}"
    lines.append(Line(f"{name} = tlx.async_dot_wait(0, {name})", Mark("wait of a dot", channel)))
    value = Value(
        name,
        f"cast((wide({a_reading}) @ wide({b_reading})) * {count}, {ELEMENTS[result].reading})",
        result,
        (m, n),
        64 * k * count,
        uses,
        frozenset(state),
    )
    step = make.let(value, before=lines, warps=(4, 8))
    node = make.nodes.pop()
    make.nodes.append(replace(node, reading=(f"seen('{channel}')", *node.reading)))
    return step


@word("dots", 1)
def scaled_dot(make: Maker):
    """tl.dot_scaled with factors that are powers of two."""
    m, n, k = 64, make.draws.pick([32, 64]), 64
    a, b = load_tile(make, "f8e4", (m, k)), load_tile(make, "f8e4", (k, n))
    power = make.draws.integer(0, 2)
    factor = f"tl.full([{m}, {k // 32}], {127 + power}, tl.uint8)"
    value = Value(
        f"tl.dot_scaled({a.kernel}, {factor}, 'e4m3', {b.kernel}, None, 'e4m3')",
        f"cast(wide({a.reading}) @ wide({b.reading}) * {2**power}, np.float32)",
        "f32",
        (m, n),
        16 * k * 4,
        a.uses | b.uses,
    )
    make.let(value, warps=(4, 8))


@word("dots", 1)
def batches(make: Maker):
    """A dot of two small products at once."""
    one = within(make.operand("f32", (32, 16)), 8)
    pair = f"tl.reshape({one.kernel}, (2, 16, 16))"
    kernel = f"tl.reshape(tl.dot({pair}, {pair}, input_precision='ieee'), (32, 16))"
    reading = f"cast((wide({one.reading}).reshape(2, 16, 16) @ wide({one.reading}).reshape(2, 16, 16)).reshape(32, 16), np.float32)"
    make.let(Value(kernel, reading, "f32", (32, 16), 64 * 16, one.uses, one.states))


@word("dots", 1)
def dot_of_a_buffer(make: Maker):
    """A plain dot whose operand is read from a buffer that the same task filled."""
    if not make.shared(64 * 64 * 2):
        return False
    m, k = make.draws.pick([(64, 32), (32, 32), (64, 64)])
    name, across = make.name("b"), make.draws.chance(40)
    tile = held(make.operand(shape=(m, k)), "f16")
    make.head.append(f"{name} = tlx.local_alloc({(m, k)}, tl.float16, 1)")
    make.captured.append(name)
    make.step(
        [f"tlx.local_store({name}[0], {tile.kernel})"], [f"{name} = {tile.reading}"], tile.uses, (*tile.states, name)
    )
    other = operand(make, "f16", (k, 32) if not across else (m, 32))
    slot = f"tlx.local_load(tlx.local_trans({name}[0]))" if across else f"tlx.local_load({name}[0])"
    rows = k if across else m
    reading = f"{name}.T" if across else name
    make.let(
        Value(
            f"tl.dot({slot}, {other.kernel})",
            f"cast(wide({reading}) @ wide({other.reading}), np.float32)",
            "f32",
            (rows, 32),
            64 * max(m, k),
            other.uses,
            frozenset({name}),
        )
    )
