"""Products that add up in tensor memory: `async_dot` and `async_dot_scaled` of one CTA, in every form in which they are waited for.

Operands are buffers that the task itself stores, in shared or, of A, in tensor memory; the accumulator is a buffer of an array in
tensor memory, or some of its columns. The values are small integers, so that every order of summing gives the same number:

    tlx.async_dot(b0[0], b1[0], bt0[1], use_acc=i0 > 0, mBarriers=[bar0[0]])
    tlx.barrier_wait(bar0[0], i0 & 1)
"""

from __future__ import annotations

from dataclasses import replace

from ..blocks import statement
from ..elements import ELEMENTS
from ..maker import Maker
from ..tree import Line, Mark, Value
from . import word
from .copies import round_of
from .dots import operand
from .shared import slot_index
from .tensor import WARPS, TensorArray, columns, new_tensor

TYPES = ("f16", "bf16", "f32", "f8e5", "f8e4", "i8")
COVERED = "covered product wait"
DEPTHS = {1: (32, 64), 2: (16, 32, 64), 4: (16, 32)}


class Factor:
    """An operand in the head of the kernel, and the lines that store it."""

    def __init__(self, make: Maker, element: str, shape: tuple[int, int], where: str):
        """`where`: rows (as it is), across (transposed, read through a view), tensor (in tensor memory)."""
        self.name = make.name("b")
        stored = shape[::-1] if where == "across" else shape
        storage = ", tlx.storage_kind.tmem" if where == "tensor" else ""
        make.head.append(f"{self.name} = tlx.local_alloc({stored}, {ELEMENTS[element].tl}, 1{storage})")
        make.captured.append(self.name)
        self.tile = operand(make, element, stored)
        self.view = f"tlx.local_trans({self.name}[0])" if where == "across" else f"{self.name}[0]"
        self.reading = f"{self.name}.T" if where == "across" else self.name
        self.store = f"tlx.local_store({self.name}[0], {self.tile.kernel})"
        self.kept = f"{self.name} = {self.tile.reading}"


def factors(make: Maker, element: str, m: int, n: int, k: int) -> tuple[Factor, Factor] | None:
    """Both operands, where there is room for them."""
    draws, size = make.draws, ELEMENTS[element].bytes
    if not make.shared((m * k + k * n) * size):
        return None
    in_tensor = m == 128 and draws.chance(30) and make.tensor(columns(element, (m, k)))
    turned = size < 4 and draws.chance(35)
    a = Factor(make, element, (m, k), "tensor" if in_tensor else "across" if turned else "rows")
    second = draws.pick(["f8e4", "f8e5"]) if element in ("f8e4", "f8e5") and draws.chance(30) else element
    b = Factor(make, second, (k, n), "across" if size == 4 or draws.chance(50) else "rows")
    return a, b


