"""Loads, stores, atomics and copies by AMD's buffer instructions, which take a scalar base and an offset of each lane.

Input: an op of the layout rule `buffered`. Output: Triton's op of the same name:

    buffer_load %pointers, %mask, base=%x, at=%at, ..        amdg.buffer_load %x[%at], %mask

Triton's passes choose layouts for accesses through pointers, and know nothing of these ops. So a load is one through pointers until
they are done; in a module on trial so are the others, from which their layouts are learnt. What is promised by `contiguity` has its
layout already.
"""

from __future__ import annotations

from ....ir import I32, Op, Tensor
from ...triton_port.buffer_loads import mark
from ...triton_port.builder import mlir
from ..anchor import behind_assembly
from ..constants import scalar_constant
from ..emitter import Emitter, emits
from .copies import other_of, through_pointers

_WIDEST = 16                # bytes: buffer_load_dwordx4; LLVM has no code for more
_POINTERS_ALONE = "gfx12"   # whose asynchronous copies have no form with a base
_PAIR = 2                   # elements of 16 bits that one atomic adds to
_BEYOND = 1 << 31           # bytes: an offset that is out of range, as which Triton masks lanes


def _cache(op: Op):
    return getattr(mlir.CACHE_MODIFIER, op.cache.removeprefix(".").upper() or "NONE")


def _policy(emitter: Emitter, op: Op):
    return emitter.builder.get_cache_policy(op.cache.removeprefix(".") or "none", "evict_normal")


def _place(emitter: Emitter, op: Op) -> tuple:
    return emitter.of(op.base), emitter.operand(op, "at")


def _optional(emitter: Emitter, op: Op, name: str):
    return mlir.value() if getattr(op, name) is None else emitter.operand(op, name)


def _promised(emitter: Emitter, op: Op) -> tuple:
    """Base and offsets of which `contiguity` is promised. Triton's passes would give an access the layout of the load that its
    offsets come from, with other neighbours in a thread."""
    offsets = emitter.operand(op, "at")
    return emitter.of(op.base), behind_assembly(emitter, offsets, op.at.type, emitter.wanted(op, "at"), "v")


