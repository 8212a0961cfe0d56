"""Kernels by hand, for tests of every room: `mimw.ir.Builder`, with ops at source lines of the test's choice.

Rooms add words of their own: tests/analysis/building.py (tasks, barriers, copies), tests/constraints/building.py (tiles and
buffers by name), tests/simulator/programs.py (kernels that run). An example:

    k = Kernel()
    total = k.at(7).op("add", k.param("n"), k.constant(1, I32), named="total")
    op = k.regions("if", total, ())
    k.block(op, lambda: ())
    k.block(op, lambda: ())
    k.program()                         verified
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mimw.ir import I32, Builder, Placed, Program, Site, verify
from mimw.ir.types import Scalar

BF16, FP16, FP32, FP64, FP8, I1, I8, I64 = (Scalar(name) for name in ("bf16", "fp16", "fp32", "fp64", "fp8e4nv", "i1", "i8", "i64"))


class Kernel(Builder):
    """A kernel under construction; `file` is the one that its lines are of."""

    file = "kernel.py"

    def __init__(self, warps: int = 4):
        super().__init__(self.line(1))
        self.warps = warps

    @classmethod
    def line(cls, number: int) -> Site:
        return Site(cls.file, number)

    def at(self, number: int):
        """What follows is of that line."""
        self.site = self.line(number)
        return self

    def param(self, name: str, type_=I32, path=None, attrs=()):
        return super().param(name, type_, path, attrs)

    def regions(self, op: str, *args, named: str = "", **attrs) -> Placed:
        """An op whose regions follow, by `block` or in a `with k.inside(op, types):`. Lists among the arguments are tuples."""
        return self.place(op, *(tuple(arg) if isinstance(arg, list) else arg for arg in args), label=named, **attrs)

    def op(self, op: str, *args, named: str = "", **attrs):
        """The op's only result, or all of them in a tuple."""
        results = self.regions(op, *args, named=named, **attrs).results
        return results[0] if len(results) == 1 else results

    def block(self, placed: Placed, body: Callable[..., Any], types=()) -> None:
        """The op's next region, made by `body(*arguments)`; it ends in a yield of what that returns (None: no yield)."""
        with self.inside(placed, types) as args:
            values = body(*args)
            if values is not None:
                self.op("yield", tuple(values))

    def program(self, name: str = "kernel") -> Program:
        program = super().program(name, self.warps, self.line(1))
        verify(program)
        return program
