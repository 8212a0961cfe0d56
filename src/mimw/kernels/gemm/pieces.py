"""The column pieces in which a tile goes out: equal ones, or of several widths where no power of two is the tile's.

Input: PIECES, a number of equal pieces or a tuple of widths, the widest first; and the columns of a tile. Output: where a piece
begins, how wide it is, and which staging tile it takes. For example, of 176 columns of 16 bits:

    widths(176, 64)                 (64, 64, 32, 16)
    begin((64, 64, 32, 16), 2, 176)         128
    piece_of(acc, 2, (64, 64, 32, 16))      columns 128 to 160

A piece is stored by the tensor map of its width, whose swizzle is as wide: TMA writes whole lines, and threads write to shared
memory without bank conflicts. The widest pieces have STAGING tiles in turn, each narrower one has a tile of its own.
"""

import triton
import triton.language as tl

import mimw
import mimw.tle as tle

from .product import columns


def widths(count: int, widest: int) -> tuple[int, ...]:
    """So many columns as powers of two, none wider than `widest`."""
    found = [widest] * (count // widest)
    return *found, *(1 << bit for bit in reversed(range(widest.bit_length() - 1)) if count % widest >> bit & 1)


def _each(PIECES) -> list[int] | None:
    """The widths as numbers; None of equal pieces. In a kernel a tuple is Triton's."""
    return [getattr(one, "value", one) for one in PIECES] if isinstance(PIECES, (tuple, tl.tuple)) else None


@triton.constexpr_function
def is_cut(PIECES):
    """True of pieces of several widths, or of as many as no power of two is."""
    return _each(PIECES) is not None


@triton.constexpr_function
def count(PIECES):
    """The number of pieces."""
    return PIECES if _each(PIECES) is None else len(_each(PIECES))


@triton.constexpr_function
def width(PIECES, piece, COLUMNS):
    """The columns of a piece."""
    return COLUMNS // PIECES if _each(PIECES) is None else _each(PIECES)[piece]


@triton.constexpr_function
def begin(PIECES, piece, COLUMNS):
    """The first column of a piece."""
    return COLUMNS // PIECES * piece if _each(PIECES) is None else sum(_each(PIECES)[:piece])


@triton.constexpr_function
def kind(PIECES, piece):
    """The number of a piece's width, 0 for the widest."""
    each = _each(PIECES)
    return 0 if each is None else sorted(set(each), reverse=True).index(each[piece])


@triton.constexpr_function
def slot(PIECES, piece, STAGING):
    """The staging tile of a piece, among those of its width."""
    return piece % STAGING if kind(PIECES, piece) == 0 else 0


@triton.constexpr_function
def pending(PIECES, piece, STAGING):
    """The number of stores that have begun since the last one from the staging tile of a piece."""
    tiles = [(kind(PIECES, each), slot(PIECES, each, STAGING)) for each in range(count(PIECES))]
    return next(behind for behind in range(len(tiles)) if tiles[piece - 1 - behind] == tiles[piece])


@mimw.jit
def piece_of(tile, piece: tl.constexpr, PIECES: tl.constexpr):
    """A piece of a tile's columns: no element changes its thread."""
    if is_cut(PIECES):
        WIDTH: tl.constexpr = width(PIECES, piece, tile.shape[1])
        return tle.extract_tile(tile, [0, begin(PIECES, piece, tile.shape[1]) // WIDTH], [tile.shape[0], WIDTH])
    return columns(tile, piece, PIECES)
