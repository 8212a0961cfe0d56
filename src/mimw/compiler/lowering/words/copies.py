"""Asynchronous copies: cp.async, TMA, and the register form of descriptors (`desc.load`, `desc.store`).

Input: an op that copies. Output: Triton's ops of the copy engines:

    tma_load %descriptor (%row, %column) %full %tile        ttng.async_tma_copy_global_to_local, on the barrier %full
"""

from __future__ import annotations

from ....ir import Op, Tensor
from ....ir.extents import is_odd
from ....ir.layouts import SharedLayout
from ...triton_port.builder import mlir
from ..constants import scalar_constant
from ..emitter import Emitter, emits
from ..hopper import box_copies
from ..hopper.descriptor_address import is_hinted_reduction
from ..predicates import predicate
from . import fetches, pieces

_REDUCE = {"add": "ADD", "min": "MIN", "max": "MAX", "and": "AND", "or": "OR", "xor": "XOR"}


def _policy(emitter: Emitter, policy):
    modifier, eviction = (policy or ("cache", "none", "evict_normal"))[1:3]
    return emitter.builder.get_cache_policy((modifier or "none").removeprefix("."), eviction or "evict_normal")


@emits("async_load")
def async_load(emitter: Emitter, op: Op):
    """Copy by cp.async, which fills unread elements with zeros and moves 4 bytes at least, or by AMD's loads into LDS; all other
    copies go through registers."""
    fills = emitter.target.has("zero_fill")
    if op in emitter.by_registers or op.other is not None and fills or op.attrs.get("pieces"):
        _by_registers(emitter, op)
    else:
        through_pointers(emitter, op, _policy(emitter, op.cache_policy))
    return []


def through_pointers(emitter: Emitter, op: Op, policy) -> None:
    """The copy of a tile of pointers. A chip that leaves masked elements as they are gets `other`, or zeros, to store there."""
    none, masked = mlir.value(), op.mask is not None
    filler = masked and not emitter.target.has("zero_fill")
    emitter.builder.create_async_copy_global_to_local(
        emitter.of(op.buffer), emitter.operand(op, "pointer"), emitter.operand(op, "mask") if masked else none,
        other_of(emitter, op) if filler else none, policy, bool(op.is_volatile))


def other_of(emitter: Emitter, op: Op):
    """Values of masked elements: the operand, or zeros."""
    return _zeros(emitter, op) if op.other is None else emitter.operand(op, "other")


def _by_registers(emitter: Emitter, op: Op) -> None:
    """The same elements at once: an ordinary load and an ordinary store, which the group's wait finds done."""
    address, hint = emitter.operand(op, "pointer"), _policy(emitter, op.cache_policy)
    if op.mask is None:
        tile = emitter.builder.create_load(address, hint, bool(op.is_volatile))
    else:
        tile = emitter.builder.create_masked_load(address, emitter.operand(op, "mask"), other_of(emitter, op), hint,
                                                  bool(op.is_volatile))
    if op.attrs.get("pieces"):
        pieces.put(emitter, op, tile, op.pointer.type.shape, emitter.wanted(op, "pointer"))
    else:
        emitter.builder.create_local_store(emitter.of(op.buffer), tile)


def _zeros(emitter: Emitter, op: Op):
    """A tile of zeros, as many as the elements that the pointers of a copy read."""
    tile = Tensor(op.pointer.type.element.pointee, op.pointer.type.shape)
    return emitter.builder.create_splat(emitter.types.tensor(tile, emitter.wanted(op, "pointer")),
                                        scalar_constant(emitter.builder, 0, tile.element))


@emits("async_commit")
def async_commit(emitter: Emitter, op: Op):
    emitter.builder.create_async_commit_group()
    return []


@emits("async_wait")
def async_wait(emitter: Emitter, op: Op):
    emitter.builder.create_async_wait_group(op.pending)
    return []


@emits("tma_load")
def tma_load(emitter: Emitter, op: Op):
    """Triton's op takes a buffer of lower rank than the block, which has ones before its extents, as it is; so does a store."""
    if is_odd(op.descriptor.type.shape):
        box_copies.load(emitter, op, emitter.of(op.barrier), op.predicate)
        return
    policy = (None, None, *op.cache_policy[2:]) if op.cache_policy else None  # TMA has eviction policies of L2, no cache modifiers
    emitter.builder.create_async_tma_copy_global_to_local(
        emitter.of(op.descriptor), emitter.of(op.offsets), emitter.of(op.barrier), emitter.of(op.buffer),
        predicate(emitter, op.predicate), False, None, _policy(emitter, policy))


