"""Programs by hand, for the tests of the layout solver: tiles and buffers on lines of `k.py`, and values found by name."""

from __future__ import annotations

from contextlib import contextmanager

from mimw.ir import I32, Placed, Program, Task, Tensor, Value
from mimw.ir.types import Buffer, Descriptor, Pointer
from tests import building
from tests.building import BF16, FP8, FP32, FP64


class Kernel(building.Kernel):
    """`k("add", a, b, at=7, name="sum")` is an op at line 7; it gives its only result, named."""

    file = "k.py"

    def regions(self, op: str, *args, at: int = 1, name: str = "", **attrs) -> Placed:
        """An op whose regions follow, each in a `with k.inside(op, types):`."""
        return super(Kernel, self.at(at)).regions(op, *args, named=name, **attrs)

    def __call__(self, op: str, *args, at: int = 1, name: str = "", **attrs) -> Value | None:
        results = self.regions(op, *args, at=at, name=name, **attrs).results
        return results[0] if results else None

    def tile(self, shape, element=FP32, name="", at=1):
        """A constant tile."""
        return self("constant", 0, Tensor(element, tuple(shape)), name=name, at=at)

    def number(self, value=0):
        return self("constant", value, I32)

    def alloc(self, shape, element=BF16, count=2, name="", at=1, layout=None):
        return self("local_alloc", Buffer(element, tuple(shape), count), name=name, at=at, layout=layout)

    def descriptor(self, name, shape, element=BF16):
        return self.param(name, Descriptor(element, tuple(shape)))

    def pointers(self, name, shape, element=FP32):
        """A tile of pointers."""
        return self("splat", Tensor(Pointer(element), tuple(shape)), self.param(name, Pointer(element)))

    @contextmanager
    def loop(self, *inits, at: int = 1):
        """A `for`; gives (op, carried block arguments)."""
        placed = self.regions("for", self.number(), self.number(), self.number(), tuple(inits), at=at)
        with self.inside(placed, (I32, *(init.type for init in inits))) as args:
            yield placed, args[1:]

    def branches(self, condition, types, at: int = 1) -> Placed:
        return self.regions("if", condition, tuple(types), at=at)

    def tasks(self, *num_warps: int) -> Placed:
        """A `warp_specialize` whose first task is the default one."""
        tasks = tuple(Task("default" if i == 0 else f"task{i}", warps, is_default=i == 0)
                      for i, warps in enumerate(num_warps))
        return self.regions("warp_specialize", tasks=tasks)

    def finish(self) -> Program:
        return self.program("k")


def named(program: Program, name: str) -> Value:
    """The only value of that name: a parameter, a result or a block argument."""
    values = [param.value for param in program.params]
    for op in program.walk():
        values += op.results
        for block in op.blocks:
            values += block.args
    (value, ) = [value for value in values if value.name == name]
    return value


def op_at(program: Program, line: int):
    """The only op of a line."""
    (op, ) = [op for op in program.walk() if op.site.line == line]
    return op


__all__ = ["BF16", "FP32", "FP64", "FP8", "Kernel", "named", "op_at"]
