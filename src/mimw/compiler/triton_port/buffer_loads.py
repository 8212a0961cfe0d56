"""Loads of AMD's buffer instructions, made of loads through pointers once Triton's passes have chosen the layouts.

Input: a module after these passes, in which a load that is to be one has been marked (`mark`). Output: the same module, changed in
place; each load stands where it stood. An example:

    before    %p = tt.addptr (tt.splat %x), %at        %v = tt.load %p, %m, %zeros {mimw.buffer_load = ..}
    after                                              %v = amdg.buffer_load %x[%at], %m

Triton's passes know what a `tt.load` costs. An `amdg.buffer_load` they take for arithmetic: they make two of it in two layouts, or
load column by column what is stored so. Where the pointers can no longer be followed to a base and offsets, the load stays what it
is, which brings the same elements.
"""

from __future__ import annotations

from triton._C.libtriton import ir as mlir

from .differences import GluonOpBuilder
from .order import STRETCH
from .tile_types import Tile, types

_MARK = "mimw.buffer_load"
_CACHES = ("NONE", "CA", "CG", "CS", "CV")
_SAME = ("ttg.convert_layout", "tt.broadcast")


def mark(builder, value, cache: str, other: bool) -> None:
    """Say of a load through pointers that it is to be a buffer load, with that cache modifier; `other`, if masked elements are to
    be something else than zeros."""
    value.set_attr(_MARK, builder.get_int32_attr(2 * _CACHES.index(cache.removeprefix(".").upper() or "NONE") + other))


def place_buffer_loads(module) -> None:
    """Make a buffer load of each marked one, in place; what is left without uses is for the canonicaliser."""
    makes, loads, builder = {}, [], GluonOpBuilder(module.context)

    def look(op) -> None:
        for index in range(op.get_num_results()):
            makes[op.get_result(index).id()] = op
        if op.get_name() == "tt.load" and op.get_int_attr(_MARK) is not None:
            loads.append(op)

    module.walk(look)
    for load in loads:
        if (place := _place(load.get_operand(0), makes)) is not None:
            _replace(load, *place, builder, module.context)


def _place(pointers, makes):
    """Base and offsets of a tile of pointers, if each of them is the base and an offset of 32 bits."""
    op = _maker(pointers, makes, _SAME[:1])
    if op is None or op.get_name() != "tt.addptr":
        return None
    base, offsets = _maker(op.get_operand(0), makes, _SAME), op.get_operand(1)
    tile = Tile.of(offsets.get_type())
    if base is None or base.get_name() != "tt.splat" or tile is None or tile.element != "i32":
        return None
    return base.get_operand(0), offsets


def _maker(value, makes, through: tuple[str, ...]):
    """The op that makes a value, or that one from which it is taken by ops that only move it."""
    op = makes.get(value.id())
    while op is not None and op.get_name() in through:
        op = makes.get(op.get_operand(0).id())
    return op


def _replace(load, base, offsets, builder, context) -> None:
    told, result, none = load.get_int_attr(_MARK), load.get_result(0), mlir.value()
    mask, other = (load.get_operand(index) if load.get_num_operands() > index else none for index in (1, 2))
    builder.set_insertion_point_after(load)
    builder.set_loc(builder.get_loc())
    have, layout = Tile.of(offsets.get_type()), Tile.of(result.get_type()).layout
    if have.layout != layout:
        offsets = builder.create_convert_layout(types([have.in_layout(layout)], context)[0], offsets)
    cache = getattr(mlir.CACHE_MODIFIER, _CACHES[told // 2])
    made = builder.create_buffer_load(result.get_type(), base, offsets, mask, other if told % 2 else none, cache)
    if (stretch := load.get_int_attr(STRETCH)) is not None:
        made.set_attr(STRETCH, builder.get_int32_attr(stretch))
    result.replace_all_uses_with(made)
