"""Small programs written op by op, as the frontend would record them.

A `Sketch` is a kernel under construction. Every op gets the source line of the test that wrote it, so reports can be
checked.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass

import numpy as np

from mimw.ir import I32, I64, Buffer, Descriptor, Param, Placed, Pointer, Program, Site, Task, Tensor, Value
from mimw.simulator import run
from tests import building
from tests.building import BF16, FP16, FP32, I1, I8


class Sketch(building.Kernel):
    """A kernel to be run; methods give values."""

    def __init__(self, num_warps: int = 4):
        super().__init__(num_warps)
        self.site = Site("<unknown>", 0)

    # ---- parameters -------------------------------------------------------------------------------------------------

    def param(self, type_, name: str) -> Value:
        return super().param(name, type_)

    def pointer(self, element=FP32, name: str = "x") -> Value:
        return self.param(Pointer(element), name)

    def descriptor(self, element, block, name: str = "desc", signed: bool = True) -> Value:
        """A descriptor argument: its shape and strides become parameters of the same path, as Triton flattens them."""
        head = self.param(Descriptor(element, tuple(block), signed), name)
        path = self.params[-1].path
        for type_ in (I32, I64):
            self.params += [Param(Value(type_), f"{name}_{type_}_{axis}", path) for axis in range(len(block))]
        return head

    # ---- ops --------------------------------------------------------------------------------------------------------

    def regions(self, op: str, *args, **keywords) -> Placed:
        """An op at the line that called."""
        self._here()
        return super().regions(op, *args, **keywords)

    def op(self, op: str, *args, **keywords):
        """Its result, results or None."""
        return super().op(op, *args, **keywords) or None

    def const(self, value, type_=I32) -> Value:
        return self.op("constant", value, type_)

    def arange(self, size: int) -> Value:
        return self.op("make_range", Tensor(I32, (size, )), 0, size)

    def at(self, pointer: Value, offsets: Value) -> Value:
        """A tile of addresses: `pointer` plus each of `offsets`."""
        return self.op("addptr", self.op("splat", Tensor(pointer.type, offsets.type.shape), pointer), offsets)

    def load(self, pointer: Value, shape, mask=None, other=None) -> Value:
        """The first elements of an array, in a tile of `shape`."""
        return self.op("masked_load", self.grid(pointer, shape), mask, other, None, False)

    def store(self, pointer: Value, value: Value) -> None:
        """The tile into the first elements of an array."""
        shape = getattr(value.type, "shape", None)
        if shape is None:
            self.op("store", pointer, value, None)
        else:
            self.op("store", self.grid(pointer, shape), value, None)

    def grid(self, pointer: Value, shape) -> Value:
        """The addresses of the first elements of an array, row by row."""
        flat = self.arange(int(np.prod(shape)))
        return self.at(pointer, self.op("reshape", flat, tuple(shape), False))

    def buffers(self, element, shape, count: int, name: str = "tiles") -> Value:
        return self.op("local_alloc", Buffer(element, tuple(shape), count), named=name, layout=None)

    def barriers(self, count: int, arrivals: int = 1, name: str = "full") -> Value:
        return self.op("alloc_barriers", count, arrivals, named=name)

    def bar(self, barriers: Value, index) -> Value:
        return self.op("barrier_index", barriers, index)

    # ---- regions ----------------------------------------------------------------------------------------------------

    def loop(self, end, body, inits=(), start=0, step=1):
        """`for`: `body(index, *carried)` returns the carried values; gives the results."""
        bounds = [self.const(b) if isinstance(b, int) else b for b in (start, end, step)]
        op = self.regions("for", *bounds, tuple(inits))
        self.block(op, lambda *args: body(*args) or (), [I32, *(init.type for init in inits)])
        return op.results

    def when(self, condition, then, otherwise=lambda: (), types=()):
        op = self.regions("if", condition, tuple(types))
        for body in (then, otherwise):
            self.block(op, lambda body=body: body() or ())
        return op.results

    def combine(self, name: str, values, axis: int, body, *rest):
        """`reduce`, `scan` or `map_elementwise`, with the region `body(*scalars)`."""
        elements = [value.type.element for value in values]
        op = self.regions(name, tuple(values), axis, *rest)
        self.block(op, body, elements if name == "map_elementwise" else elements * 2)
        return op.results

    def tasks(self, *, warps: tuple[int, ...] = (), **bodies) -> None:
        """`warp_specialize`: one task for each keyword, the first being the default task; four warps each, or `warps`."""
        warps = warps or (4, ) * len(bodies)
        specs = [Task(name, size, index == 0) for index, (name, size) in enumerate(zip(bodies, warps, strict=True))]
        op = self.regions("warp_specialize", tasks=tuple(specs))
        for body in bodies.values():
            self.block(op, body)

    # ---- the end ----------------------------------------------------------------------------------------------------

    def finish(self) -> Program:
        return self.program()

    def run(self, *args, grid=(1, ), **options):
        """Verify and simulate; `args` are the host arguments in order."""
        paths = list(dict.fromkeys(param.path for param in self.params))
        return run(self.finish(), grid, dict(zip(paths, args, strict=True)), **options)

    def _here(self) -> None:
        frame = sys._getframe(1)
        while frame.f_globals in (globals(), vars(building)):
            frame = frame.f_back
        self.site = Site(frame.f_code.co_filename, frame.f_lineno)


@dataclass
class HostTensor:
    """What the simulator needs of a host tensor descriptor, over a numpy array."""

    base: np.ndarray
    padding: str = "zero"

    @property
    def shape(self):
        return self.base.shape

    @property
    def strides(self):
        return tuple(stride // self.base.itemsize for stride in self.base.strides)


def line_of(error: Exception, index: int = 0) -> str:
    """The source text of the error's site number `index`."""
    import linecache
    site = error.sites[index]
    return linecache.getline(site.file, site.line).strip()


__all__ = ["BF16", "FP16", "FP32", "I1", "I8", "I32", "I64", "HostTensor", "Sketch", "Tensor", "line_of"]
