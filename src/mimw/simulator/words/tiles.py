"""Tile arithmetic: passed on to the builder of `triton_port`, whose methods are called as the ops are.

Input: a task at an op of `ir/ops/tiles.py`. Output: numbers and tiles in the task's environment. For example:

    %sum = fadd %a %b      the builder's create_fadd on two arrays; two tiles of fp32 go to numpy.add at once
"""

from __future__ import annotations

import operator

import numpy as np

from ...compiler.triton_port.interpreter import Handle, TileBuilder, triton_type
from ...errors import OutOfBounds, fail
from ...ir import Tensor, Type, Value
from ...ir.types import Pointer
from ..machine.guarded import PerThread
from ..machine.table import handles, made_for
from ..memory.values import element_name, filled, numpy_type
from .division import refuse_zero
from .lanes import settle, spread

_BUILDER = TileBuilder()


def _argument(task, op, arg):
    if isinstance(arg, Value):
        return Handle(task.read(arg, op), element_name(arg.type))
    if isinstance(arg, Type):
        return triton_type(element_name(arg))
    return arg


_OPS = """
    add sub mul sdiv udiv srem urem shl lshr ashr and or xor umulhi minsi minui maxsi maxui
    fadd fsub fmul fdiv frem precise_divf approx_divf minimumf minnumf maximumf maxnumf
    icmpSLE icmpSLT icmpSGE icmpSGT icmpULE icmpULT icmpUGE icmpUGT icmpEQ icmpNE
    fcmpOLT fcmpOGT fcmpOLE fcmpOGE fcmpOEQ fcmpONE fcmpULT fcmpUGT fcmpULE fcmpUGE fcmpUEQ fcmpUNE
    fneg fabs iabs ceil floor exp exp2 log log2 sin cos sqrt precise_sqrt rsqrt erf fma clampf select
    int_cast si_to_fp ui_to_fp fp_to_si fp_to_ui fp_ext fp_trunc fp_to_fp bitcast int_to_ptr ptr_to_int
    unsplat reshape trans join histogram dot dot_scaled
"""


# Slots, phases and offsets: most ops of a kernel are these, and the way through the builder takes ten times as long. Python's
# operators on numpy's numbers give what numpy's functions give, in a third of the time.
_INT32 = {"add": operator.add, "sub": operator.sub, "mul": operator.mul, "and": operator.and_, "or": operator.or_,
          "xor": operator.xor, "icmpSLT": operator.lt, "icmpSLE": operator.le, "icmpSGT": operator.gt, "icmpSGE": operator.ge,
          "icmpEQ": operator.eq, "icmpNE": operator.ne}
_NATURAL = {"sdiv": operator.floordiv, "srem": operator.mod}     # as in C where neither operand is negative
# What the builder does with two tiles of fp32.
_FP32 = {"fadd": np.add, "fsub": np.subtract, "fmul": np.multiply, "maxnumf": np.fmax, "minnumf": np.fmin, "maximumf": np.maximum,
         "minimumf": np.minimum}
_NUMBER, _TILE = np.dtype(np.int32).type, np.dtype(np.float32)


@handles(*_OPS.split())
def tile_op(task, op):
    """One result, computed by the builder's method of the op's name."""
    if op.row.cost == "division":
        refuse_zero(task, op)
    args = [_argument(task, op, arg) for arg in op.args]
    data = getattr(_BUILDER, "create_" + op.name)(*args).data
    task.env[op.results[0]] = settle(op.results[0], data) if task.machine.tells_threads_apart else data


@made_for(*_INT32)
def number_op(op):
    one, other, result, compute = op.lhs, op.rhs, op.results[0], _INT32[op.name]

    def run(task, op):
        env = task.env
        x, y = env[one], env[other]
        if type(x) is type(y) is _NUMBER:
            env[result] = compute(x, y)
        else:
            tile_op(task, op)

    return run


@made_for(*_NATURAL)
def natural_op(op):
    one, other, result, compute = op.lhs, op.rhs, op.results[0], _NATURAL[op.name]

    def run(task, op):
        env = task.env
        x, y = env[one], env[other]
        if type(x) is type(y) is _NUMBER and x >= 0 and y > 0:
            env[result] = compute(x, y)
        else:
            tile_op(task, op)

    return run


