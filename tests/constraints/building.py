"""Writes small programs by hand: a recorder with a line counter, regions as `with` blocks, and values found by name."""

from __future__ import annotations

from contextlib import contextmanager

from mimw.frontend.drafts import Handle
from mimw.frontend.recorder import Recorder
from mimw.ir import Program, Site, Task, Tensor, Value, verify
from mimw.ir.types import I32, Buffer, Descriptor, Pointer, Scalar

BF16, FP8, FP32, FP64 = (Scalar(name) for name in ("bf16", "fp8e4nv", "fp32", "fp64"))


class Kernel:
    """`k("add", a, b, at=7, name="sum")` records an op at line 7 and gives its only result, named."""

    def __init__(self, num_warps: int = 4):
        self.recorder, self.num_warps = Recorder(), num_warps
        self.recorder.set_loc("k.py", 1)
        self.params: list = []

    def param(self, name: str, type_):
        handle = Handle(type_, self.recorder.site)
        handle.name = name
        self.params.append((handle, name, (len(self.params), ), ()))
        return handle

    def op(self, op: str, *args, at: int = 1, regions: int = 0, **attrs):
        self.recorder.set_loc("k.py", at)
        return self.recorder.record(op, *args, regions=regions, **attrs)

    def __call__(self, op: str, *args, at: int = 1, name: str = "", **attrs):
        draft = self.op(op, *args, at=at, **attrs)
        if not draft.results:
            return None
        draft.results[0].name = name
        return draft.results[0]

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
    def inside(self, draft, region: int = 0, types=()):
        """Record inside one region of an op; gives the new block's arguments."""
        outside = self.recorder.get_insertion_block()
        self.recorder.create_block_with_parent(draft.regions[region], list(types))
        yield self.recorder.get_insertion_block().args
        self.recorder.set_insertion_point_to_end(outside)

    @contextmanager
    def loop(self, *inits, at: int = 1):
        """A `for`; gives (op, carried block arguments)."""
        draft = self.op("for", self.number(), self.number(), self.number(), tuple(inits), at=at, regions=1)
        with self.inside(draft, 0, [I32, *(init.type for init in inits)]) as args:
            yield draft, args[1:]

    def branches(self, condition, types, at: int = 1):
        return self.op("if", condition, tuple(types), at=at, regions=2)

    def tasks(self, *num_warps: int):
        """A `warp_specialize` whose first task is the default one."""
        tasks = tuple(Task("default" if i == 0 else f"task{i}", warps, is_default=i == 0)
                      for i, warps in enumerate(num_warps))
        return self.op("warp_specialize", regions=len(tasks), tasks=tasks)

    def finish(self) -> Program:
        program = self.recorder.finish("k", self.params, self.num_warps, Site("k.py", 1))
        verify(program)
        return program


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
