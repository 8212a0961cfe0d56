"""The threads of a raw body as the lanes of tiles, and the ops that are recorded for them.

Input: how many threads, and the semantic of the kernel. Output: ops of `mimw.ir`. For example, with 128 threads:

    Threads((128, ), semantic, site).lane           %lane = make_range 0 128 : i32[128]
    threads.select(mask, x, y)                      select %mask, %x, %y, of which scalars are spread to all lanes
    threads.any(flags)                              one truth value for all threads, by a reduction

A body says what one thread does. All threads are done together, op by op: where they would go different ways, a *mask* says which
of them an op is for, and only ops that touch memory ask for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from math import prod
from typing import Any

import triton.language.core as tl

from ....errors import RawCodeError
from .types import IndexType, IntegerType, PointerType, Type, dtype_of, is_integer, type_of
from .values import Number, Region

I1, I32, I64, INDEX = IntegerType(1), IntegerType(32), IntegerType(64), IndexType()


class Threads:
    """All threads that run a body. `extents` are those of the index space, x first."""

    def __init__(self, extents: tuple[int, ...], semantic):
        self.extents = tuple(extents) + (1, ) * (3 - len(extents))
        self.semantic, self.builder = semantic, semantic.builder
        self.count = prod(extents)
        self.width = 1 << (self.count - 1).bit_length()     # lanes of a tile: a power of two
        self.regions = [Region("the body")]
        self.lane = self.value(semantic.arange(0, self.width), I32)
        self.everyone = None if self.width == self.count else self.compare("SLT", self.lane, self.constant(self.count, I32))
        self.mask = self.everyone                           # the lanes that ops are for; None is all of them
        task = self.builder.task
        warps = task.num_warps if task is not None else getattr(self.builder.options, "num_warps", 4)
        self.physical = warps * getattr(self.builder.options, "warp_size", 32)

    # ---- values -----------------------------------------------------------------------------------------------------

    def value(self, tensor: tl.tensor, type_: Type, pointee: Type | None = None) -> Number:
        return Number(tensor, type_, self.regions[-1], pointee)

    def wrap(self, handle: Any, type_: Type, lanes: bool) -> Number:
        """A number around a handle of the recorder's."""
        dtype = dtype_of(type_)
        return self.value(tl.tensor(handle, tl.block_type(dtype, [self.width]) if lanes else dtype), type_)

    def constant(self, value: int | float | bool, type_: Type) -> Number:
        dtype = dtype_of(type_)
        if is_integer(type_):
            bits = dtype.primitive_bitwidth
            value = int(value) & (1 << bits) - 1
            value -= (1 << bits) if bits > 1 and value >> (bits - 1) else 0
            value = bool(value) if bits == 1 else value
        return Number(self.semantic.scalar_constant(value, dtype), type_, self.regions[-1], None, value)

    def number(self, value: Any, type_: Type | None = None, what: str = "operand") -> Number:
        """`value` as a number that may be used here; a Python number becomes a constant. RawCodeError for anything else."""
        if isinstance(value, (bool, int, float)):
            if type_ is None:
                type_ = I1 if isinstance(value, bool) else INDEX if isinstance(value, int) else type_of(tl.float32)
            return self.constant(value, type_)
        if not isinstance(value, Number):
            self.fail(f"{what} must be a value, got {_shown(value)}")
        if value.region not in self.regions:
            self.fail(f"{what} was made inside {value.region.what} and is not known outside of it",
                      "pass it on with scf.yield_ and use the op's result")
        return value

    def fail(self, message: str, mend: str = "", kind: type[RawCodeError] = RawCodeError):
        """Refuse the body at the line that is being walked."""
        raise kind(message, self.builder.site, hint=mend)

    # ---- all threads at once ----------------------------------------------------------------------------------------

    def spread(self, value: Number) -> Number:
        """The value with an element for each thread."""
        if value.lanes:
            return value
        return self.value(self.semantic.splat(value.tensor, [self.width]), value.type, value.pointee)

    def alike(self, *values: Number) -> list[Number]:
        """The values, all spread if one is."""
        return [self.spread(value) for value in values] if any(value.lanes for value in values) else list(values)

    def op(self, name: str, values: list[Number], type_: Type, *attributes) -> Number:
        """An op on numbers, thread by thread."""
        values = self.alike(*values)
        handle = getattr(self.builder, f"create_{name}")(*(value.handle for value in values), *attributes)
        return self.wrap(handle, type_, values[0].lanes)

    def cast(self, name: str, value: Number, type_: Type, *attributes) -> Number:
        """An op that makes another type of a number."""
        dtype = dtype_of(type_)
        target = tl.block_type(dtype, [self.width]) if value.lanes else dtype
        return self.wrap(getattr(self.builder, f"create_{name}")(value.handle, target.to_ir(self.builder), *attributes), type_,
                         value.lanes)

    def resized(self, value: Number, type_: Type, signed: bool = True) -> Number:
        """An integer with another number of bits."""
        if value.known is not None and (signed or value.known >= 0):
            return self.constant(value.known, type_)
        if dtype_of(value.type) == dtype_of(type_):
            return self.value(value.tensor, type_)
        return self.cast("int_cast", value, type_, signed)

    def compare(self, relation: str, a: Number, b: Number) -> Number:
        return self.op(f"icmp{relation}", [a, b], I1)

    def both(self, a: Number | None, b: Number) -> Number:
        return b if a is None else self.op("and", [a, b], I1)

    def inverse(self, flags: Number) -> Number:
        return self.op("xor", [flags, self.constant(True, I1)], I1)

    def select(self, flags: Number, yes: Number, no: Number) -> Number:
        """`yes` where the flags are true."""
        yes, no = self.alike(yes, no)
        if flags.lanes:
            yes, no = self.spread(yes), self.spread(no)
        elif yes.lanes:
            flags = self.spread(flags)
        handle = self.builder.create_select(flags.handle, yes.handle, no.handle)
        return self.value(tl.tensor(handle, yes.tensor.type), yes.type, yes.pointee)

    def any(self, flags: Number) -> Number:
        """Is one of them true? The same answer in all threads."""
        ones = self.cast("int_cast", flags, I32, False)
        return self.compare("NE", self.over_all(ones, "or"), self.constant(0, I32))

    def over_all(self, value: Number, combine: str) -> Number:
        """A reduction of all threads' integers by an op; the result is the same in all threads."""
        def both(op):
            builder = self.builder
            point = builder.get_insertion_point()
            block = builder.create_block_with_parent(op.get_region(0), [value.tensor.dtype.to_ir(builder)] * 2)
            builder.create_reduce_ret(getattr(builder, f"create_{combine}")(block.arg(0), block.arg(1)))
            builder.restore_insertion_point(point)

        (found, ) = self.semantic.reduction([value.tensor], 0, both)
        return self.value(found, value.type)

    def coordinate(self, axis: int) -> Number:
        """The thread's place along one axis of the index space."""
        x, y, _ = self.extents
        if self.extents[axis] == 1:
            return self.constant(0, I32)
        place = self.lane
        if axis:
            place = self.op("udiv", [place, self.constant(x if axis == 1 else x * y, I32)], I32)
        if prod(self.extents[axis + 1:]) > 1:
            place = self.op("urem", [place, self.constant(self.extents[axis], I32)], I32)
        return place

    # ---- who an op is for -------------------------------------------------------------------------------------------

    @contextmanager
    def only(self, flags: Number | None) -> Iterator[None]:
        """Inside, ops are for the lanes where the flags are true; None is for all."""
        before, self.mask = self.mask, flags
        try:
            yield
        finally:
            self.mask = before

    @contextmanager
    def inside(self, region: Region) -> Iterator[Region]:
        """Inside, values are made in the region."""
        self.regions.append(region)
        try:
            yield region
        finally:
            self.regions.pop()

    @property
    def diverged(self) -> bool:
        """True where some threads do not come."""
        return self.mask is not self.everyone

    def detached(self, types: list, record: Callable[[list], None]):
        """Record what `record` does with arguments of these types (of the recorder's) into a block of its own: the block."""
        point, location = self.builder.get_insertion_point(), self.builder.get_loc()
        block = self.builder.create_block()
        arguments = [block.add_argument(type_) for type_ in types]
        self.builder.set_insertion_point_to_end(block)
        try:
            record(arguments)
        finally:
            self.builder.restore_insertion_point(point)
            self.builder.set_loc(location)
        return block


def _shown(value: Any) -> str:
    return f"{type(value).__name__} {value!r}" if not isinstance(value, PointerType) else str(value)
