"""Buffers that live on: written whole, in part, at picked elements, and read in as many ways, by one task.

In a loop with dots these are the programs that a compiler's own pipelining may break: fills under an `if`, reads before and after.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..elements import ELEMENTS
from ..maker import Maker
from ..tree import Value
from . import word
from .tiles import cast, derived, finish, numbers, offsets, within

HOLDS = 8  # the magnitude of what a buffer holds


@dataclass(frozen=True)
class Buffer:
    """`count` buffers of `shape`; `tlx` says whose words made it, hence whether it is an array with a subscript."""

    name: str
    element: str
    shape: tuple[int, ...]
    count: int
    tlx: bool
    swizzled: bool = False

    @property
    def state(self) -> str:
        return self.name

    def slot(self, index: str) -> str:
        """One buffer, in a kernel."""
        return f"{self.name}[{index}]" if self.tlx else f"{self.name}"

    def reading(self, index: str) -> str:
        return f"{self.name}[{index}]"


def new_buffer(make: Maker, shape=None, element=None, tlx=None, count=None, layout: bool = True) -> Buffer | None:
    """A buffer in the head, written once in the block at hand, so that no read of it is of nothing."""
    draws = make.draws
    shape = shape or make.shape()
    element = element or draws.pick(
        [name for name in make.limits.elements if name in ("f32", "f16", "i32", "bf16", "i8", "i16", "u8")]
    )
    tlx = (make.limits.flavour == "tlx" or draws.chance(30)) if tlx is None else tlx
    count = count or (draws.pick([1, 2, 3]) if tlx else 1)
    size = count * ELEMENTS[element].bytes * shape[0] * (shape[1] if len(shape) == 2 else 1)
    if not make.shared(size):
        return None
    name, tl_name = make.name("b"), ELEMENTS[element].tl
    pinned, padding = "", max(8, 16 // ELEMENTS[element].bytes)  # elements; accesses of 16 bytes stay aligned
    if layout and tlx and len(shape) == 2 and draws.chance(15):
        pinned = ", layout=" + draws.pick(
            [
                "tlx.swizzled_shared_layout_encoding.make_default(2)",
                *(["tlx.swizzled_layout(2, 2, 3)"] if shape[1] <= 32 else []),
                f"tlx.padded_shared_layout_encoding.with_identity_for([({shape[1]}, {padding})], {list(shape)})",
            ]
        )
    if tlx:
        make.head.append(f"{name} = tlx.local_alloc({shape}, {tl_name}, {count}{pinned})")
    else:
        scope = draws.pick(
            ["", ", scope=tle.gpu.smem", ", scope=tle.gpu.storage_kind.smem", ", nv_mma_shared_layout=False"]
        )
        make.head.append(f"{name} = tle.gpu.alloc({list(shape)}, {tl_name}{scope})")
    make.captured.append(name)
    make.reading_head.append(f"{name} = np.zeros({(count, *shape)}, {ELEMENTS[element].reading})")
    buffer = Buffer(name, element, shape, count, tlx, bool(pinned))
    first = draws.integer(0, 3)
    for slot in range(count):
        fill(
            make,
            buffer,
            str(slot),
            Value(
                f"tl.full({list(shape)}, {first + slot}, {tl_name})",
                f"np.full({shape}, {first + slot}).astype({ELEMENTS[element].reading})",
                element,
                shape,
                6,
            ),
        )
    make.buffers.append(buffer)
    return buffer


def a_buffer(make: Maker, **wish) -> Buffer | None:
    """A buffer in sight that fits, or a new one."""
    fitting = [
        one for one in make.buffers if all(value is None or getattr(one, name) == value for name, value in wish.items())
    ]
    if fitting and not make.draws.chance(20):
        return make.draws.pick(fitting)
    return new_buffer(
        make, **{name: value for name, value in wish.items() if name in ("shape", "element", "tlx", "count")}
    )


def of_rank(make: Maker, rank: int, tlx: bool | None = None) -> Buffer | None:
    fitting = [one for one in make.buffers if len(one.shape) == rank and tlx in (None, one.tlx)]
    if fitting and not make.draws.chance(20):
        return make.draws.pick(fitting)
    return new_buffer(make, shape=make.shape(rank), tlx=tlx)


def slot_index(make: Maker, buffer: Buffer) -> str:
    """Which buffer of the array: a number, or one that a loop or the program decides."""
    if buffer.count == 1:
        return "0"
    names = [loop.variable for loop in make.around] + ["pid"]
    return make.draws.pick(
        [
            f"{make.draws.pick(names)} % {buffer.count}",
            str(make.draws.integer(0, buffer.count - 1)),
            f"({make.draws.pick(names)} + 1) % {buffer.count}",
        ]
    )


def fill(make: Maker, buffer: Buffer, index: str, value: Value) -> None:
    """Write one buffer whole."""
    how = (
        [f"tlx.local_store({buffer.slot(index)}, {value.kernel})"]
        if buffer.tlx
        else [f"tl.store(tle.gpu.local_ptr({buffer.name}), {value.kernel})"]
    )
    make.step(how, [f"{buffer.reading(index)} = {value.reading}"], value.uses, (*value.states, buffer.state))


def held(value: Value, element: str) -> Value:
    """The value as a buffer may hold it: small, and of the buffer's type."""
    return cast(within(value, HOLDS), element)


