"""Rough costs in abstract cycles, for the timeline of a simulated run: it should make sense, and predicts nothing.

Input: an op and the warps of its task. Output: cycles of one SM of about sm_90. The fact `work` of the op's row says what kind of
work the op is, here as in the model of a chip (`costs.model`), whose figures are measured. For example:

    cost(op, 4)       of a `barrier_wait` SYNC; of a `fadd` of 4096 numbers ISSUE + 4096 / 128
"""

from __future__ import annotations

from math import prod

from ...ir import Op, Tensor
from ...ir.types import Buffer, Scalar
from ...target import NVIDIA_WARP

ISSUE = 2.0                   # a warp instruction leaves every couple of cycles
SYNC = 20.0                   # an mbarrier operation is a round trip to shared memory
SHARED_LATENCY = 30.0         # the same round trip, for data
SHARED_BYTES = 128.0          # bytes per cycle: 32 banks of 4
GLOBAL_LATENCY = 500.0        # L2 miss
GLOBAL_BYTES = 64.0           # bytes per cycle between L2 and an SM
TMA_LATENCY = 600.0           # issue to bytes visible
COPY_LATENCY = 500.0          # cp.async: a global load that ends in shared memory
POLL = 200.0                  # one round of a spin on global memory
DOT_LATENCY = 30.0            # the tensor core's pipeline
SLOW_FACTOR = 4.0             # the special-function unit has a quarter of the lanes
MACS = {8: 4096.0, 16: 2048.0, 32: 1024.0, 64: 64.0}    # multiply-adds per cycle by operand bits (32 is tf32)


def cost(op: Op, num_warps: int) -> float:
    """The time of its task that `op` takes, waits and asynchronous work left out."""
    work = op.row.cost
    if work == "free" or "maps" in op.row.traits:           # the ops of its region have costs of their own
        return 0.0
    if work == "sync":
        return SYNC
    if work == "global":
        return GLOBAL_LATENCY + _bytes(op) / GLOBAL_BYTES
    if work == "shared":
        return SHARED_LATENCY + _bytes(op) / SHARED_BYTES
    if work == "dot":
        return DOT_LATENCY + dot(op)
    factor = SLOW_FACTOR if work in ("special", "division") else 1.0
    return ISSUE + factor * _elements(op) / (NVIDIA_WARP * num_warps)


def dot(op: Op) -> float:
    """Tensor-core time of a dot: M * N * K over the rate for its operands."""
    a, acc = op.a.type, (op.result if op.results else op.acc).type
    macs = prod(acc.shape) * a.shape[-1]
    return macs / MACS[a.element.bits]


def transfer(num_bytes: int) -> float:
    """Time in which an asynchronous copy occupies its unit."""
    return num_bytes / GLOBAL_BYTES


def _elements(op: Op) -> int:
    values = (*op.results, *op.operands)
    return max((value.type.numel for value in values if isinstance(value.type, Tensor)), default=1)


def _bytes(op: Op) -> int:
    sizes = [value.type.numel * value.type.element.bytes for value in op.results if isinstance(value.type, Tensor)]
    sizes += [value.type.bytes for value in op.operands if isinstance(value.type, (Buffer, Scalar))]
    return max(sizes, default=4)
