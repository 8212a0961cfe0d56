"""Readers of AMD's own ops: buffer accesses, which name a base and offsets, and slices of registers.

Input: ops of `amdg` and `rocdl`. Output: ours by pointers. For example:

    %6 = amdg.buffer_load %base[%offsets], %mask : ..            addptr, then masked_load
    %7 = amdg.buffer_load_to_local %base[%offsets] into %tile    addptr, then async_load
"""

from __future__ import annotations

from ...ir import Buffer, Op, Scalar, Tensor, Value, like
from ...ir.types import TOKEN
from .memory import KINDS, ORDERS, SCOPES
from .reading import Here, reads

_I1 = Scalar("i1")


def _parts(here: Here) -> tuple[list[Op], Value, list[Value]]:
    """The ops that make pointers of a base and offsets, the pointers, and the other tiles among the operands but buffers."""
    operands = [value for value in here.operands if not isinstance(value.type, Buffer)]
    place = next(at for at, value in enumerate(operands) if hasattr(value.type, "pointee"))
    base, offsets = operands[place], operands[place + 1]
    bases, pointers = (here.value(like(offsets.type, base.type)) for _ in range(2))
    ops = [here.op("splat", bases.type, base, results=(bases, )), here.op("addptr", bases, offsets, results=(pointers, ))]
    rest = [value for at, value in enumerate(operands) if at not in (place, place + 1) and isinstance(value.type, Tensor)]
    return ops, pointers, rest


def _masked(rest: list[Value]) -> tuple[Value | None, list[Value]]:
    """The mask among tiles, and the others."""
    mask = next((value for value in rest if value.type.element == _I1), None)
    return mask, [value for value in rest if value is not mask]


@reads("amdg.buffer_load", one_cta=True)
def loaded(here: Here):
    ops, pointers, rest = _parts(here)
    mask, others = _masked(rest)
    if mask is None:
        return [*ops, here.op("load", pointers, None, False)]
    return [*ops, here.op("masked_load", pointers, mask, others[0] if others else None, None, False)]


@reads("amdg.buffer_store", one_cta=True)
def stored(here: Here):
    ops, pointers, rest = _parts(here)
    mask, (value, ) = _masked(rest)
    return [*ops, here.op("store", pointers, value) if mask is None else here.op("masked_store", pointers, value, mask)]


@reads("amdg.buffer_load_to_local", one_cta=True)
def copied(here: Here):
    ops, pointers, rest = _parts(here)
    mask, others = _masked(rest)
    buffer = next(value for value in here.operands if isinstance(value.type, Buffer))
    return [*ops, here.op("async_load", pointers, buffer, mask, others[0] if others else None, None, False,
                          results=(here.value(TOKEN), ))]


@reads("amdg.buffer_atomic_rmw", one_cta=True)
def changed(here: Here):
    """`amdg.buffer_atomic_rmw fadd, relaxed, gpu, %v, %p[%at], %m`: kind, order, scope, values, pointers, mask."""
    kind, order, scope = (word.strip() for word in here.text.partition("buffer_atomic_rmw ")[2].split(",")[:3])
    ops, pointers, rest = _parts(here)
    mask, (value, ) = _masked(rest)
    return [*ops, here.op("atomic_rmw", KINDS.get(kind.upper(), kind.upper()), pointers, value, mask, ORDERS[order], SCOPES[scope])]


@reads("amdg.buffer_atomic_cas", one_cta=True)
def compared(here: Here):
    order, scope = (word.strip() for word in here.text.partition("buffer_atomic_cas ")[2].split(",")[:2])
    ops, pointers, (compare, value) = _parts(here)
    return [*ops, here.op("atomic_cas", pointers, compare, value, ORDERS[order], SCOPES[scope])]


@reads("amdg.extract_slice", one_cta=True)
def cut(here: Here):
    return here.op("cut", here.operands[0], here.listed(), here.types[0].shape)


@reads("amdg.in_thread_transpose")
def turned(here: Here):
    """A layout in which each thread has the elements that it had."""
    here.stands_for(here.operands[0])


@reads("rocdl.sched.barrier", "rocdl.sched.group.barrier", "rocdl.s.setprio", "amdg.sched_barrier", "amdg.instruction_sched_hint")
def scheduled(here: Here):
    """A hint to the scheduler of instructions, or of waves. One that is the border of a stage is no stage yet: a pass of Gluon's
    makes one of it."""
    if here.has("warp_pipeline.border"):
        raise here.unreadable("borders of stages are not read in front of the pass that makes stages of them")
