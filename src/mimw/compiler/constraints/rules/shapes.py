"""Ops that change a tile's shape.

Input: an op. Output: the layout of its result, from its operand's where one follows from the other:

    %y = expand_dims %x 1        %x in slice(1, mma(...)): %y in mma(...)
"""

from __future__ import annotations

from dataclasses import replace

from ....ir.core import Op
from ....ir.layouts import Blocked, Linear, Mma, Slice, TensorMemoryTile
from ....ir.linear import coordinates, linear_of, positions
from ....ir.types import Tensor
from ..explain import at
from ..tiles import Tiles
from .memory import memory
from .registry import rule

_COLUMNS = 8    # of the narrowest product


@rule("expand")
def expand(op: Op, tiles: Tiles) -> None:
    """The operand is the result with the new axis sliced away; a slice along that axis gives back its parent."""
    axis = op.axis % len(op.result.type.shape)
    layout, choice = tiles[op.value].layout, tiles.default(op.result.type.shape)
    if isinstance(layout, Slice) and layout.axis == axis:
        choice = tiles[op.value].becomes(layout.parent)
    tiles.give(op.result, choice)
    tiles.want_named(op, "value", Slice(axis, choice.layout))


@rule("reduce")
def reduce(op: Op, tiles: Tiles) -> None:
    """Want all operands in one layout; the result has that layout without the axis."""
    axis = op.axis % len(op.values[0].type.shape)
    chosen = tiles.strongest(list(op.values))
    for index, _ in tiles.operands(op):
        tiles.want(op, index, chosen.layout)
    sliced = chosen.becomes(Slice(axis, chosen.layout))
    for result in tiles.results(op):
        tiles.give(result, replace(sliced, origin=sliced.origin or op,
                                   reason=sliced.reason or f"{at(op.site)} {op.name} along axis {axis} leaves it"))


@rule("moved")
def moved(op: Op, tiles: Tiles) -> None:
    """`reshape`, `trans`: as `inferred`, but a tile from tensor memory stays where it is: its rows are the lanes of a warp, which
    reductions over a warp rely on, and to move it would take shared memory. So does a tile from a product in assembly, of which
    Triton's passes do not know that it lies well."""
    value = op.value
    known = linear_of(tiles[value].layout, value.type.shape) if isinstance(value.type, Tensor) else None
    stays = isinstance(tiles[value].layout, TensorMemoryTile) or _in_assembly(tiles[value].origin)
    if known is None or not stays:
        memory(op, tiles)
        return
    shape, order = op.result.type.shape, getattr(op, "order", None) if "order" in op.row.places else None

    def there(bases):
        if order is not None:
            return tuple(tuple(basis[axis] for axis in order) for basis in bases)
        return tuple(coordinates(position, shape) for position in positions(bases, value.type.shape))

    kind = TensorMemoryTile if isinstance(tiles[value].layout, TensorMemoryTile) else Linear
    layout = kind(there(known.registers), there(known.lanes), there(known.warps), shape)
    tiles.want_named(op, "value", tiles[value].layout)
    tiles.give(op.result, tiles[value].becomes(layout))


def _in_assembly(origin: Op | None) -> bool:
    """True of a product with as many columns as the author has (`lowering.hopper.any_columns`)."""
    return origin is not None and origin.attrs.get("exact") is not None


@rule("cut")
def cut(op: Op, tiles: Tiles) -> None:
    """`cut`: columns of a tensor core's sums are those of a narrower product, in the registers in which they are; else each part
    has registers of its own."""
    layout, (rows, columns) = tiles[op.value].layout, op.shape[-2:] if len(op.shape) > 1 else (0, 0)
    if not isinstance(layout, Mma) or columns < _COLUMNS or layout.warps[1] > 1 or rows != op.value.type.shape[-2]:
        tiles.want_named(op, "value", _whole_parts(op.value.type.shape, op.shape, tiles))
        tiles.give(op.result, tiles.default(op.shape))
        return
    height, _, depth = layout.instruction
    tiles.want_named(op, "value", layout)
    tiles.give(op.result, tiles[op.value].becomes(replace(layout, instruction=(height, columns, depth))))


def _whole_parts(shape: tuple[int, ...], part: tuple[int, ...], tiles: Tiles) -> Blocked:
    """A layout of the tile in which each part lies alike over the threads, and so in registers of its own; of parts that are less
    than the threads, each thread has all."""
    layout = tiles.default(part).layout
    reach = (size * lanes * warps for size, lanes, warps in zip(layout.size_per_thread, layout.threads_per_warp, layout.warps))
    if all(over <= extent or extent == whole for over, extent, whole in zip(reach, part, shape)):
        return layout
    ones = (1, ) * (len(shape) - 1)
    return replace(layout, size_per_thread=tuple(shape), threads_per_warp=(tiles.warp_size, *ones), warps=(tiles.num_warps, *ones))


@rule("pairs")
def pairs(op: Op, tiles: Tiles) -> None:
    """`split`: as `inferred`, of pairs that lie in one thread each. A tile from tensor memory stays where it is, or nearly."""
    layout = tiles[op.value].layout
    paired = _tensor_memory_pairs(layout) if isinstance(layout, TensorMemoryTile) else None
    if paired is None:
        memory(op, tiles)
        tiles.want_named(op, "value", _pairs_in_threads(op.value.type.shape, tiles))
        return
    tiles.want_named(op, "value", paired)
    registers, lanes, warps = (tuple(basis[:-1] for basis in bases if not basis[-1])
                               for bases in (paired.registers, paired.lanes, paired.warps))
    for result in tiles.results(op):
        tiles.give(result, tiles[op.value].becomes(TensorMemoryTile(registers, lanes, warps, layout.shape[:-1])))


def _tensor_memory_pairs(layout: TensorMemoryTile) -> TensorMemoryTile | None:
    """The layout with each pair in one thread; None if no two bits of it can change places for that.

    Halves of the columns that lie in different warps, or lanes, change places with the last bit of registers: each half is then
    spread over the threads as a tile of its width is in tensor memory. A conversion to this layout moves half of the elements,
    a few registers at a time, and so takes a fraction of the tile as scratch; between lanes it takes none.
    """
    pair = (*(0, ) * (len(layout.shape) - 1), 1)
    if pair in layout.registers:
        return layout
    if not layout.registers or pair not in (*layout.lanes, *layout.warps):
        return None
    *registers, last = layout.registers
    lanes, warps = (tuple(last if basis == pair else basis for basis in bases) for bases in (layout.lanes, layout.warps))
    return replace(layout, registers=(*registers, pair), lanes=lanes, warps=warps)


def _pairs_in_threads(shape: tuple[int, ...], tiles: Tiles) -> Blocked:
    """`tt.split` wants both halves of a pair in one thread: two elements along the last dimension, which is the fastest."""
    if len(shape) == 1:
        return Blocked((2, ), (tiles.warp_size, ), (tiles.num_warps, ), (0, ))
    rest = tiles.default(shape[:-1]).layout
    return Blocked((*rest.size_per_thread, 2), (*rest.threads_per_warp, 1), (*rest.warps, 1), (len(shape) - 1, *rest.order))
