"""Extents of tiles that are no powers of two, and the powers of two that hold them.

Input: a shape, a type, a program. Output: the padded shape or type, and which values of a program have odd extents. For example:

    padded((64, 176))           (64, 256)
    is_odd((64, 176))           True
    padded_type(i32[176])       i32[256]

Tensors of MLIR, as Triton uses it, have extents that are powers of two. Tiles of the IR have any: `compiler.passes.pad_tiles` makes
the one of the other, right before layouts are chosen.
"""

from __future__ import annotations

from math import prod

from .core import Program
from .types import Tensor, Type, padded

__all__ = ["idle_share", "is_odd", "is_odd_tile", "odd_tiles", "padded", "padded_type"]


def is_odd(shape: tuple[int, ...]) -> bool:
    """True if an extent is no power of two."""
    return any(extent & (extent - 1) for extent in shape)


def is_odd_tile(type_: object) -> bool:
    """True of the type of a tile of which an extent is no power of two."""
    return isinstance(type_, Tensor) and is_odd(type_.shape)


def padded_type(type_: Type) -> Type:
    """The type of the tile that holds a tile of this type; any other type as it is."""
    return Tensor(type_.element, padded(type_.shape)) if is_odd_tile(type_) else type_


def idle_share(shape: tuple[int, ...]) -> float:
    """The share of the elements of the padded tile that are not the author's."""
    return 1 - prod(shape) / prod(padded(shape))


def odd_tiles(program: Program) -> tuple[Tensor, ...]:
    """The types of the tiles with odd extents that a program makes, each once, in program order."""
    return program.kept(_odd_tiles)


def _odd_tiles(program: Program) -> tuple[Tensor, ...]:
    made = (value.type for op in program.walk() for value in (*op.results, *(arg for block in op.blocks for arg in block.args)))
    return tuple(dict.fromkeys(type_ for type_ in made if is_odd_tile(type_)))
