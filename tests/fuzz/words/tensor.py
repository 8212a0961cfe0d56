"""Arrays in tensor memory that live on: written whole and in part, read in as many ways, at slots that loops decide.

Chips from sm_100a on have it. An array is filled before anything reads it; in numpy it is an array of the same shape. For example:

    bt0 = tlx.local_alloc((128, 32), tl.float32, 2, tlx.storage_kind.tmem)      bt0 = np.zeros((2, 128, 32), np.float32)
    tlx.local_store(bt0[i0 % 2], v3)                                            bt0[i0 % 2] = v3
"""

from __future__ import annotations

from dataclasses import dataclass

from ..elements import ELEMENTS
from ..maker import Maker
from ..tree import Value
from . import word
from .shared import HOLDS, held, slot_index
from .tiles import within

WARPS = (4, 8)  # of a task that reads or writes tensor memory
TOTAL = 1 << 21  # the magnitude of what an accumulator may come to
KINDS = ("f32", "f16", "bf16", "i32")


@dataclass(frozen=True)
class TensorArray:
    """`count` buffers of `shape` in tensor memory. What holds sums is not bounded by `HOLDS`."""

    name: str
    element: str
    shape: tuple[int, int]
    count: int

    @property
    def bound(self) -> int:
        return TOTAL if self.element in ("f32", "i32") else HOLDS

    def slot(self, index: str) -> str:
        return f"{self.name}[{index}]"


def columns(element: str, shape) -> int:
    """The columns of 32 bits that one buffer takes."""
    return -(-shape[1] * ELEMENTS[element].bytes // 4)


def new_tensor(make: Maker, element: str | None = None, shape=None, count: int | None = None, filled: bool = True):
    """An array in the head, every buffer of it written in the block at hand; None if there are no columns left for it."""
    draws = make.draws
    element = element or draws.pick(KINDS)
    shape = shape or (draws.pick([128, 64]), draws.pick([32, 16, 64, 128, 8]))
    count = count or draws.pick([1, 2, 3])
    if not make.tensor(count * columns(element, shape)):
        return None
    name, tl_name = make.name("bt"), ELEMENTS[element].tl
    make.head.append(f"{name} = tlx.local_alloc({shape}, {tl_name}, {count}, tlx.storage_kind.tmem)")
    make.captured.append(name)
    make.reading_head.append(f"{name} = np.zeros({(count, *shape)}, {ELEMENTS[element].reading})")
    array = TensorArray(name, element, shape, count)
    if filled:
        number = draws.integer(0, 3)
        for slot in range(count):
            store(make, array, str(slot), full(element, shape, number + slot))
    make.tensors.append(array)
    return array


def full(element: str, shape, number: int) -> Value:
    """A tile of one number."""
    reading = f"np.full({shape}, {number}).astype({ELEMENTS[element].reading})"
    return Value(f"tl.full({list(shape)}, {number}, {ELEMENTS[element].tl})", reading, element, tuple(shape), number)


def a_tensor(make: Maker, elements=KINDS, rows=(64, 128)):
    """An array in sight that fits, or a new one."""
    fitting = [one for one in make.tensors if one.element in elements and one.shape[0] in rows]
    if fitting and not make.draws.chance(20):
        return make.draws.pick(fitting)
    shape = (make.draws.pick(rows), make.draws.pick([32, 16, 64, 128]))
    return new_tensor(make, make.draws.pick(elements), shape)


def store(make: Maker, array: TensorArray, index: str, value: Value) -> None:
    """Write one buffer whole."""
    make.step(
        [f"tlx.local_store({array.slot(index)}, {value.kernel})"],
        [f"{array.slot(index)} = {value.reading}"],
        value.uses,
        (*value.states, array.name),
        warps=WARPS,
    )


def whole(array: TensorArray, index: str) -> Value:
    """All of one buffer, as an expression."""
    slot, states = array.slot(index), frozenset({array.name})
    return Value(f"tlx.local_load({slot})", f"{slot}.copy()", array.element, array.shape, array.bound, states=states)


@word("tensor", 3)
def writes(make: Maker):
    array = a_tensor(make)
    if array is None:
        return False
    store(make, array, slot_index(make, array), held(make.operand(shape=array.shape), array.element))


@word("tensor", 4)
def reads(make: Maker):
    array = a_tensor(make)
    if array is None:
        return False
    make.let(whole(array, slot_index(make, array)), warps=WARPS)


@word("tensor", 2)
def counts(make: Maker):
    """Read, change and write back: how often the place was reached."""
    array = a_tensor(make, ("i32", "f32"))
    if array is None:
        return False
    index = slot_index(make, array)
    value = within(whole(array, index), HOLDS - 1)
    more = f"cast(wide({value.reading}) + 1, {ELEMENTS[array.element].reading})"
    store(make, array, index, Value(f"{value.kernel} + 1", more, array.element, array.shape, HOLDS, states=value.states))


def part_of(make: Maker, array: TensorArray, index: str) -> tuple[str, str, tuple[int, int]]:
    """(kernel text, numpy text, shape) of some columns of one buffer."""
    rows, extent = array.shape
    least = max(1, 4 // ELEMENTS[array.element].bytes)
    sizes = [size for size in (extent // 2, extent // 4, extent // 8) if size >= max(least, 8)] or [extent]
    size = make.draws.pick(sizes)
    offset = size * make.draws.integer(0, extent // size - 1)
    slot = array.slot(index)
    kernel = make.draws.pick(
        [f"tlx.subslice({slot}, {offset}, {size})", f"tlx.local_slice({slot}, [0, {offset}], [{rows}, {size}])"]
    )
    return kernel, f"{slot}[:, {offset}:{offset + size}]", (rows, size)


@word("tensor", 3)
def reads_a_part(make: Maker):
    array = a_tensor(make)
    if array is None:
        return False
    kernel, reading, shape = part_of(make, array, slot_index(make, array))
    value = Value(f"tlx.local_load({kernel})", f"{reading}.copy()", array.element, shape, array.bound)
    make.let(Value(**{**vars(value), "states": frozenset({array.name})}), warps=WARPS)


@word("tensor", 3)
def writes_a_part(make: Maker):
    array = a_tensor(make)
    if array is None:
        return False
    kernel, reading, shape = part_of(make, array, slot_index(make, array))
    value = held(make.operand(shape=shape), array.element)
    make.step(
        [f"tlx.local_store({kernel}, {value.kernel})"],
        [f"{reading} = {value.reading}"],
        value.uses,
        (*value.states, array.name),
        warps=WARPS,
    )


@word("tensor", 0.7)
def rounds_at_random(make: Maker):
    """Stochastic rounding of numbers that the narrower type holds: whatever the random bits are, they stay what they were."""
    element = make.draws.pick(["f16", "bf16", "f8e5", "f8e4"])
    value = within(make.operand("f32"), min(ELEMENTS[element].exact, HOLDS))
    bits = make.operand("i32", value.shape)
    kernel = f"tlx.stoch_round({value.kernel}, {ELEMENTS[element].tl}, ({bits.kernel}).to(tl.uint32, bitcast=True))"
    reading = f"cast({value.reading}, {ELEMENTS[element].reading})"
    states = value.states | bits.states
    make.let(Value(kernel, reading, element, value.shape, value.bound, value.uses | bits.uses, states))
