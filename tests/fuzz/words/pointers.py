"""Pointers into shared memory: loads, stores and atomics through tle.gpu.local_ptr, whole, in part, at picked places, masked."""

from __future__ import annotations

from ..elements import ELEMENTS
from ..maker import Maker
from ..tree import Value
from . import word
from .shared import HOLDS, axis_numbers, held, new_buffer
from .tiles import input_array, numbers, offsets, within


def a_tle_buffer(make: Maker, element: str | None = None, rank: int | None = None):
    fitting = [
        one for one in make.buffers if not one.tlx and element in (None, one.element) and rank in (None, len(one.shape))
    ]
    if fitting and not make.draws.chance(20):
        return make.draws.pick(fitting)
    return new_buffer(make, shape=make.shape(rank), element=element, tlx=False)


def picked(make: Maker, buffer, permuted: bool) -> tuple[str, str, frozenset, frozenset]:
    """(pointers' text, numpy index, uses, states) to as many elements as the buffer has; each one once if `permuted`."""
    if len(buffer.shape) == 2:
        columns, column_numbers = axis_numbers(buffer.shape, 1)
        rows, row_numbers = axis_numbers(buffer.shape, 0)
        turn = make.draws.integer(0, buffer.shape[1] - 1)
        return (
            f"tle.gpu.local_ptr({buffer.name}, ({rows}, {columns} ^ {turn}))",
            f"(0, {row_numbers}, {column_numbers} ^ {turn})",
            frozenset(),
            frozenset(),
        )
    extent = buffer.shape[0]
    if permuted or make.draws.chance(50):
        turn = make.draws.integer(0, extent - 1)
        return (
            f"tle.gpu.local_ptr({buffer.name}, ({offsets(buffer.shape)} ^ {turn},))",
            f"(0, {numbers(buffer.shape)} ^ {turn})",
            frozenset(),
            frozenset(),
        )
    index = make.operand("i32", buffer.shape)
    return (
        f"tle.gpu.local_ptr({buffer.name}, ({index.kernel} & {extent - 1},))",
        f"(0, wide({index.reading}) & {extent - 1})",
        index.uses,
        index.states,
    )


@word("pointers", 2)
def pointer_reads(make: Maker):
    buffer = a_tle_buffer(make)
    if buffer is None:
        return False
    pointer, index, uses, states = picked(make, buffer, False)
    reading = f"{buffer.name}[{index}]"
    mask = ""
    if make.draws.chance(35):
        limit = make.draws.integer(0, HOLDS * 8)
        mask = f", mask={offsets(buffer.shape)} < {limit}, other=2"
        reading = f"np.where({numbers(buffer.shape)} < {limit}, wide({reading}), 2).astype({buffer.name}.dtype)"
    load = "tle.load" if make.draws.chance(20) else "tl.load"
    make.let(
        Value(f"{load}({pointer}{mask})", reading, buffer.element, buffer.shape, HOLDS, uses, states | {buffer.state})
    )


@word("pointers", 2)
def pointer_writes(make: Maker):
    buffer = a_tle_buffer(make)
    if buffer is None:
        return False
    pointer, index, uses, states = picked(make, buffer, True)
    value = held(make.operand(shape=buffer.shape), buffer.element)
    if make.draws.chance(40):
        limit = make.draws.integer(0, HOLDS * 8)
        kernel = f"tl.store({pointer}, {value.kernel}, mask={offsets(buffer.shape)} < {limit})"
        where = f"{numbers(buffer.shape)} < {limit}"
        place = f"{buffer.name}[{index}]"
        reading = f"{place} = np.where({where}, wide({value.reading}), wide({place})).astype({buffer.name}.dtype)"
    else:
        kernel, reading = f"tl.store({pointer}, {value.kernel})", f"{buffer.name}[{index}] = {value.reading}"
    make.step([kernel], [reading], value.uses | uses, (*value.states, *states, buffer.state))


