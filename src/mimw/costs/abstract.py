"""Rough costs in abstract cycles: a timeline should make sense, not predict. One SM of about sm_90 is in mind."""

from __future__ import annotations

from ..ir import Op, Tensor
from ..ir.types import Buffer, Scalar

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
SLOW_MATH = frozenset("""
    exp exp2 log log2 sin cos sqrt precise_sqrt rsqrt erf fdiv precise_divf sdiv udiv srem urem frem extern_elementwise
""".split())
FREE = frozenset("""
    yield condition if for while warp_specialize map_elementwise buffer_index buffer_slice buffer_trans
    buffer_reinterpret buffer_flat barrier_index alias_storage constant poison local_alloc splat expand_dims broadcast
    make_range assume
""".split())
SYNCS = frozenset("""
    barrier barrier_wait barrier_arrive barrier_expect barrier_bytes named_barrier_wait named_barrier_arrive fence tma_load
    tma_store tma_store_wait tma_prefetch prefetch_descriptor bulk_load bulk_store async_commit async_wait async_dot async_dot_wait
    cluster_barrier remote_arrive tma_load_multicast async_remote_copy
""".split())
LOADS = frozenset("""
    load masked_load descriptor_load tma_fetch descriptor_gather atomic_rmw atomic_cas atomic_load
""".split())
SHARED = frozenset("""
    local_load local_store local_gather local_scatter local_masked_scatter local_atomic_rmw local_atomic_cas
""".split())
MACS = {8: 4096.0, 16: 2048.0, 32: 1024.0, 64: 64.0}    # multiply-adds per cycle by operand bits (32 is tf32)


def cost(op: Op, num_warps: int) -> float:
    """What `op` takes of its task's time, waits and asynchronous work left out."""
    if op.name in FREE:
        return 0.0
    if op.name in SYNCS:
        return SYNC
    if op.name in LOADS:
        return GLOBAL_LATENCY + _bytes(op) / GLOBAL_BYTES
    if op.name in SHARED:
        return SHARED_LATENCY + _bytes(op) / SHARED_BYTES
    if op.name in ("dot", "dot_scaled"):
        return DOT_LATENCY + dot(op)
    factor = SLOW_FACTOR if op.name in SLOW_MATH else 1.0
    return ISSUE + factor * _elements(op) / (32.0 * num_warps)


def dot(op: Op) -> float:
    """Tensor-core time of a dot: M * N * K over the rate for its operands."""
    a, result = op.args[0].type, op.results[0].type
    macs = result.numel * a.shape[-1]
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