def accumulator(make: Maker, result: str, m: int, n: int) -> tuple[TensorArray, str, str] | None:
    """(array, kernel text, numpy text) of (m, n) elements: one buffer, or columns of a wider one."""
    fitting = [one for one in make.tensors if one.element == result and one.shape[0] == m and one.shape[1] >= n]
    array = make.draws.pick(fitting) if fitting and make.draws.chance(70) else None
    if array is None:
        wide = n * 2 if make.draws.chance(25) and n <= 64 else n
        array = new_tensor(make, result, (m, wide), make.draws.pick([1, 2, 3]))
    if array is None:
        return None
    slot = array.slot(slot_index(make, array))
    if array.shape[1] == n:
        return array, slot, slot
    offset = n * make.draws.integer(0, array.shape[1] // n - 1)
    return array, f"tlx.subslice({slot}, {offset}, {n})", f"{slot}[:, {offset}:{offset + n}]"


def condition(make: Maker, simple: str) -> tuple[str, str]:
    """A scalar condition for `use_acc` or `pred`, in both languages; `simple` is the constant that asks for nothing."""
    kind = make.draws.pick(["simple", "flag", "loop", "other"], [5, 2, 3, 1])
    if kind == "other":
        other = {"True": "False", "False": "True"}[simple]
        return other, other
    if kind == "flag":
        return ("flag == 1",) * 2
    if kind == "loop" and make.around:
        return (make.draws.pick([f"{make.around[-1].variable} > 0", f"{make.around[0].variable} % 2 == 0"]),) * 2
    return simple, simple


def waited(make: Maker, form: str, when: str) -> tuple[str, list, list, list[str]]:
    """(arguments of the product, lines behind it, lines that wait, numpy lines): how its end is told, and found out."""
    if form == "sync":
        return "", [], [], []
    bars, count = make.name("bar"), 2 if form == "two" else 1
    make.head.append(f"{bars} = tlx.alloc_barriers({count})")
    make.captured.append(bars)
    phase, counted = round_of(make, bars)
    channel = f"p{bars}"
    if when != "True":  # no arrival comes where the product is skipped, so each has its own count
        phase, counted = f"r_{bars} & 1", [f"if {when}:\n    r_{bars} += 1"]
    role = "product wait" if count == 1 and when == "True" else COVERED
    more = f", pred={when}" if when != "True" else ""
    waits = [Line(f"tlx.barrier_wait({bars}[{i}], {phase}{more})", Mark(role, channel)) for i in range(count)]
    readings = [f"seen('{channel}')"] if when == "True" else []
    if form == "commit":
        commit = Line(f"tlx.tcgen05_commit({bars}[0])", Mark("product commit", channel))
        return ", force_async=True", [commit], [*waits, *counted], readings
    given = ", ".join(f"{bars}[{i}]" for i in range(count))
    return f", mBarriers=[{given}]", [], [*waits, *counted], readings


@word("products", 5)
def product(make: Maker):
    """One to three products into one accumulator, and what it holds then; other statements may stand between issue and wait."""
    draws = make.draws
    if make.trips() == 0:
        return False
    element = draws.pick(TYPES, [4, 3, 1, 1, 1, 1])
    m, n = draws.pick([128, 64]), draws.pick([32, 16, 64, 128])
    k = draws.pick(DEPTHS[ELEMENTS[element].bytes])
    result = "i32" if element == "i8" else "f32"
    found = accumulator(make, result, m, n)
    pair = factors(make, element, m, n, k) if found else None
    if pair is None:
        return False
    (array, acc, reading), (a, b) = found, pair
    use, used = condition(make, "True")
    form = draws.pick(["barrier", "commit", "sync", "two"], [4, 3, 2, 1])
    when, held = condition(make, "True") if form in ("barrier", "sync", "two") and draws.chance(30) else ("True", "True")
    if when == "False":
        when = held = "flag == 1"
    count = draws.integer(1, 3) if form == "commit" else 1
    more, behind, waits, readings = waited(make, form, when)
    pred = f", pred={when}" if when != "True" else ""
    first = "" if use == "True" and draws.chance(50) else f", use_acc={use}"
    dots = [f"tlx.async_dot({a.view}, {b.view}, {acc}{first}{pred}{more}{precision(make, element, result)})"]
    dots += [f"tlx.async_dot({a.view}, {b.view}, {acc}, force_async=True)"] * (count - 1)
    name = f"q{array.name}"
    lines = [
        a.kept,
        b.kept,
        *readings,
        f"{name} = (wide({a.reading}) @ wide({b.reading}))",
        f"if {held}:",
        f"    {reading} = cast((wide({reading}) if {used} else 0) + {name} * {count}, {ELEMENTS[result].reading})",
    ]
    states = frozenset({array.name, a.name, b.name, f"w{array.name}", *a.tile.states, *b.tile.states})
    uses = a.tile.uses | b.tile.uses
    make.step([a.store, b.store, *dots, *behind], lines, uses, states, warps=WARPS, private=True)
    if form != "sync" and draws.chance(40):
        held_back, make.tensors = make.tensors, [one for one in make.tensors if one is not array]
        before, first = len(make.tensors), len(make.nodes)
        with draws.span():
            statement(make, 0)
        made, make.tensors = make.tensors[before:], held_back
        make.tensors += made
        between = [line.text for node in make.nodes[first:] for line in getattr(node, "kernel", ())]
        if any("async_dot" in text or "tmem_copy" in text for text in between):
            waits = [replace(one, mark=replace(one.mark, role=COVERED)) if isinstance(one, Line) else one for one in waits]
    value = Value(f"tlx.local_load({acc})", f"{reading}.copy()", result, (m, n), array.bound, states=states)
    make.let(value, before=waits, warps=WARPS, private=True)


def precision(make: Maker, element: str, result: str) -> str:
    if result == "i32":
        return ", out_dtype=tl.int32" if make.draws.chance(50) else ""
    return ", input_precision='tf32'" if element == "f32" and make.draws.chance(50) else ""


@word("products", 1)
def scaled(make: Maker):
    """A block-scaled product of fp8; the scales are powers of two, stored to tensor memory, or packed in shared memory."""
    draws = make.draws
    m, n, k = 128, draws.pick([64, 32, 128]), draws.pick([128, 64])
    place = draws.pick(["stored", "packed", "copied"] if k == 128 and n == 128 else ["stored"])
    # The product takes columns for its scales also where these lie in shared memory.
    room = make.shared((m * k + k * n) + 4096) and make.trips() and make.tensor(4 * (k // 32))
    found = accumulator(make, "f32", m, n) if room else None
    if found is None:
        return False
    array, acc, reading = found
    names = {"f8e4": "e4m3", "f8e5": "e5m2"}
    first, second = draws.pick(list(names)), draws.pick(list(names))
    a, b = Factor(make, first, (m, k), "rows"), Factor(make, second, (k, n), "across" if draws.chance(60) else "rows")
    powers = [draws.integer(0, 2), draws.integer(0, 2)]
    scales, lines = [], []
    for rows, power in zip((m, n), powers):
        table, shape = make.name("b"), (rows, k // 32)
        packed = (1, k // 128, 32, 16)
        where = f"{table}[0]"
        if place != "stored":
            make.head.append(f"{table} = tlx.local_alloc({packed}, tl.uint8, 1)")
            lines.append(f"tlx.local_store({table}[0], tl.full({list(packed)}, {127 + power}, tl.uint8))")
            make.captured.append(table)
            table = make.name("b") if place == "copied" else table
        if place != "packed":
            make.head.append(f"{table} = tlx.local_alloc({shape}, tl.uint8, 1, tlx.storage_kind.tmem)")
            make.captured.append(table)
            if place == "stored":
                lines.append(f"tlx.local_store({table}[0], tl.full({list(shape)}, {127 + power}, tl.uint8))")
            else:
                lines.append(f"tlx.tmem_copy({where}, {table}[0])")
        scales.append(f"{table}[0]")
    form = draws.pick(["barrier", "commit", "sync"])
    more, behind, waits, readings = waited(make, form, "True")
    use, used = condition(make, "False")
    dot = (
        f"tlx.async_dot_scaled({a.view}, {b.view}, {acc}, {scales[0]}, '{names[first]}', {scales[1]}, '{names[second]}', "
        f"use_acc={use}{more})"
    )
    factor = 2 ** sum(powers)
    kept = f"cast((wide({reading}) if {used} else 0) + wide({a.reading}) @ wide({b.reading}) * {factor}, np.float32)"
    states = frozenset({array.name, a.name, b.name, *a.tile.states, *b.tile.states})
    make.step(
        [*lines, a.store, b.store, dot, *behind],
        [a.kept, b.kept, *readings, f"{reading} = {kept}"],
        a.tile.uses | b.tile.uses,
        states,
        warps=WARPS,
        private=True,
    )
    value = Value(f"tlx.local_load({acc})", f"{reading}.copy()", "f32", (m, n), array.bound, states=states)
    make.let(value, before=waits, warps=WARPS, private=True)
