"""Tiles that are made from nothing, or come from memory, or go there.

Input: an op. Output: the layout of its tiles, mostly the default of their shape:

    %x = local_load %tile        fp32[1024] on 4 warps: blocked([4], [32], [4], [0]), 16 bytes a thread
"""

from __future__ import annotations

from ....ir.core import Op, Value
from ....ir.layouts import Blocked, Linear, RegisterLayout
from ....ir.linear import linear_of
from ....ir.pieces import cut_of
from ..explain import at
from ..pieces import is_cut_for_free, layout_for
from ..pinned import resolved
from ..tiles import Choice, Strength, Tiles
from .neighbours import in_pieces
from .registry import rule

_WIDEST = 16  # bytes: PTX ISA, ld.shared.v4.b32


@rule("memory", "inferred", "once")
def memory(op: Op, tiles: Tiles) -> None:
    """Give every tile the default of its shape. Triton's coalesce pass knows the strides of an access and improves on it; for
    `inferred` Triton derives the layout of the result, which lowering converts; `once` wants the default of a flat tile, in
    which thread t holds element t of every round, or a copy of an earlier one's."""
    for index, value in tiles.operands(op):
        layout = _cuttable(op, value, tiles) if op.attrs.get("pieces") else tiles.default(value.type.shape).layout
        tiles.want(op, index, layout)
    for result in tiles.results(op):
        tiles.give(result, tiles.default(result.type.shape))


@rule("free")
def free(op: Op, tiles: Tiles) -> None:
    """The layout that the author pinned on the op (attrs: layout), else the default of the shape."""
    pinned = op.attrs.get("layout")
    for result in tiles.results(op):
        if pinned is None:
            tiles.give(result, tiles.default(result.type.shape))
        else:
            layout = resolved(pinned, op, result.type.shape, tiles)
            tiles.give(result, Choice(layout, Strength.PINNED, op, f"{at(op.site)} {op.name} pins it"))


@rule("stored")
def stored(op: Op, tiles: Tiles) -> None:
    """`local_store`: any layout will do, into pieces one that can be cut. A masked store has value and mask in the layout in which
    Triton's passes would store the tile, else in the stronger one of the two layouts, as long as its map is known."""
    if op.attrs.get("pieces"):
        have = tiles[op.value].layout
        keeps = is_cut_for_free(cut_of(op, op.value.type.shape), have) and (op.mask is None or _is_wide(op, have))
        chosen = have if keeps else _cuttable(op, op.value, tiles)
        for name in ("value", ) if op.mask is None else ("value", "mask"):
            tiles.want_named(op, name, chosen)
        return
    if op.mask is None:
        return
    chosen = tiles.stored.get(op) or tiles.strongest([op.value, op.mask]).layout
    if linear_of(chosen, op.value.type.shape) is None:
        chosen = tiles.default(op.value.type.shape).layout
    for name in ("value", "mask"):
        tiles.want_named(op, name, chosen)


def _is_wide(op: Op, layout: RegisterLayout) -> bool:
    """True if a thread has neighbours, or neighbours are not surely masked alike: then one by one is all there is."""
    return op.attrs["run"] == 1 or linear_of(layout, op.value.type.shape).registers[:1] == ((0, 1), )


@rule("buffered")
def buffered(op: Op, tiles: Tiles) -> None:
    """Accesses by a base and offsets: the layout in which each thread has the neighbours that the author promised, else that in
    which Triton's passes access the same addresses through pointers; before it is known, the default of the shape."""
    shape = op.at.type.shape
    each = min(_promised(op), _WIDEST // op.pointer.type.element.pointee.bytes, shape[-1])
    if each > 1:
        choice = Choice(in_pieces(shape, each, tiles), Strength.VECTOR, op, f"{at(op.site)} {op.name} has contiguity={each}")
    elif op in tiles.accessed:
        choice = Choice(tiles.accessed[op], Strength.VECTOR, op, f"{at(op.site)} {op.name} accesses wide pieces in it")
    else:
        choice = tiles.default(shape)
    for index, _ in tiles.operands(op):
        tiles.want(op, index, choice.layout)
    for result in tiles.results(op):
        tiles.give(result, choice)


def _promised(op: Op) -> int:
    return op.contiguity if "contiguity" in op.row.places else 1


@rule("vectors")
def vectors(op: Op, tiles: Tiles) -> None:
    """`local_load`: as `free`, but rows of shared memory are read in wide pieces, and a tile of several buffers in its parts."""
    if op.attrs.get("pieces"):
        layout = _cuttable(op, op.result, tiles)
        tiles.give(op.result, Choice(layout, Strength.DEFAULT, op, f"{at(op.site)} local_load reads it in parts"))
    elif op.attrs.get("layout") is None:
        tiles.give(op.result, _wide(op, tiles))
    else:
        free(op, tiles)


def _cuttable(op: Op, value: Value, tiles: Tiles) -> Linear:
    """A layout in which each part of a tile that lies in pieces has registers of its own."""
    return layout_for(cut_of(op, value.type.shape), op.buffer.type.element.bytes, tiles.num_warps, tiles.warp_size)


def _wide(op: Op, tiles: Tiles) -> Choice:
    """A layout that reads rows of shared memory 16 bytes at a time if every thread has as much; tiles computed from the rows
    follow.

    Of rank 1 only: from rank 2 on swizzles and what the tile is for decide, and Triton's passes look after it.
    """
    shape, size = op.result.type.shape, op.result.type.element.bytes
    default = tiles.default(shape)
    each = min(_WIDEST // size, shape[0] // (tiles.warp_size * tiles.num_warps)) if len(shape) == 1 else 1
    if each <= 1:
        return default
    layout = Blocked((each, ), (tiles.warp_size, ), (tiles.num_warps, ), (0, ))
    return Choice(layout, Strength.VECTOR, op, f"{at(op.site)} local_load reads {each * size} bytes a thread")
