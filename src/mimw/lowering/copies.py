"""Asynchronous copies: cp.async, TMA, and the register form of descriptors (`desc.load`, `desc.store`)."""

from __future__ import annotations

from ..ir import Op, Tensor
from ..ir.layouts import SharedLayout
from ..triton_port.builder import mlir
from .barriers import predicate
from .descriptor_address import is_hinted_reduction
from .emitter import Emitter, emits
from .reduction import hinted_reduction
from .tiles import scalar_constant

_REDUCE = {"add": "ADD", "min": "MIN", "max": "MAX", "and": "AND", "or": "OR", "xor": "XOR"}


def _policy(emitter: Emitter, policy):
    modifier, eviction = (policy or ("cache", "none", "evict_normal"))[1:3]
    return emitter.builder.get_cache_policy((modifier or "none").removeprefix("."), eviction or "evict_normal")


@emits("async_load")
def async_load(emitter: Emitter, op: Op):
    """cp.async fills what it does not read with zeros and moves 4 bytes at least; all else goes through registers."""
    pointer, buffer, mask, other, policy, is_volatile = op.args
    builder = emitter.builder
    if op in emitter.by_registers or other is not None:
        _by_registers(emitter, op)
        return []
    none = mlir.value()
    left_out = mask is not None and emitter.target.backend == "hip"  # a load into LDS leaves these bytes as they were
    builder.create_async_copy_global_to_local(
        emitter.values[buffer], emitter.operand(op, pointer), none if mask is None else emitter.operand(op, mask),
        _zeros(emitter, op) if left_out else none, _policy(emitter, policy), bool(is_volatile))
    return []


def _by_registers(emitter: Emitter, op: Op) -> None:
    """The same elements at once: an ordinary load and an ordinary store, which the group's wait finds done."""
    pointer, buffer, mask, other, policy, is_volatile = op.args
    address, hint = emitter.operand(op, pointer), _policy(emitter, policy)
    if mask is None:
        tile = emitter.builder.create_load(address, hint, bool(is_volatile))
    else:
        filler = _zeros(emitter, op) if other is None else emitter.operand(op, other)
        tile = emitter.builder.create_masked_load(address, emitter.operand(op, mask), filler, hint, bool(is_volatile))
    emitter.builder.create_local_store(emitter.values[buffer], tile)


def _zeros(emitter: Emitter, op: Op):
    """As many zeros as the pointers of a copy read elements."""
    tile = Tensor(op.args[0].type.element.pointee, op.args[0].type.shape)
    return emitter.builder.create_splat(emitter.types.tensor(tile, emitter.layouts.wanted(op, 0)),
                                        scalar_constant(emitter.builder, 0, tile.element))


@emits("async_commit")
def async_commit(emitter: Emitter, op: Op):
    emitter.builder.create_async_commit_group()
    return []


@emits("async_wait")
def async_wait(emitter: Emitter, op: Op):
    emitter.builder.create_async_wait_group(op.args[0])
    return []


def _offsets(emitter: Emitter, offsets) -> list:
    return [emitter.values[offset] for offset in offsets]


@emits("tma_load")
def tma_load(emitter: Emitter, op: Op):
    descriptor, offsets, barrier, buffer, when, policy = op.args
    policy = (None, None, *policy[2:]) if policy else None  # TMA has eviction policies of L2, no cache modifiers
    emitter.builder.create_async_tma_copy_global_to_local(
        emitter.values[descriptor], _offsets(emitter, offsets), emitter.values[barrier], emitter.values[buffer],
        predicate(emitter, when), False, None, _policy(emitter, policy))


@emits("tma_store")
def tma_store(emitter: Emitter, op: Op):
    descriptor, offsets, buffer, policy, reduce = op.args
    target, coordinates, source = emitter.values[descriptor], _offsets(emitter, offsets), emitter.values[buffer]
    if is_hinted_reduction(op) and hinted_reduction(emitter, op):
        return
    if reduce:
        kind = getattr(mlir.DESCRIPTOR_REDUCE_KIND, _REDUCE[reduce])
        emitter.builder.create_async_tma_reduce(kind, target, coordinates, source)
    else:
        emitter.builder.create_async_tma_copy_local_to_global(target, coordinates, source, _policy(emitter, policy))


