"""Small programs written op by op, as the frontend would record them.

A `Sketch` is a kernel under construction. Every op gets the source line of the test that wrote it, so reports can be
checked.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass

import numpy as np

from mimw.frontend.drafts import DraftBlock, Handle
from mimw.frontend.recorder import Recorder
from mimw.ir import Buffer, Descriptor, Pointer, Program, Scalar, Task, Tensor, verify
from mimw.ir.types import I1, I32
from mimw.simulator import run

FP32, FP16, BF16, I64, I8 = (Scalar(name) for name in ("fp32", "fp16", "bf16", "i64", "i8"))


class Sketch:
    """Records one kernel; methods give handles."""

    def __init__(self, num_warps: int = 4):
        self.recorder, self.params, self.num_warps = Recorder(), [], num_warps

    # ---- parameters -------------------------------------------------------------------------------------------------

    def param(self, type_, name: str) -> Handle:
        handle = Handle(type_, self.recorder.site)
        handle.name = name
        self.params.append((handle, name, (len(self.params), ), ()))
        return handle

    def pointer(self, element=FP32, name: str = "x") -> Handle:
        return self.param(Pointer(element), name)

    def descriptor(self, element, block, name: str = "desc", signed: bool = True) -> Handle:
        """A descriptor argument: its shape and strides become parameters of the same path, as Triton flattens them."""
        head = self.param(Descriptor(element, tuple(block), signed), name)
        path = self.params[-1][2]
        for type_ in (I32, I64):
            for axis in range(len(block)):
                self.params.append((Handle(type_, self.recorder.site), f"{name}_{type_}_{axis}", path, ()))
        return head

    # ---- ops --------------------------------------------------------------------------------------------------------

    def op(self, name: str, *args, regions: int = 0, **attrs):
        """Record an op at the line that called; its result, results or None."""
        self._here()
        results = self.recorder.record(name, *args, regions=regions, **attrs).results
        return results[0] if len(results) == 1 else tuple(results) if results else None

    def named(self, name: str, op: str, *args, **attrs) -> Handle:
        self._here()
        handle = self.recorder.record(op, *args, **attrs).results[0]
        handle.name = name
        return handle

    def const(self, value, type_=I32) -> Handle:
        return self.op("constant", value, type_)

    def arange(self, size: int) -> Handle:
        return self.op("make_range", Tensor(I32, (size, )), 0, size)

    def at(self, pointer: Handle, offsets: Handle) -> Handle:
        """A tile of addresses: `pointer` plus each of `offsets`."""
        return self.op("addptr", self.op("splat", Tensor(pointer.type, offsets.type.shape), pointer), offsets)

    def load(self, pointer: Handle, shape, mask=None, other=None) -> Handle:
        """The first elements of an array, in a tile of `shape`."""
        return self.op("masked_load", self.grid(pointer, shape), mask, other, None, False)

    def store(self, pointer: Handle, value: Handle) -> None:
        """The tile into the first elements of an array."""
        shape = getattr(value.type, "shape", None)
        if shape is None:
            self.op("store", pointer, value, None)
        else:
            self.op("store", self.grid(pointer, shape), value, None)

    def grid(self, pointer: Handle, shape) -> Handle:
        """The addresses of the first elements of an array, row by row."""
        flat = self.arange(int(np.prod(shape)))
        return self.at(pointer, self.op("reshape", flat, tuple(shape), False))

    def buffers(self, element, shape, count: int, name: str = "tiles") -> Handle:
        return self.named(name, "local_alloc", Buffer(element, tuple(shape), count), layout=None)

    def barriers(self, count: int, arrivals: int = 1, name: str = "full") -> Handle:
        return self.named(name, "alloc_barriers", count, arrivals)

    def bar(self, barriers: Handle, index) -> Handle:
        return self.op("barrier_index", barriers, index)

    # ---- regions ----------------------------------------------------------------------------------------------------

    def block(self, body, types=()) -> DraftBlock:
        """A detached block made by `body(*arguments)`, which ends in a yield of what that returns (None: no yield)."""
        saved = self.recorder.get_insertion_point()
        block = DraftBlock(list(types))
        self.recorder.set_insertion_point_to_end(block)
        values = body(*block.args)
        if values is not None:
            self.op("yield", tuple(values))
        self.recorder.restore_insertion_point(saved)
        return block

    def loop(self, end, body, inits=(), start=0, step=1):
        """`for`: `body(index, *carried)` returns the carried values; gives the results."""
        bounds = [self.const(b) if isinstance(b, int) else b for b in (start, end, step)]
        self._here()
        op = self.recorder.record("for", *bounds, tuple(inits), regions=1)
        op.regions[0].push_back(self.block(lambda *args: body(*args) or (), [I32, *(init.type for init in inits)]))
        return op.results

    def when(self, condition, then, otherwise=lambda: (), types=()):
        self._here()
        op = self.recorder.record("if", condition, tuple(types), regions=2)
        for region, body in zip(op.regions, (then, otherwise)):
            region.push_back(self.block(lambda body=body: body() or ()))
        return op.results

    def combine(self, name: str, values, axis: int, body, *rest):
        """`reduce`, `scan` or `map_elementwise`, with the region `body(*scalars)`."""
        elements = [value.type.element for value in values]
        pairs = elements if name == "map_elementwise" else elements * 2
        op = self.recorder.record(name, tuple(values), axis, *rest, regions=1)
        op.regions[0].push_back(self.block(body, pairs))
        return op.results

    def tasks(self, *, warps: tuple[int, ...] = (), **bodies) -> None:
        """`warp_specialize`: one task for each keyword, the first being the default task; four warps each, or `warps`."""
        warps = warps or (4, ) * len(bodies)
        specs = [Task(name, size, index == 0) for index, (name, size) in enumerate(zip(bodies, warps, strict=True))]
        self._here()
        self.recorder.record_tasks(specs, [self.block(lambda body=body: body()) for body in bodies.values()])

    # ---- the end ----------------------------------------------------------------------------------------------------

    def finish(self) -> Program:
        program = self.recorder.finish("kernel", self.params, self.num_warps, self.recorder.site)
        verify(program)
        return program

    def run(self, *args, grid=(1, ), **options):
        """Verify and simulate; `args` are the host arguments in order."""
        paths = list(dict.fromkeys(path for _, _, path, _ in self.params))
        return run(self.finish(), grid, dict(zip(paths, args, strict=True)), **options)

    def _here(self) -> None:
        frame = sys._getframe(1)
        while frame.f_globals is globals():
            frame = frame.f_back
        self.recorder.set_loc(frame.f_code.co_filename, frame.f_lineno, 1)


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
