"""Accesses to picked elements of a flat buffer: masked stores and atomics, each logical element once.

Triton's scatter and atomics take any layout of the buffer, are seen by its barrier insertion, and leave replicated lanes out.
"""

from __future__ import annotations

from ..ir import Op
from ..triton_port.builder import mlir
from .emitter import Emitter, emits


@emits("buffer_flat")
def buffer_flat(emitter: Emitter, op: Op):
    return emitter.builder.create_memdesc_reshape(emitter.values[op.args[0]], list(op.result.type.shape))


@emits("local_atomic_rmw")
def local_atomic_rmw(emitter: Emitter, op: Op):
    buffer, value, indices, *mask = emitter.operands(op)
    return emitter.builder.create_local_atomic_scatter_rmw(op.args[0], buffer, value, indices, mask[0] if mask else None, 0)


@emits("local_masked_scatter")
def local_masked_scatter(emitter: Emitter, op: Op):
    """An exchange whose result nobody uses."""
    buffer, value, indices, mask = emitter.operands(op)
    emitter.builder.create_local_atomic_scatter_rmw(mlir.ATOMIC_OP.XCHG, buffer, value, indices, mask, 0)