@emits("tma_store_wait")
def tma_store_wait(emitter: Emitter, op: Op):
    emitter.builder.create_async_tma_store_wait(op.args[0], False)


def _staging(emitter: Emitter, type_, layout: SharedLayout):
    """Memory for one call; it is given back when the call's copy is complete."""
    return emitter.builder.create_local_alloc(emitter.types.buffer(type_.element, type_.shape, layout))


@emits("descriptor_load")
def descriptor_load(emitter: Emitter, op: Op):
    """`desc.load(offsets)`: a TMA load into a tile of its own, waited for by the calling task, then read."""
    descriptor, offsets, policy = op.args
    tile = _staging(emitter, descriptor.type, emitter.layouts.descriptors[descriptor])
    _fetch(emitter, descriptor, offsets, tile, policy, descriptor.type.block_bytes)
    value = emitter.builder.create_local_load(emitter.mlir_type(op.result), tile)
    emitter.builder.create_local_dealloc(tile)
    return value


@emits("tma_fetch")
def tma_fetch(emitter: Emitter, op: Op):
    """The fence orders what threads wrote there before; Triton's barrier between their accesses and the copy follows it."""
    descriptor, offsets, buffer, policy = op.args
    size = op.attrs.get("bytes", descriptor.type.block_bytes)
    if size:
        emitter.builder.create_fence_async_shared(False)
    _fetch(emitter, descriptor, offsets, emitter.values[buffer], policy, size, op.attrs.get("more", False))


def _fetch(emitter: Emitter, descriptor, offsets, tile, policy, size: int, more: bool = False) -> None:
    """A TMA load that completes on a barrier of its own, and the wait for it.

    A run of loads has one barrier: the first has the `size` of all, the others 0; all but the last have `more` to follow.
    """
    builder = emitter.builder
    always = builder.get_int1(True)
    if size:
        emitter.fetching = builder.create_local_alloc(emitter.types.barrier(0))
        builder.create_mbarrier_init(emitter.fetching, 1)
        builder.create_mbarrier_expect(emitter.fetching, size, always)
    barrier = emitter.fetching
    builder.create_async_tma_copy_global_to_local(emitter.values[descriptor], _offsets(emitter, offsets), barrier, tile,
                                                  always, False, None, _policy(emitter, policy))
    if more:
        return
    builder.create_mbarrier_wait(barrier, builder.get_int32(0), always, [])
    builder.create_mbarrier_inval(barrier)
    builder.create_local_dealloc(barrier)


def _staged(emitter: Emitter, op: Op, descriptor, value):
    """A register tile in shared memory, fenced for the async proxy."""
    tile = _staging(emitter, descriptor.type, emitter.layouts.descriptors[descriptor])
    emitter.builder.create_local_store(tile, emitter.operand(op, value))
    emitter.builder.create_fence_async_shared(False)
    return tile


@emits("descriptor_store")
def descriptor_store(emitter: Emitter, op: Op):
    """`desc.store(offsets, value)`: through a tile of its own and a TMA store, complete when the call returns."""
    descriptor, value, offsets = op.args
    builder = emitter.builder
    tile = _staged(emitter, op, descriptor, value)
    builder.create_async_tma_copy_local_to_global(emitter.values[descriptor], _offsets(emitter, offsets), tile,
                                                  _policy(emitter, None))
    _finish(emitter, tile)


@emits("descriptor_reduce")
def descriptor_reduce(emitter: Emitter, op: Op):
    kind, descriptor, value, offsets = op.args
    tile = _staged(emitter, op, descriptor, value)
    emitter.builder.create_async_tma_reduce(kind, emitter.values[descriptor], _offsets(emitter, offsets), tile)
    _finish(emitter, tile)


def _finish(emitter: Emitter, tile) -> None:
    """Wait for the store; only then may the memory be used for something else."""
    emitter.builder.create_async_tma_store_wait(0, False)
    emitter.builder.create_local_dealloc(tile)


@emits("descriptor_gather", "descriptor_scatter")
def descriptor_gather_scatter(emitter: Emitter, op: Op):
    from ..errors import NotYet
    raise NotYet(f"not yet: tl.{op.name} in a kernel with mimw words", op.site,
                 hint="TMA gather and scatter are Blackwell instructions; use tl.load with pointers on Hopper")