@made_for(*_FP32)
def float_op(op):
    one, other, result, compute = op.lhs, op.rhs, op.results[0], _FP32[op.name]

    def run(task, op):
        env = task.env
        x, y = env[one], env[other]
        if type(x) is type(y) is np.ndarray and x.dtype is y.dtype is _TILE:
            env[result] = compute(x, y)
        else:
            tile_op(task, op)

    return run


@made_for("int_cast")
def cast_op(op):
    """One number; what a comparison says, as a phase, for instance."""
    value, result, signed = op.value, op.results[0], op.signed
    kind = numpy_type(result.type, op.site).type

    def run(task, op):
        x = task.env[value]
        if type(x) is kind is _NUMBER:
            task.env[result] = x
        elif type(x) is np.bool_ and kind is _NUMBER:
            task.env[result] = kind(-int(x) if signed else x)
        else:
            tile_op(task, op)

    return run


@handles("split")
def split(task, op):
    for result, half in zip(op.results, _BUILDER.create_split(_argument(task, op, op.value))):
        task.env[result] = half.data


@handles("cut")
def cut(task, op):
    task.env[op.result] = task.read(op.value, op)[tuple(slice(first, first + extent) for first, extent in zip(op.start, op.shape))]


@handles("constant")
def constant(task, op):
    task.env[op.result] = filled(op.value, op.result.type, op.site)


@made_for("constant")
def constant_op(op):
    """A number is made once for all runs; a tile is as large as a task's others, and made where it is wanted."""
    if isinstance(op.result.type, Tensor):
        return constant
    result, number = op.result, filled(op.value, op.result.type, op.site)

    def run(task, op):
        task.env[result] = number

    return run


@handles("poison")
def poison(task, op):
    """Zeros stand for a value that nobody may use."""
    task.env[op.result] = None if not _is_data(op.result.type) else filled(0, op.result.type, op.site)


def _is_data(type_: Type) -> bool:
    return isinstance(type_, Tensor) or hasattr(type_, "is_float")


@handles("addptr")
def addptr(task, op):
    pointer, offset = task.read(op.lhs, op), task.read(op.rhs, op)
    type_ = op.lhs.type
    pointee = (type_.element if isinstance(type_, Tensor) else type_).pointee
    size = 8 if isinstance(pointee, Pointer) else pointee.bytes
    if isinstance(offset, np.generic) and isinstance(pointer, np.generic):      # numpy takes ten times as long for one number
        data = np.uint64((int(pointer) + int(offset) * size) & 0xFFFF_FFFF_FFFF_FFFF)
    else:
        data = pointer + offset.astype(np.int64).view(np.uint64) * np.uint64(size)
    task.env[op.result] = settle(op.result, data) if task.machine.tells_threads_apart else data


@handles("make_range")
def make_range(task, op):
    task.env[op.result] = np.arange(op.start, op.end, dtype=numpy_type(op.result.type))


@handles("splat")
def splat(task, op):
    value = task.read(op.value, op)
    task.env[op.result] = (spread(task, value, op.result.type.shape) if value.__class__ is PerThread else
                           np.full(op.result.type.shape, value, numpy_type(op.result.type)))


@handles("broadcast")
def broadcast(task, op):
    task.env[op.result] = np.broadcast_to(task.read(op.value, op), op.result.type.shape)


@handles("expand_dims")
def expand_dims(task, op):
    task.env[op.result] = np.expand_dims(task.read(op.value, op), op.axis)


@handles("gather")
def gather(task, op):
    source, indices, axis = task.read(op.source, op), task.read(op.indices, op), op.axis
    if indices.min() < 0 or indices.max() >= source.shape[axis]:
        raise fail(OutOfBounds, task, op,
                   f"gather indices from {indices.min()} to {indices.max()} into {source.shape[axis]} elements")
    task.env[op.result] = np.take_along_axis(source, indices.astype(np.int64), axis=axis)

