"""Products with block scales, and the copies that bring the scales: `tcgen05_mma_scaled` and `tmem_copy`.

Input: a task at one of these ops. Output: operations in the queue of the task's tensor-core work (`tensor_memory`). For example:

    tmem_copy %packed %table; tcgen05_mma_scaled ... %table ...      the table is written, then read, whenever both land

Numbers are those of the formats (OCP Microscaling Formats 1.0; PTX ISA, "Alternate floating-point data formats"): e2m1 in pairs,
the first in the low half of a byte; scales e8m0, a power of two, or e4m3. Each operand times its scale is exact in fp32.
"""

from __future__ import annotations

from math import prod

import ml_dtypes
import numpy as np

from ...compiler.triton_port.interpreter import matmul, unpack_e2m1
from ...ir.tensor_memory import is_repeated
from ..costs import abstract as costs
from ..machine.operands import enabled
from ..machine.table import handles
from ..memory.peers import peer
from ..memory.values import numpy_type
from . import pairs
from .tensor_memory import check_queued, multiply, queued

_ELEMENTS = {"e4m3": ml_dtypes.float8_e4m3fn, "e5m2": ml_dtypes.float8_e5m2}
_SCALES = {32: ml_dtypes.float8_e8m0fnu, 16: ml_dtypes.float8_e4m3fn}       # by the elements that have one scale


@handles("unpack_fp4")
def unpack_fp4(task, op):
    packed = np.ascontiguousarray(task.read(op.value, op)).view(np.uint8)
    task.env[op.result] = unpack_e2m1(packed, op.axis).astype(numpy_type(op.result.type.element))


@handles("tmem_copy")
def tmem_copy(task, op):
    if not enabled(task, op, op.predicate):
        return
    yield None
    _copy(task, op, task.env[op.source], task.env[op.buffer])


@handles("tmem_copy_pair", switches=True)
def tmem_copy_pair(task, op):
    """In each CTA its own buffers, one copy behind the other in the queue of the task that starts them."""
    if not enabled(task, op, op.predicate):
        return
    odd = peer(task, op, op.peer)
    copies = [[pairs.in_cta(cta, one, task, op) for one in ("source", "buffer")] for cta in (task.cta, odd)]
    for cta, (source, target) in zip((None, odd), copies):
        _copy(task, op, source, target, cta)


def _copy(task, op, source, target, cta=None) -> None:
    """A copy in the queue of the task, in another CTA if one is given."""
    check_queued(task, op, source, cta)
    (*blocks, columns), dtype = target.data.shape, target.data.dtype
    shape = prod(blocks), columns       # of more than 128 rows one table may be several, side by side (`compiler.ttgir.reshaped`)
    queued(task, op, "tmem_copy", task.clock + costs.transfer(source.data.nbytes), (source, ), target,
           lambda: (source.data.reshape(shape) if op.attrs.get("in_order") else as_table(source.data, shape)).view(dtype).reshape(
               target.data.shape),
           lambda: "a tcgen05_commit behind it, or the mBarriers of a later product", cta)


def as_table(source: np.ndarray, shape: tuple[int, int]) -> np.ndarray:
    """The copy of a buffer in tensor memory: rows and columns of a table of scales, of which the packed form has blocks of 128
    rows and 4 columns, or the tile itself."""
    if source.shape == shape:
        return source.copy()
    (rows, columns), packed = shape, np.ascontiguousarray(source)
    if is_repeated(source.shape, rows, columns):
        return np.tile(packed.reshape(-1, 32, 16).transpose(1, 0, 2).reshape(32, columns), (4, 1))
    blocks = packed.reshape(rows // 128, columns // 4, 32, 4, 4)
    return np.ascontiguousarray(blocks.transpose(0, 3, 2, 1, 4)).reshape(rows, columns)


@handles("tcgen05_mma_scaled")
def tcgen05_mma_scaled(task, op):
    if not enabled(task, op, op.predicate):
        return
    yield None
    views = tuple(task.env[value] for value in (op.a, op.b, op.a_scale, op.b_scale))
    a, b, a_scale, b_scale = views
    yield from multiply(task, op, "async_dot_scaled", views, lambda acc: _product(op, acc, a.data, b.data, a_scale, b_scale))


@handles("tcgen05_mma_pair_scaled", switches=True)
def tcgen05_mma_pair_scaled(task, op):
    """Each CTA's rows by its own tables: of a_scale those of its rows, of b_scale those of all columns."""
    pairs.multiply(task, op, "async_dot_scaled", ("a", "b", "a_scale", "b_scale"),
                   lambda acc, b, a, *scales: _product(op, acc, a.data, pairs.joined(b), *scales))


def _product(op, acc, a: np.ndarray, b: np.ndarray, a_scale, b_scale) -> np.ndarray:
    lhs, rhs = _scaled(a, a_scale.data, op.a_format), _scaled(b.T, b_scale.data, op.b_format)
    return matmul(lhs, rhs.T, acc, np.dtype(np.float32), "ieee")


def _scaled(data: np.ndarray, scales: np.ndarray, format_: str) -> np.ndarray:
    """Rows of elements along K, each times the scale of its block, as fp32. Scales may have more rows."""
    rows = unpack_e2m1(data.view(np.uint8), -1) if format_ == "e2m1" else \
        np.ascontiguousarray(data).view(_ELEMENTS[format_]).astype(np.float32)
    block = rows.shape[1] // scales.shape[-1]
    factors = np.ascontiguousarray(scales.reshape(-1, scales.shape[-1])[:len(rows)]).view(_SCALES[block]).astype(np.float32)
    return rows * np.repeat(factors, block, axis=1)
