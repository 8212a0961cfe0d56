"""A function in MLIR text runs as ops of ours, or, where its author gives one, as the reference in Python.

Input: a task at a `raw_mlir`. Output: the results of the function, and what it does to memory. For example:

    %y = raw_mlir 'twice' [%x]          runs `fadd %x %x`, which is what the text says in MLIR

A reference takes a numpy array for each tile and buffer (a buffer that is written is changed in place), a number for each scalar, a
`Memory` for each pointer, and returns what the function returns. A text with an op that has no twin among ours needs one.
"""

from __future__ import annotations

import numpy as np

from ...errors import SimulatorMisuse, fail
from ...ir import Buffer, Op, Pointer, Tensor
from ...ir.raw_code import READS, WRITES, Form, RawCode, code_of
from ..machine.interpreter import run_code
from ..machine.table import handles
from ..memory.values import numpy_type
from ..memory.views import WRITTEN
from .mlir_blocks import Unreadable, block_of
from .raw import Memory


@handles("mlir_reads", "mlir_writes", "mlir_loads", "mlir_stores")
def declared(task, op):
    """The ops of the text, or the call that runs a reference, say which bytes."""


@handles("raw_mlir", "pure_mlir")
def raw_mlir(task, op):
    code = code_of(op)
    if code.reference is not None:
        yield None
        _refer(task, op, code)
        return
    try:
        block = block_of(op, code, task.num_warps)
    except Unreadable as problem:
        raise fail(SimulatorMisuse, task, op, f"{op.function} cannot be simulated: {problem.what} (line "
                   f"{code.line + problem.line - 1} of {code.file})", hint="give it a reference: tle.raw.dialect(name='mlir', .., "
                   "reference=f), where f is a Python function that does the same on numpy arrays") from None
    task.env.update(zip(block.args, (task.env[value] for value in op.values)))
    yield from run_code(task, task.code(block))
    task.env.update(zip(op.results, [task.env[value] for value in block.yielded]))


def _refer(task, op: Op, code: RawCode) -> None:
    for value, effect in zip(op.values, op.attrs["effects"]):
        if isinstance(value.type, Buffer) and effect in READS:
            task.env[value].touch(task, op, write=False)
            task.env[value].check(task, op)
    returned = code.reference(*(_given(task, op, *pair) for pair in zip(op.values, op.attrs["effects"])))
    for value, effect in zip(op.values, op.attrs["effects"]):
        if isinstance(value.type, Buffer) and effect in WRITES:
            task.env[value].touch(task, op, write=True)
            task.env[value].marks[...] = WRITTEN
    given = () if not op.results else returned if isinstance(returned, tuple) else (returned, )
    if len(given) != len(op.results):
        raise fail(SimulatorMisuse, task, op, f"the reference of {op.function} returns {len(given)} values, its function "
                   f"{len(op.results)}", hint="return what the function in MLIR returns, several as a tuple")
    for result, one in zip(op.results, given):
        task.env[result] = _result(task, op, result, one)


def _result(task, op: Op, result, one):
    dtype = numpy_type(result.type, op.site)
    if not isinstance(result.type, Tensor):
        return dtype.type(one)
    if np.shape(one) != result.type.shape:
        raise fail(SimulatorMisuse, task, op, f"the reference of {op.function} returns an array of {list(np.shape(one))}, and the "
                   f"function {list(result.type.shape)}", hint="return arrays of the shapes in the function's signature")
    return np.asarray(one).astype(dtype)


def _given(task, op: Op, value, effect: str):
    if isinstance(value.type, Buffer):
        view = task.env[value].tile
        if effect not in WRITES:
            view = view.view()
            view.flags.writeable = False
        return view
    found = task.read(value, op)
    if isinstance(value.type, Pointer):
        return Memory(task, op, found, numpy_type(value.type.pointee, op.site), Form(effect or "in", "pointer"))
    return found