@emits("tma_store")
def tma_store(emitter: Emitter, op: Op):
    if is_odd(op.descriptor.type.shape) or is_hinted_reduction(op):
        box_copies.store(emitter, op)
        return
    target, coordinates, source = emitter.of(op.descriptor), emitter.of(op.offsets), emitter.of(op.buffer)
    if op.reduce:
        kind = getattr(mlir.DESCRIPTOR_REDUCE_KIND, _REDUCE[op.reduce])
        emitter.builder.create_async_tma_reduce(kind, target, coordinates, source)
    else:
        emitter.builder.create_async_tma_copy_local_to_global(target, coordinates, source, _policy(emitter, op.cache_policy))


@emits("tma_store_wait")
def tma_store_wait(emitter: Emitter, op: Op):
    emitter.builder.create_async_tma_store_wait(op.pending, False)


def _staging(emitter: Emitter, type_, layout: SharedLayout):
    """Memory for one call."""
    return emitter.builder.create_local_alloc(emitter.types.buffer(type_.element, type_.shape, layout))


@emits("descriptor_load")
def descriptor_load(emitter: Emitter, op: Op):
    """`desc.load(offsets)`: a TMA load into a tile of its own, waited for by the calling task, then read. Nothing gives the memory
    back: as in Triton's own lowering its last reader does, since Triton moves loads of products' operands to the product."""
    tile = _staging(emitter, op.descriptor.type, emitter.layouts.descriptors[op.descriptor])
    _fetch(emitter, op, tile, op.descriptor.type.block_bytes)
    return emitter.builder.create_local_load(emitter.mlir_type(op.result), tile)


@emits("tma_fetch")
def tma_fetch(emitter: Emitter, op: Op):
    """The fence orders what threads wrote there before; Triton's barrier between their accesses and the copy follows it."""
    size = op.attrs.get("bytes", op.descriptor.type.block_bytes)
    if size:
        emitter.builder.create_fence_async_shared(False)
    _fetch(emitter, op, emitter.of(op.buffer), size, op.attrs.get("more", False))


def _fetch(emitter: Emitter, op: Op, tile, size: int, more: bool = False) -> None:
    """A TMA load that completes on a barrier of its own, and the wait for it.

    A run of loads has one barrier: the first has the `size` of all, the others 0; all but the last have `more` to follow.
    """
    always = emitter.builder.get_int1(True)
    barrier = fetches.begin(emitter, size, always)
    if is_odd(op.descriptor.type.shape):
        box_copies.load(emitter, op, barrier)
    else:
        emitter.builder.create_async_tma_copy_global_to_local(
            emitter.of(op.descriptor), emitter.of(op.offsets), barrier, tile, always, False, None,
            _policy(emitter, op.cache_policy))
    if not more:
        fetches.end(emitter, always)


def _staged(emitter: Emitter, op: Op):
    """The register tile `op.value` in shared memory, fenced for the async proxy."""
    tile = _staging(emitter, op.descriptor.type, emitter.layouts.descriptors[op.descriptor])
    emitter.builder.create_local_store(tile, emitter.operand(op, "value"))
    emitter.builder.create_fence_async_shared(False)
    return tile


@emits("descriptor_store")
def descriptor_store(emitter: Emitter, op: Op):
    """`desc.store(offsets, value)`: through a tile of its own and a TMA store, complete when the call returns."""
    tile = _staged(emitter, op)
    emitter.builder.create_async_tma_copy_local_to_global(emitter.of(op.descriptor), emitter.of(op.offsets), tile,
                                                          _policy(emitter, None))
    _finish(emitter, tile)


@emits("descriptor_reduce")
def descriptor_reduce(emitter: Emitter, op: Op):
    tile = _staged(emitter, op)
    emitter.builder.create_async_tma_reduce(op.kind, emitter.of(op.descriptor), emitter.of(op.offsets), tile)
    _finish(emitter, tile)


def _finish(emitter: Emitter, tile) -> None:
    """Wait for the store; only then may the memory be used for something else."""
    emitter.builder.create_async_tma_store_wait(0, False)
    emitter.builder.create_local_dealloc(tile)
