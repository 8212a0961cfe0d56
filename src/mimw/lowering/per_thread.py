"""Assembly that reaches into a buffer by computed addresses: each element of a flat tile by exactly one thread.

The tile lies as the layout rule `once` says: thread t holds elements t, t + threads, ..; where the tile has fewer elements than
the task has threads, thread t beyond them holds a copy of element t mod extent and stays out of it.
"""

from __future__ import annotations

from collections.abc import Callable

from ..errors import TargetError
from ..ir import I32, I64, Op, Scalar, Tensor, Type, Value
from .addresses import moves, places
from .asm import here, ptx, registers_of, sync, thread_in_task
from .emitter import Emitter


class PerThread:
    """One such op: `indices` pick elements of the flat `buffer`."""

    def __init__(self, emitter: Emitter, op: Op, buffer: Value, indices: Value):
        if emitter.target.backend != "cuda":
            raise TargetError(f"{op.site}: {op.name} on elements of {buffer.type.element} is not available on {emitter.target}")
        self.emitter, self.op, self.indices = emitter, op, indices
        self.source = emitter.flat[buffer]
        self.layout = emitter.layouts.wanted(op, op.operands.index(indices))
        (self.extent, ) = indices.type.shape
        self.threads = 32 * emitter.num_warps

    def integers(self, element: Scalar, extent: int = 0):
        """The type of a tile of integers that lies as the indices do."""
        return self.emitter.types.tensor(Tensor(element, (extent or self.extent, )), self.layout)

    def filled(self, number: int):
        return self.emitter.builder.create_splat(self.integers(I32), self.emitter.builder.get_int32(number))

    def offsets(self):
        """The byte offset of each element: the XOR of the moves of its number's bits; bits that move alike are shifted together."""
        builder, index, total = self.emitter.builder, self.emitter.operand(self.op, self.indices), None
        for shift, mask in moves(places(self.emitter, self.source, self.op)).items():
            part = builder.create_and(index, self.filled(mask))
            if shift:
                part = (builder.create_shl if shift > 0 else builder.create_lshr)(part, self.filled(abs(shift)))
            total = part if total is None else builder.create_xor(total, part)
        return self.filled(0) if total is None else total

    def registers(self, value: Value):
        """A tile as integers of one register each: 64 bits, or 32 that hold no more than the element."""
        builder, element = self.emitter.builder, value.type.element
        bits = self.emitter.operand(self.op, value)
        if element.is_float:
            bits = builder.create_bitcast(bits, self.integers(Scalar(f"i{element.bits}")))
        return bits if element.bits >= 32 else builder.create_int_cast(bits, self.integers(I32), False)

    def run(self, line: Callable[..., str], tiles: list, kinds: str, result: Scalar | None = None):
        """Emit `line(address, registers of each of the tiles .., result)` for every element that a thread holds, between barriers.

        The predicate `mine` says which threads are to act; `on` is free for use, as are the 16-bit registers h0 to h2. `kinds`
        has the constraint of each tile. The value of the result is a tile of `threads` elements, meant where `mine` holds.
        """
        offsets = self.offsets()
        held = registers_of(self.emitter, offsets)
        outputs = held if result else 0
        first = [outputs + 2 + number * held for number in range(len(tiles) + 1)]
        lines = [".reg .pred on, mine;", ".reg .b32 at;", ".reg .b16 h0, h1, h2;", f"setp.lt.u32 mine, ${outputs}, {self.extent};"]
        for element in range(held):
            names = [f"${start + element}" for start in first]
            lines += [f"add.u32 at, ${outputs + 1}, {names[0]};", line("at", *names[1:], f"${element}")]
        kind = "l" if result == I64 else "r"
        constraints = [f"=&{kind}"] * outputs + ["r"] * (2 + held) + [kind for kind in kinds for _ in range(held)]
        type_ = self.integers(result, max(self.extent, self.threads)) if result else None
        sync(self.emitter)
        made = ptx(self.emitter, "{\n" + "\n".join(lines) + "\n}", constraints,
                   [thread_in_task(self.emitter), here(self.emitter, self.emitter.values[self.source]), offsets, *tiles], type_)
        sync(self.emitter)
        return made

    def spread(self, made, type_: Type):
        """What `run` made as a tile of the op's result type, in every copy."""
        builder, element = self.emitter.builder, type_.element
        if self.extent < self.threads:
            made = builder.create_gather(made, builder.create_make_range(self.integers(I32), 0, self.extent), 0)
        if element.bits < 32:
            made = builder.create_int_cast(made, self.integers(Scalar(f"i{element.bits}")), False)
        return builder.create_bitcast(made, self.integers(element)) if element.is_float else made