@word("pointers", 2)
def pointer_atomics(make: Maker):
    """Atomics on shared memory; the places may be the same, the operations do not care for their order."""
    buffer = a_tle_buffer(make, element="i32", rank=1)
    if buffer is None:
        return False
    how = make.draws.pick(["max", "min", "and", "or", "xor", "add"])
    value = within(make.operand("i32", buffer.shape), 3)
    if (
        how != "max" and how != "min"
    ):  # keep what the buffer holds small: bits below 8 only, and counts that are taken back
        value = Value(
            f"({value.kernel} & 3)", f"(wide({value.reading}) & 3)", "i32", value.shape, 3, value.uses, value.states
        )
    pointer, index, uses, states = picked(make, buffer, how == "add")
    fold = {
        "max": "np.maximum.at",
        "min": "np.minimum.at",
        "and": "np.bitwise_and.at",
        "or": "np.bitwise_or.at",
        "xor": "np.bitwise_xor.at",
        "add": "np.add.at",
    }[how]
    mask, where = "", ""
    if make.draws.chance(30):
        limit = make.draws.integer(0, buffer.shape[0])
        mask, where = f", mask={offsets(buffer.shape)} < {limit}", f"[:{limit}]"
    place = f"(0, np.asarray({index}[1]){where})"
    kernel = [f"tl.atomic_{how}({pointer}, {value.kernel}{mask})"]
    reading = [f"{fold}({buffer.name}, {place}, cast({value.reading}, np.int32){where})"]
    if how == "add":  # so that loops do not count beyond what a buffer may hold
        kernel.append(f"tl.store(tle.gpu.local_ptr({buffer.name}), tl.load(tle.gpu.local_ptr({buffer.name})) & 7)")
        reading.append(f"{buffer.name}[0] &= 7")
    make.step(kernel, reading, value.uses | uses, (*value.states, *states, buffer.state))


@word("pointers", 1)
def pointer_swaps(make: Maker):
    """Compare-and-swap and exchange of one word."""
    buffer = a_tle_buffer(make, element="i32", rank=1)
    if buffer is None:
        return False
    place, old, line = make.draws.integer(0, 7), make.name("h"), make.shape(1)
    if not make.amd and make.draws.chance(60):
        make.skips["gfx"] = "compare and swap in shared memory is not offered there"
        kernel = f"{old} = tl.atomic_cas(tle.gpu.local_ptr({buffer.name}, [{place}]), 1, 5)"
        reading = f"{buffer.name}[0, {place}] = 5 if {old} == 1 else {old}"
    else:
        kernel, reading = (
            f"{old} = tl.atomic_xchg(tle.gpu.local_ptr({buffer.name}, [{place}]), 6)",
            f"{buffer.name}[0, {place}] = 6",
        )
    make.let(
        Value(f"tl.zeros({list(line)}, tl.int32) + {old}", old, "i32", line, HOLDS, states=frozenset({buffer.state})),
        before=[kernel],
    )
    name = make.tiles[-1].kernel
    # `let` names the tile from the word as it was before: read first, then write.
    step = make.nodes.pop()
    make.nodes.append(
        type(step)(
            **{
                **step.__dict__,
                "reading": (
                    f"{old} = int({buffer.name}[0, {place}])",
                    reading,
                    f"{name} = np.full({line}, {old}).astype(np.int32)",
                ),
            }
        )
    )


@word("pointers", 1.5)
def copies_in(make: Maker):
    """tle.gpu.copy from global memory into a buffer, by pointers or by a descriptor; the copy is over when it returns."""
    buffer = a_tle_buffer(make)
    if buffer is None:
        return False
    shape, size = buffer.shape, buffer.shape[0] * (buffer.shape[1] if len(buffer.shape) == 2 else 1)
    array = input_array(make, buffer.element, shape)
    by_descriptor = (
        not make.limits.portable
        and shape[-1] * ELEMENTS[buffer.element].bytes >= 16
        and max(shape) <= 256
        and make.draws.chance(50)
    )
    at = f"[{make.instance()} * {shape[0]}, 0]" if len(shape) == 2 else f"[{make.instance()} * {shape[0]}]"
    source = (
        f"{make.descriptor(array, shape)}, {buffer.name}, {list(shape)}, {at}"
        if by_descriptor
        else f"{array} + {make.instance()} * {size} + {offsets(shape)}, {buffer.name}, {list(shape)}"
    )
    make.step(
        [f"tle.gpu.copy({source})"],
        [f"{buffer.name}[0] = take({array}, {make.instance()}, {shape})"],
        states=(buffer.state,),
    )
