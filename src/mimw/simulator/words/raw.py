"""Native code of the author: its reference, a Python function, runs instead.

Input: a task at an op of `ir/ops/raw.py`. Output: what the reference makes of numpy arrays, each access told to the order of
accesses; or a refusal, if the code has none. For example, for `scale(x: InOut["memref<?xf32, 3>"], factor: Input["f32"])`:

    def reference(x, factor): x *= factor           x is a float32 array, changed in place

A buffer is a numpy array of its extents, a pointer a `Memory`, from whose element 0 the reference counts, a number a numpy scalar.
"""

from __future__ import annotations

import numpy as np

from ...errors import MimwError, SimulatorMisuse, fail
from ...ir import Op
from ...ir.raw_code import code_of, forms_of
from ..machine.table import handles
from ..memory.values import numpy_type
from ..memory.views import WRITTEN


class Memory:
    """Global memory from a pointer on, by elements: `memory[i]`, `memory[2:8]`, `memory[indices] = values`. It has no end of its
    own; an index outside the launch's arrays is refused."""

    def __init__(self, task, op: Op, address, dtype: np.dtype, form):
        self._task, self._op, self._form = task, op, form
        self._start, self.dtype = int(address), dtype

    def __getitem__(self, index) -> np.ndarray:
        places, size = self._places(index), self.dtype.itemsize
        if not self._form.reads:
            raise self._undeclared("reads", "in or inout")
        self._task.memory.touch(self._task, self._op, places, None, size, write=False)
        return self._task.memory.read(places, None, self.dtype, None, self._task, self._op)

    def __setitem__(self, index, values) -> None:
        places = self._places(index)
        if not self._form.writes:
            raise self._undeclared("writes", "out or inout")
        self._task.machine.wrote()
        self._task.memory.touch(self._task, self._op, places, None, self.dtype.itemsize, write=True)
        values = np.broadcast_to(np.asarray(values, self.dtype), np.shape(places))
        self._task.memory.write(places, values, None, self._task, self._op)

    def _places(self, index):
        if isinstance(index, slice):
            if index.stop is None:
                raise fail(SimulatorMisuse, self._task, self._op, "the reference takes a slice of a pointer without an end",
                           hint="name the end: a pointer does not know how many elements there are")
            index = np.arange(index.start or 0, index.stop, index.step or 1)
        places = self._start + np.asarray(index).astype(np.int64) * self.dtype.itemsize
        return places.astype(np.uint64) if np.shape(places) else np.uint64(places)

    def _undeclared(self, what: str, effect: str):
        return fail(SimulatorMisuse, self._task, self._op, f"the reference {what} memory that is declared {self._form.effect!r}",
                    hint=f"declare the pointer {effect}: checks take the declaration as the truth")


@handles("raw_address")
def raw_address(task, op):
    task.env[op.result] = task.env[op.buffer]


@handles("raw_barrier")
def raw_barrier(task, op):
    task.env[op.result] = task.env[op.barrier]


@handles("raw_reads", switches=True)
def raw_reads(task, op):
    view = task.env[op.buffer]
    view.touch(task, op, write=False)
    view.check(task, op)


@handles("raw_writes", switches=True)
def raw_writes(task, op):
    view = task.env[op.buffer]
    view.touch(task, op, write=True)
    view.marks[...] = WRITTEN


@handles("raw_loads", "raw_stores")
def raw_through_pointers(task, op):
    """Nothing to do: the reference shows which elements are accessed."""


@handles("raw_call", switches=True)
def raw_call(task, op):
    code = code_of(op)
    if code.reference is None:
        raise fail(SimulatorMisuse, task, op, f"{op.function} is native code ({code.dialect}) without a reference, so it cannot be "
                   "simulated", hint=f"give it one: tle.raw.dialect(name={code.dialect!r}, .., reference=f), where f is a Python "
                   "function that does the same on numpy arrays")
    try:
        returned = code.reference(*(_given(task, op, value, form) for value, form in zip(op.values, forms_of(op))))
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        if isinstance(error, MimwError):
            raise
        raise fail(SimulatorMisuse, task, op, f"the reference of {op.function} raises {type(error).__name__}: {error}",
                   hint="a buffer is a numpy array, read-only where it is declared an Input; a pointer has no extent of its own") \
            from error
    for result in op.results:
        task.env[result] = numpy_type(result.type, op.site).type(returned)
    if op.attrs.get("fence"):
        task.machine.order.fence(task, op.attrs["fence"])


def _given(task, op: Op, value, form):
    if form.kind == "memref":
        view = task.env[value].tile[tuple(map(slice, form.shape))]
        if not form.writes:
            view = view.view()
            view.flags.writeable = False
        return view
    found = task.read(value, op)
    return Memory(task, op, found, numpy_type(value.type.pointee, op.site), form) if form.kind == "pointer" else found
