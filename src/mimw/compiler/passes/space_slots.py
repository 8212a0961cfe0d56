"""Arrays of small buffers that TMA copies get gaps, so that each buffer starts where TMA can begin.

Input: a program, after `place_aliases`, and its target. Output: the program in which such an array has a `place` whose
buffers start 128 bytes apart, in a storage made for it; or a `KernelError` where it cannot be moved. For example:

    ring = tlx.local_alloc((32, ), tl.float16, 3)     # buffers of 64 bytes, which start at 0, 128 and 256

PTX ISA, cp.async.bulk.tensor: the address in shared memory is a multiple of 128 bytes. Buffers of an array follow each
other, so in an array of 64-byte buffers every other one is not: the GPU stops with "misaligned address".
"""

from __future__ import annotations

from dataclasses import replace
from math import prod
from types import MappingProxyType

from ...errors import KernelError
from ...ir import Block, Buffer, Descriptor, Op, Place, Program, Storage, Value
from ...ir.extents import padded
from ...target import Target
from ..analysis import Uses, uses_of
from ..constraints.views import View, find_views
from ..storage.aliases import SMEM_ALIGNMENT, round_up
from .pad_buffers import is_row


def space_slots(program: Program, target: Target) -> Program:
    """The program with those gaps; the same object if none are wanted. It runs after `place_aliases`.

    Raises `KernelError` where TMA copies a buffer that starts elsewhere and that cannot be moved: in a storage whose places are
    fixed, in an array that is also seen as a whole, or as a part of one buffer.
    """
    copies = [(op, value) for op in program.walk() for value in copied(op)] if target.has("tma") else []
    if not copies:
        return program
    uses, views, spaced = uses_of(program), find_views(program), {}
    for op, value in copies:
        for view in views.get(value, ()):
            alloc = uses.definition[view.alloc]
            if _step(alloc, view) % SMEM_ALIGNMENT:
                if not _can_move(alloc, view, uses):
                    raise _refusal(op, alloc, _step(alloc, view))
                spaced[alloc] = _spaced(alloc)
    return replace(program, body=_block(program.body, spaced)) if spaced else program


def copied(op: Op) -> tuple[Value, ...]:
    """The buffers that an op copies from or to a descriptor."""
    if not any(isinstance(value.type, Descriptor) for value in op.operands) or op.blocks:
        return ()
    return tuple(value for value in op.operands if isinstance(value.type, Buffer))


def _step(alloc: Op, view: View) -> int:
    """The bytes of which the start of the view is surely a multiple; 0 if it can only be the allocation's start."""
    type_, place = alloc.result.type, alloc.attrs.get("place")
    if is_row(type_) and type_.count:
        type_ = replace(type_, shape=padded(type_.shape))       # as `pad_tiles` leaves rows
    if len(view.dims) < len(type_.shape):  # a slot of one buffer
        return prod(type_.shape[len(type_.shape) - len(view.dims):]) * type_.element.bytes
    if place is not None:
        return place.boundary
    return type_.tile_bytes if type_.count > 1 else 0


def _can_move(alloc: Op, view: View, uses: Uses) -> bool:
    whole = len(view.dims) == len(alloc.result.type.shape)
    return (alloc.name == "local_alloc" and whole and "place" not in alloc.attrs
            and all(use.op.row.view == "slot" for use in uses.of(alloc.result)))


def _spaced(alloc: Op) -> list[Op]:
    type_ = alloc.result.type
    place = Place(0, round_up(type_.tile_bytes, SMEM_ALIGNMENT), type_.tile_bytes, type_.count)
    storage = Value(Storage(type_.space), alloc.result.name)
    made = Op("alias_storage", (type_.space, None), (storage, ), site=alloc.site,
              attrs=MappingProxyType({"bytes": place.end, "alignment": SMEM_ALIGNMENT}))
    return [made, alloc.with_operands(reuse=storage).with_attrs(place=place)]


def _refusal(op: Op, alloc: Op, step: int) -> KernelError:
    name, type_ = alloc.result.name or "this buffer", alloc.result.type
    return KernelError(
        f"{op.name} copies a part of '{name}' ({type_}) that may start at any multiple of {step} bytes; TMA wants a multiple of "
        f"{SMEM_ALIGNMENT}.", op.site, alloc.site,
        hint=f"make what is copied at once a multiple of {SMEM_ALIGNMENT} bytes, or give it buffers of an array of its own "
        "(local_alloc with a count and no `reuse`, indexed only): those are put far enough apart.")


def _block(block: Block, spaced: dict[Op, list[Op]]) -> Block:
    ops = []
    for op in block.ops:
        if op in spaced:
            ops += spaced[op]
        else:
            ops.append(op.with_blocks(lambda inner: _block(inner, spaced)))
    return block.with_ops(ops)
