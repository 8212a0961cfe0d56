"""Linear maps of the layouts of AMD's matrix cores: accumulators, and operands in registers.

Input: a layout and the shape of a tile. Output: a `Linear`; bits of a lane of a 32x32x8 accumulator, transposed:

    accumulator(AmdMfma(3, (32, 32, 8), True, (2, 2)), (64, 64)).lanes      (1, 0) (2, 0) (4, 0) (8, 0) (16, 0) (0, 4)

AMD Instinct MI300 ISA, "Matrix Arithmetic Instructions": a lane of an accumulator of 32 bits holds 4 neighbours of a column, lanes
go along a row, then down by 4; `transposed` multiplies B^T by A^T, so that rows and columns change places. An operand has
`k_width` neighbours along K in a lane, its lanes go along the other dimension, then along K. The maps are those of Triton's
`toLinearLayout`, which tests compare.
"""

from __future__ import annotations

from .bases import Bases, Basis
from .layouts import AmdMfma, AmdWmma, Linear

_LANES = {AmdMfma: 64, AmdWmma: 32}
_BLOCKS = 16        # of 4 x 4 that one instruction of 64 x 4 or 4 x 64 multiplies, each with a part of K of its own
_NEIGHBOURS = {AmdMfma: 4, AmdWmma: 8}      # elements of 32 bits of an accumulator that one lane holds together


def accumulator(layout: AmdMfma | AmdWmma, shape: tuple[int, ...]) -> Linear:
    """The map of an accumulator (.., M, N)."""
    built, down, across = Bases(len(shape)), len(shape) - 2, len(shape) - 1
    extents = {down: layout.instruction[0], across: layout.instruction[1]}
    wide, thin = (down, across) if layout.transposed else (across, down)     # the dimensions of lanes and of neighbours
    together = 1 if isinstance(layout, AmdMfma) and layout.element_bits == 64 else _NEIGHBOURS[type(layout)]
    built.along("registers", thin, together)
    built.along("lanes", wide, extents[wide])
    built.along("lanes", thin, _LANES[type(layout)] // extents[wide])
    built.along("registers", thin, extents[thin] // built.covered[thin])
    _repeat(built, layout, shape, (across, down))
    return built.fitted(shape)


def operand(index: int, layout: AmdMfma | AmdWmma, k_width: int, shape: tuple[int, ...]) -> Linear:
    """The map of operand A (.., M, K) or B (.., K, N) of a product whose accumulator has that layout."""
    built, down, across = Bases(len(shape)), len(shape) - 2, len(shape) - 1
    own, along_k = (down, across) if index == 0 else (across, down)
    extent = layout.instruction[index]
    built.along("registers", along_k, k_width)
    built.along("lanes", own, extent)
    built.along("lanes", along_k, _LANES[type(layout)] // extent)
    if extent == _BLOCKS * 4:
        built.along("registers", along_k, _BLOCKS)
    step = shape[along_k] if isinstance(layout, AmdMfma) else layout.instruction[2]
    built.along("registers", along_k, max(1, step // built.covered[along_k]))
    _repeat(built, layout, shape, (along_k, own), along_k)
    return built.fitted(shape)


def scales(index: int, layout: AmdMfma, shape: tuple[int, ...]) -> Linear:
    """The map of the scales (rows, K / 32) of operand A, or (columns, K / 32) of operand B, of a product of scaled blocks: they lie
    as an operand of which a lane holds one neighbour along K."""
    if index == 0:
        return operand(0, layout, 1, shape)
    turned = operand(1, layout, 1, shape[::-1])
    bases = (tuple(basis[::-1] for basis in bases) for bases in (turned.registers, turned.lanes, turned.warps))
    return Linear(*bases, tuple(shape))


def _repeat(built: Bases, layout: AmdMfma | AmdWmma, shape: tuple[int, ...], order: tuple[int, int],
            shared: int | None = None) -> None:
    """The instruction's tile over the warps and over the rest of the shape; along the dimension `shared` all warps hold the
    same."""
    if isinstance(layout, AmdMfma):
        _by_warps(built, layout, shape, order, shared)
    else:
        _by_bases(built, layout, shape, order, shared)


def _by_warps(built: Bases, layout: AmdMfma, shape: tuple[int, ...], order: tuple[int, int], shared: int | None) -> None:
    """Tiles of one warp first, then of the warps, then the rest in registers, all along one dimension after the other."""
    first, second = len(shape) - 1, len(shape) - 2
    warps: dict[int, list[Basis]] = {}
    for axis in (*order, *range(second)):
        held, built.warps = built.warps, []
        if axis == shared:
            built.warps = [(0, ) * len(shape)] * (layout.warps[axis].bit_length() - 1)
        else:
            built.along("registers", axis, layout.tiles[axis])
            built.along("warps", axis, layout.warps[axis])
        built.along("registers", axis, max(1, shape[axis] // built.covered[axis]))
        warps[axis], built.warps = built.warps, held
    built.warps = [basis for axis in (first, second, *range(second)) for basis in warps[axis]]


def _by_bases(built: Bases, layout: AmdWmma, shape: tuple[int, ...], order: tuple[int, int], shared: int | None) -> None:
    """The places that the layout's bases name, in tiles; the rest in registers."""
    unit = tuple(built.covered)
    for kind, bases in (("registers", layout.registers), ("warps", layout.warps)):
        for basis in bases:
            axis = next(axis for axis, step in enumerate(basis) if step)
            place = tuple(step * extent for step, extent in zip(basis, unit))
            if axis != shared:
                getattr(built, kind).append(place)
                built.covered[axis] = max(built.covered[axis], 2 * place[axis])
            elif kind == "warps":
                built.warps.append((0, ) * len(shape))
    for axis in order:
        built.along("registers", axis, max(1, shape[axis] // built.covered[axis]))
