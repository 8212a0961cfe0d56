"""Assembly that reaches into a buffer by computed addresses: each element of a flat tile by exactly one thread.

The tile lies as the layout rule `once` says: thread t holds elements t, t + threads, ..; where the tile has fewer elements than
the task has threads, thread t beyond them holds a copy of element t mod extent and stays out of it.

Input: an op with the operands `buffer`, flat, and `indices`. Output: PTX between two barriers of the task, a line an element:

    PerThread(emitter, op).run(line, tiles, "rr")        add.u32 at, $1, $2;  @mine st.shared.b16 [at], $3;
"""

from __future__ import annotations

from collections.abc import Callable

from ....errors import TargetError
from ....ir import I32, I64, Op, Scalar, Tensor, Type
from ..addresses import moves, places
from ..asm import own_address, ptx, registers_of, sync, thread_in_task
from ..emitter import Emitter


class PerThread:
    """One such op: `indices` pick elements of the flat `buffer`."""

    def __init__(self, emitter: Emitter, op: Op):
        if emitter.target.assembly != "ptx":
            raise TargetError(f"{op.site}: {op.name} on elements of {op.buffer.type.element} is not available on {emitter.target}")
        self.emitter, self.op = emitter, op
        self.source = emitter.flat[op.buffer]
        self.layout = emitter.wanted(op, "indices")
        (self.extent, ) = op.indices.type.shape
        self.threads = emitter.threads

    def integers(self, element: Scalar, extent: int = 0):
        """The type of a tile of integers that lies as the indices do."""
        return self.emitter.types.tensor(Tensor(element, (extent or self.extent, )), self.layout)

    def filled(self, number: int):
        return self.emitter.builder.create_splat(self.integers(I32), self.emitter.builder.get_int32(number))

    def offsets(self):
        """The byte offset of each element: the XOR of the moves of its number's bits; bits that move alike are shifted together."""
        builder, index, total = self.emitter.builder, self.emitter.operand(self.op, "indices"), None
        for shift, mask in moves(places(self.emitter, self.source, self.op)).items():
            part = builder.create_and(index, self.filled(mask))
            if shift:
                part = (builder.create_shl if shift > 0 else builder.create_lshr)(part, self.filled(abs(shift)))
            total = part if total is None else builder.create_xor(total, part)
        return self.filled(0) if total is None else total

    def registers(self, name: str):
        """The tile that is the operand of that name, as integers of one register each: 64 bits, or 32 that hold no more than the
        element."""
        builder, element = self.emitter.builder, getattr(self.op, name).type.element
        bits = self.emitter.operand(self.op, name)
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
                   [thread_in_task(self.emitter), own_address(self.emitter, self.emitter.of(self.source)), offsets, *tiles], type_)
        sync(self.emitter)
        return made

    def spread(self, made, type_: Type):
        """The result of `run` as a tile of the op's result type, in every copy."""
        builder, element = self.emitter.builder, type_.element
        if self.extent < self.threads:
            made = builder.create_gather(made, builder.create_make_range(self.integers(I32), 0, self.extent), 0)
        if element.bits < 32:
            made = builder.create_int_cast(made, self.integers(Scalar(f"i{element.bits}")), False)
        return builder.create_bitcast(made, self.integers(element)) if element.is_float else made