def whole(make: Maker, buffer: Buffer, index: str) -> Value:
    """All of one buffer, as an expression."""
    kernel = f"tlx.local_load({buffer.slot(index)})" if buffer.tlx else f"tl.load(tle.gpu.local_ptr({buffer.name}))"
    return Value(
        kernel, f"{buffer.reading(index)}.copy()", buffer.element, buffer.shape, HOLDS, states=frozenset({buffer.state})
    )


@word("shared", 4)
def writes(make: Maker):
    buffer = a_buffer(make)
    if buffer is None:
        return False
    fill(make, buffer, slot_index(make, buffer), held(make.operand(shape=buffer.shape), buffer.element))


@word("shared", 4)
def reads(make: Maker):
    buffer = a_buffer(make)
    if buffer is None:
        return False
    make.let(whole(make, buffer, slot_index(make, buffer)))


@word("shared", 2)
def changes(make: Maker):
    """Read, change and write back in one line: a counter of how often the place was reached."""
    buffer = a_buffer(make, element="i32")
    if buffer is None:
        return False
    index = slot_index(make, buffer)
    value = whole(make, buffer, index)
    more = derived((value,), f"({value.kernel} + 1) & 7", f"(wide({value.reading}) + 1) & 7", "i32", buffer.shape, 7)
    fill(make, buffer, index, more)


@word("shared", 2)
def scatters(make: Maker):
    """local_scatter by a permutation, local_gather by any indices, along an axis."""
    buffer = of_rank(make, make.draws.pick([1, 2]), tlx=True)
    if buffer is None or buffer.swizzled:
        return False
    axis = make.draws.integer(0, len(buffer.shape) - 1)
    extent, index = buffer.shape[axis], slot_index(make, buffer)
    if make.draws.chance(50):
        value = held(make.operand(shape=buffer.shape), buffer.element)
        turn = make.draws.integer(0, extent - 1)
        places, placed = axis_numbers(buffer.shape, axis)
        make.step(
            [f"tlx.local_scatter({buffer.slot(index)}, {value.kernel}, {places} ^ {turn}, {axis})"],
            [f"np.put_along_axis({buffer.reading(index)}, {placed} ^ {turn}, {value.reading}, {axis})"],
            value.uses,
            (*value.states, buffer.state),
        )
    else:
        where = make.operand("i32", buffer.shape)
        finish(
            make,
            Value(
                f"tlx.local_gather({buffer.slot(index)}, {where.kernel} & {extent - 1}, {axis})",
                f"np.take_along_axis({buffer.reading(index)}, wide({where.reading}) & {extent - 1}, {axis})",
                buffer.element,
                buffer.shape,
                HOLDS,
                where.uses,
                where.states | {buffer.state},
            ),
        )


def axis_numbers(shape, axis: int) -> tuple[str, str]:
    """The coordinate along an axis of each element, as a tile, in both languages."""
    if len(shape) == 1:
        return offsets(shape), numbers(shape)
    spread = ("[:, None]", "[None, :]")[axis]
    return (
        f"tl.broadcast_to(tl.arange(0, {shape[axis]}){spread}, {list(shape)})",
        f"np.broadcast_to(np.arange({shape[axis]}){spread}, {shape})",
    )


@word("globals", 1)
def captured_scalars(make: Maker):
    """A scalar that lies in shared memory: stored, loaded, added to by an atomic."""
    if not make.limits.pointers or not make.shared(4):
        return False
    name, line = make.name("w"), make.shape(1)
    make.head.append(f"{name} = tle.gpu.alloc([1], tl.int32)")
    make.captured.append(name)
    make.reading_head.append(f"{name} = np.zeros(1, np.int32)")
    make.step(
        [f"tl.store(tle.gpu.local_ptr({name}, [0]), {make.draws.integer(0, 5)} + pid)"],
        [f"{name}[0] = {make.draws.record[-1]} + pid"],
        states=(name,),
    )
    if make.draws.chance(50):
        make.step([f"tl.atomic_add(tle.gpu.local_ptr({name}, [0]), 3)"], [f"{name}[0] += 3"], states=(name,))
    make.let(
        Value(
            f"tl.zeros({list(line)}, tl.int32) + tl.load(tle.gpu.local_ptr({name}, [0]))",
            f"np.full({line}, {name}[0])",
            "i32",
            line,
            64,
            states=frozenset({name}),
        )
    )
