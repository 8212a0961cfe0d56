"""A masked store of a whole buffer: predicated stores of the tile in the layout that it has, as wide as the mask allows.

Input: `local_store buffer, value, mask`, value and mask in one layout. Output: assembly between two barriers of the task.
Each thread stores what it holds; the byte offset of an element is the XOR of one part from the thread's number and one from
the register's:

    xor.b32 at, home, 256;  add.u32 at, at, base;  setp.ne.u32 on, mask, 0;  @on st.shared.v4.b32 [at], {..};

Neighbours along the last dimension go in one store if they lie in one thread, lie together in shared memory and are surely
masked alike (attrs: run). Nothing is converted, so there is no scratch; threads that hold copies of an element store the same
value.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from operator import xor

from ....errors import InvalidProgram
from ....ir import I32, Op, like
from ....ir.layouts import Linear
from ....ir.linear import linear_of, positions
from ..addresses import moves, places
from ..asm import own_address, ptx, registers_of, sync, thread_in_task
from ..emitter import Emitter
from .elements import as_registers, packed

_WIDEST = 16  # bytes: PTX ISA, st.shared.v4.b32


def masked_store(emitter: Emitter, op: Op) -> None:
    bits, flags = registers_and_flags(emitter, op)
    linear = linear_of(emitter.wanted(op, "value"), op.value.type.shape)
    sync(emitter)
    store_where(emitter, op, emitter.of(op.buffer), places(emitter, op.buffer, op), linear, bits, flags)
    sync(emitter)


def registers_and_flags(emitter: Emitter, op: Op):
    """The value and the mask as tiles of integers, one a register."""
    integers = emitter.types.tensor(like(op.mask.type, I32), emitter.wanted(op, "value"))
    return as_registers(emitter, op, "value"), emitter.builder.create_int_cast(emitter.operand(op, "mask"), integers, False)


def store_where(emitter: Emitter, op: Op, view, images: Sequence[int], linear: Linear, bits, flags) -> None:
    """Store the elements of `bits` whose flag is not 0 into a view whose bytes lie by `images`; both tiles lie as `linear` says."""
    size = op.value.type.element.bytes
    registers = positions(linear.registers, linear.shape)
    threads = positions((*linear.lanes, *linear.warps), linear.shape)
    held = registers_of(emitter, bits)
    if held != 1 << len(registers):
        raise InvalidProgram(f"a thread holds {held} elements of {linear}, its map says {1 << len(registers)}", op.name, op.site)
    lines = [".reg .pred on;", ".reg .b32 at, home, part;", "mov.b32 home, 0;"]
    for shift, chosen in moves([_placed(place, images) for place in threads]).items():
        lines.append(f"and.b32 part, $0, {chosen};")
        if shift:
            lines.append(f"{'shl' if shift > 0 else 'shr'}.b32 part, part, {abs(shift)};")
        lines.append("xor.b32 home, home, part;")
    together = _together(registers, images, size, op.attrs["run"])
    for first in range(held):
        if any(first >> bit & 1 and (bit in together or not place) for bit, place in enumerate(registers)):
            continue  # goes with another register, or is a copy of one
        row = [first + sum(1 << bit for number, bit in enumerate(together) if index >> number & 1)
               for index in range(1 << len(together))]
        packing, kind, words = packed([f"${2 + register}" for register in row], size, f"w{first}_")
        offset = _placed(sum(place for bit, place in enumerate(registers) if first >> bit & 1), images)
        lines += [*packing, f"xor.b32 at, home, {offset};", "add.u32 at, at, $1;", f"setp.ne.u32 on, ${2 + held + first}, 0;",
                  f"@on st.shared{kind} [at], {words};"]
    ptx(emitter, "{\n" + "\n".join(lines) + "\n}", ["r", "r", *["l" if size == 8 else "r"] * held, *["r"] * held],
        [thread_in_task(emitter), own_address(emitter, view), bits, flags])


def _placed(place: int, images: Sequence[int]) -> int:
    """The byte offset of the element of that row-major number."""
    return reduce(xor, (image for bit, image in enumerate(images) if place >> bit & 1), 0)


def _together(registers: Sequence[int], images: Sequence[int], size: int, run: int) -> list[int]:
    """The bits of a register's number that go through one store's elements, in order."""
    found: list[int] = []
    while size << len(found) < _WIDEST and 1 << len(found) < run:
        bit = len(found)
        if bit >= len(images) or images[bit] != size << bit or 1 << bit not in registers:
            break
        found.append(registers.index(1 << bit))
    return found
