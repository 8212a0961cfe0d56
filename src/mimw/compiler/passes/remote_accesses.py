"""Loads, stores and atomics through pointers into other CTAs' shared memory, as ops that name buffer, position and rank.

Input: an op, and what is known of its pointers. Output: ops on the buffer, written by a `Builder`. For example:

    tl.load(tle.remote(p, 1))       remote_load buffer=%tile position=%i rank=%r

While it flows, such a pointer is one number: the position in the buffer, and the rank above it. So arithmetic, shapes,
control flow and choices between ranks need nothing of their own.
"""

from __future__ import annotations

from math import prod

from ...errors import KernelError
from ...ir import I32, Op, Tensor, Value
from ...ir.types import element_of
from ..analysis import constant_of, never_runs
from ..analysis.runs import pointer_run
from ..analysis.uses import Uses
from .pointer_accesses import Accesses, Rewrites, optional

RANK_AT = 20  # bits below are the position: 227 KiB of shared memory are fewer elements than 2^20


def is_remote(uses: Uses, pointer: Value) -> bool:
    """True if a pointer into shared memory belongs to another CTA. Triton's casts, for atomics on floats, lose the space."""
    op = uses.definition.get(pointer)
    while op is not None and op.name == "bitcast":
        pointer = op.value
        op = uses.definition.get(pointer)
    return element_of(pointer.type).space == "cluster"


def ranked(accesses: Accesses, op: Op, size: int) -> Value:
    """The value of a `remote_ptr`: the position of its pointer, with the rank. `size` is the cluster's; without a cluster it
    is 1, and rank 0 the CTA itself."""
    pointer, rank = op.pointer, op.rank
    number = constant_of(accesses.uses, rank)
    if number is not None and not 0 <= number < size and not never_runs(accesses.uses, op):
        raise KernelError(f"tle.remote names the shard with rank {number}; the clusters of this launch have {size} CTAs.", op.site,
                          hint="give the mesh as `scope`, or launch with ctas_per_cga.")
    writer = accesses.writer
    position, rank = writer.now(pointer), writer.now(rank)
    if isinstance(position.type, Tensor) and not isinstance(rank.type, Tensor):
        rank = writer.emit("splat", (Tensor(I32, position.type.shape), rank), op.site)
    above = writer.by_constant("shl", rank, RANK_AT, op.site)
    return writer.emit("add", (position, above), op.site, label=op.result.name)


def _place(accesses: Accesses, op: Op, pointer: Value, element) -> tuple[Value, Value, Value]:
    """The buffer, and for each pointer the position in it and the rank, as tiles of rank 1."""
    family, writer = accesses.families[pointer], accesses.writer
    buffer, both = writer.now(family.buffer), writer.now(pointer)
    extent = prod(both.type.shape) if isinstance(both.type, Tensor) else 1
    both = writer.reshaped(both, (extent, ), op.site)
    position = writer.by_constant("and", both, (1 << RANK_AT) - 1, op.site)
    position = accesses.stored(position, family, buffer.type, op)
    return accesses.seen_as(op, buffer, element), position, writer.by_constant("lshr", both, RANK_AT, op.site)


def _row(accesses: Accesses, value: Value | None, op: Op) -> Value | None:
    return None if value is None else accesses.row(value, op)


def _load(accesses: Accesses, op: Op) -> None:
    pointer, mask, other = op.pointer, optional(op, "mask"), optional(op, "other")
    args = _place(accesses, op, pointer, element_of(op.result.type)), _row(accesses, mask, op), _row(accesses, other, op)
    run = pointer_run(accesses.uses, pointer, accesses.families[pointer], mask)
    accesses.give(op, accesses.writer.emit("remote_load", (*args[0], *args[1:]), op.site, label=op.result.name, run=run))


def _store(accesses: Accesses, op: Op) -> None:
    pointer, value, mask = op.pointer, op.value, optional(op, "mask")
    buffer, position, rank = _place(accesses, op, pointer, element_of(value.type))
    run = pointer_run(accesses.uses, pointer, accesses.families[pointer], mask)
    accesses.writer.emit("remote_scatter", (buffer, position, rank, accesses.row(value, op), _row(accesses, mask, op)), op.site,
                         run=run)


def _rmw(accesses: Accesses, op: Op) -> None:
    place = _place(accesses, op, op.pointer, element_of(op.value.type))
    args = (op.kind, *place, accesses.row(op.value, op), _row(accesses, op.mask, op), op.order, op.scope)
    _give_old(accesses, op, "remote_rmw", args)


def _cas(accesses: Accesses, op: Op) -> None:
    place = _place(accesses, op, op.pointer, element_of(op.value.type))
    _give_old(accesses, op, "remote_cas", (*place, accesses.row(op.compare, op), accesses.row(op.value, op), op.order, op.scope))


def _give_old(accesses: Accesses, op: Op, name: str, args: tuple) -> None:
    used = bool(accesses.uses.of(op.result))
    accesses.give(op, accesses.writer.emit(name, args, op.site, label=op.result.name, run=1, used=used))


REMOTE = Rewrites(_load, _store, _rmw, _cas)
