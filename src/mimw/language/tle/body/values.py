"""Values of a raw body: numbers of all threads at once, and memory.

Input: the results of a body's ops. Output: values that know if the threads differ. For example, with 128 threads:

    Number(i32[128], IntegerType(32))       the thread's number: a tile with an element, a *lane*, for each thread
    Number(i32, IntegerType(32))            a constant or a block's number, the same in all threads: a scalar

A value is known in the region where it was made and in those inside it, as in MLIR; a region yields the values that are
needed outside.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import triton.language.core as tl

from .types import MemRefType, Type


class Region:
    """A region of the body while it is walked: `yielded` are its yielded values, once it has any."""

    def __init__(self, what: str):
        self.what, self.yielded, self.condition = what, None, None


@dataclass(frozen=True, eq=False)
class Number:
    """One number, truth value or pointer a thread; `region` is where it was made."""

    tensor: tl.tensor
    type: Type
    region: Region
    pointee: Type | None = None     # of a pointer: what `getelementptr` or the kernel has said that it points to
    known: int | float | None = None    # of a constant: the number

    def __repr__(self) -> str:
        return f"a value of type {self.type}"

    @property
    def lanes(self) -> bool:
        """True if threads may differ."""
        return self.tensor.type.is_block()

    @property
    def handle(self) -> Any:
        return self.tensor.handle

    @property
    def result(self) -> Number:
        """The value of an op, as the op classes of MLIR's bindings spell it; so do `res` and `results`."""
        return self

    res = result

    @property
    def results(self) -> tuple[Number]:
        return (self, )


@dataclass(frozen=True, eq=False)
class Vector:
    """A few numbers a thread, each with a place of its own."""

    numbers: tuple[Number, ...]
    type: Type

    def __repr__(self) -> str:
        return f"a value of type {self.type}"

    @property
    def result(self) -> Vector:
        return self

    res = result


@dataclass(eq=False)
class Memory:
    """A memref, or a tensor of the seed's form: elements in shared memory. `pointers` makes pointers to elements from one i32
    tensor
    for each dimension, all scalars or all tiles; a `read_only` one is an Input; `written` is whether the body has written some."""

    name: str
    type: MemRefType
    pointers: Callable[[list[tl.tensor]], tl.tensor]
    read_only: bool = False
    written: bool = field(default=False)

    def __repr__(self) -> str:
        return f"{self.name}, {self.type}"

    @property
    def result(self) -> Memory:
        return self

    res = result

    @property
    def shape(self) -> tuple[int, ...]:
        return self.type.shape