@emits("buffer_load")
def buffer_load(emitter: Emitter, op: Op):
    if op.contiguity == 1:
        return _load_through_pointers(emitter, op)
    mask, other = (_optional(emitter, op, name) for name in ("mask", "other"))
    loaded = emitter.builder.create_buffer_load(emitter.mlir_type(op.result), *_promised(emitter, op), mask, other, _cache(op))
    each = min(op.contiguity, _WIDEST // op.result.type.element.bytes, op.at.type.shape[-1])
    loaded.set_attr("contiguity", emitter.builder.get_int32_attr(each))
    return loaded


def _load_through_pointers(emitter: Emitter, op: Op):
    """A load of which `triton_port.buffer_loads` makes one with a base, when Triton's passes are done with it."""
    builder, policy, (base, offsets) = emitter.builder, _policy(emitter, op), _place(emitter, op)
    pointers = builder.create_addptr(builder.create_splat(_tile(emitter, op, op.base.type), base), offsets)
    if op.mask is None:
        loaded = builder.create_load(pointers, policy, False)
    else:
        loaded = builder.create_masked_load(pointers, emitter.operand(op, "mask"), other_of(emitter, op), policy, False)
    mark(builder, loaded, op.cache, op.other is not None)
    return loaded


def _tile(emitter: Emitter, op: Op, element):
    """The type of a tile of these elements that lies as the offsets do."""
    return emitter.types.tensor(Tensor(element, op.at.type.shape), emitter.wanted(op, "at"))


@emits("buffer_store")
def buffer_store(emitter: Emitter, op: Op):
    builder, value = emitter.builder, emitter.operand(op, "value")
    if not emitter.trial:
        builder.create_buffer_store(value, *_place(emitter, op), _optional(emitter, op, "mask"), _cache(op))
    elif op.mask is None:
        builder.create_store(emitter.operand(op, "pointer"), value, _policy(emitter, op))
    else:
        builder.create_masked_store(emitter.operand(op, "pointer"), value, emitter.operand(op, "mask"), _policy(emitter, op))


@emits("buffer_atomic_add")
def buffer_atomic_add(emitter: Emitter, op: Op):
    builder, value, mask = emitter.builder, emitter.operand(op, "value"), _optional(emitter, op, "mask")
    kind = getattr(mlir.ATOMIC_OP, "FADD" if op.value.type.element.is_float else "ADD")
    if emitter.trial and op.contiguity == 1:
        return builder.create_atomic_rmw(kind, emitter.operand(op, "pointer"), value, mask, op.order, op.scope)
    if op.scope == mlir.MEM_SYNC_SCOPE.SYSTEM:
        return _added_by_pointers(emitter, op, kind)
    if op.value.type.element.bytes == 2:
        base, offsets, mask = _of_pairs(emitter, op)
    else:
        base, offsets = _promised(emitter, op) if op.contiguity > 1 else _place(emitter, op)
    return builder.create_buffer_atomic_rmw(kind, base, offsets, value, op.order, op.scope, mask)


def _added_by_pointers(emitter: Emitter, op: Op, kind):
    """Triton has no code for a buffer atomic that other GPUs see, but for one by pointers, which leaves open what was there where
    the mask is false."""
    builder, value = emitter.builder, emitter.operand(op, "value")
    pointers = builder.create_addptr(builder.create_splat(_tile(emitter, op, op.base.type), emitter.of(op.base)),
                                     emitter.operand(op, "at"))
    mask = _optional(emitter, op, "mask")
    before = builder.create_atomic_rmw(kind, pointers, value, mask, op.order, op.scope)
    if op.value.type.element.bytes == 2 and op.order == mlir.MEM_SEMANTIC.ACQUIRE_RELEASE:
        # Triton makes the first atomic of a thread a release and the last one an acquire, and of a single pair it is the first.
        builder.create_threadwise_inline_asm("s_waitcnt vmcnt(0)\nbuffer_inv sc0 sc1", "~{memory}", [], [], False)
    if op.mask is None:
        return before
    zeros = builder.create_splat(emitter.mlir_type(op.result), scalar_constant(builder, 0, op.result.type.element))
    return builder.create_select(mask, before, zeros)


def _of_pairs(emitter: Emitter, op: Op) -> tuple:
    """Base, offsets and no mask: Triton takes pairs apart, and then adds nothing at all, where it does not see that they lie at
    multiples of 4 bytes and are masked alike. So it is told of both, and masked elements have offsets that are out of range."""
    builder, (base, offsets) = emitter.builder, _promised(emitter, op)
    tile, rank = _tile(emitter, op, I32), len(op.at.type.shape)
    zero, beyond, farther = (builder.create_splat(tile, scalar_constant(builder, number, I32))
                             for number in (0, _BEYOND // _PAIR, _BEYOND // _PAIR + _PAIR))
    inside = builder.create_icmpSGE(offsets, zero)      # true, but a choice that can be told something about,
    if op.mask is not None:                             # and between two that differ, also where the mask is false throughout
        offsets = builder.create_select(emitter.operand(op, "mask"), offsets, beyond)
    pairs = builder.create_select(inside, offsets, farther)
    for name in ("tt.contiguity", "tt.divisibility"):
        pairs.set_attr(name, mlir.make_attr([1] * (rank - 1) + [_PAIR], pairs.get_context()))
    number = builder.create_ptr_to_int(base, builder.get_int64_ty())
    same = builder.create_threadwise_inline_asm("", "=s,0", [number], [builder.get_int64_ty()], True).get_result(0)
    base = builder.create_int_to_ptr(same, emitter.types.element(op.base.type))
    base.set_attr("tt.divisibility", mlir.make_attr([2 * _PAIR], base.get_context()))
    return base, pairs, mlir.value()


@emits("buffer_load_to_local")
def buffer_load_to_local(emitter: Emitter, op: Op):
    if op in emitter.by_registers:
        emitter.builder.create_local_store(emitter.of(op.buffer), _load_through_pointers(emitter, op))
    elif emitter.trial or emitter.target.assembly == _POINTERS_ALONE:
        through_pointers(emitter, op, _policy(emitter, op))
    else:
        emitter.builder.create_buffer_load_to_local(emitter.of(op.buffer), *_place(emitter, op), _optional(emitter, op, "mask"),
                                                    _optional(emitter, op, "other"), mlir.value(), _cache(op))
    return []

