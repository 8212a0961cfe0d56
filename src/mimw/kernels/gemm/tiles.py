"""Output tiles of a product: how large they are, in which order they are computed, and which part of each is a consumer's.

Input: the sizes of a product, and constants of its configuration. Output: values that the roles of a GEMM share. For example:

    FORM = Form(Tiles(128, 256, 8, 64, 2, 4, 2, False, True), STAGES=4)         made outside of the kernel
    problem, tiles = Problem(M, N, K), FORM.tiles
    for tile in range(output_tiles(M, N, tiles)):
        m, n = tile_origin(tile, M, N, tiles)
    part = part_of(tiles, me)               rows part.ROW to part.ROW + part.ROWS of each tile that consumer `me` has
"""

from collections import namedtuple
from typing import Any

import triton
import triton.language as tl

import mimw
import mimw.tle as tle


def is_between(columns: int) -> bool:
    """True of a number of columns between two powers of two."""
    return columns & (columns - 1) != 0


def whole_lines(columns: int, line: int) -> int:
    """So many columns; of a tile as wide as no power of two, the columns of its lines."""
    return -(-columns // line) * line if is_between(columns) else columns


@tle.struct
class Problem:
    """C[M, N] = A[M, K] B."""
    M: Any
    N: Any
    K: Any


@tle.struct
class Grid:
    """Tiles of BM x BN, in an order that keeps a band of GROUP_M tile rows in the L2 cache."""
    BM: tl.constexpr
    BN: tl.constexpr
    GROUP_M: tl.constexpr


@tle.struct
class Tiles(Grid):
    """Tiles that come in chunks of BK along K, belong to CONSUMERS together, or in PING_PONG to one of them in turn, and are stored
    in PIECES (pieces.py) by way of STAGING tiles for each consumer. B lies as (K, N), or as (N, K) where B_IS_NK; A as (M, K), or
    as (K, M) where A_IS_KM."""
    BK: tl.constexpr
    CONSUMERS: tl.constexpr
    PIECES: tl.constexpr
    STAGING: tl.constexpr
    PING_PONG: tl.constexpr
    B_IS_NK: tl.constexpr
    A_IS_KM: tl.constexpr = False

    @triton.constexpr_function
    def turns(self):
        """So many consumers take turns."""
        return self.CONSUMERS.value if self.PING_PONG.value else 1

    @triton.constexpr_function
    def sharers(self):
        """So many consumers share the rows of a tile."""
        return 1 if self.PING_PONG.value else self.CONSUMERS.value

    @triton.constexpr_function
    def rows(self):
        """The rows of a tile that are one consumer's."""
        return self.BM.value // (1 if self.PING_PONG.value else self.CONSUMERS.value)

    @triton.constexpr_function
    def columns_of_b(self):
        """The columns of a chunk's B that lies as (K, N): whole lines, of BK elements as along K."""
        return whole_lines(self.BN.value, self.BK.value)


@tle.struct
class Form:
    """The constants of a launch: tiles, and the slots of the ring that their chunks go through."""
    tiles: Tiles
    STAGES: tl.constexpr


@tle.struct
class LoadedForm(Form):
    """Also the warps that load: one issues TMA, but on AMD's chips each lane copies, by addresses in its registers."""
    LOAD_WARPS: tl.constexpr = 1


# The numbers of a `Problem`, as an argument of a launch.
Sizes = namedtuple("Sizes", "M N K")


@tle.struct
class Part:
    """Consumer `me`'s part of a product: ROWS x COLUMNS from row ROW of a tile on, of every TURNS-th tile from number TURN on."""
    me: tl.constexpr
    PING_PONG: tl.constexpr
    TURN: tl.constexpr
    TURNS: tl.constexpr
    ROW: tl.constexpr
    ROWS: tl.constexpr
    COLUMNS: tl.constexpr
    CONSUMERS: tl.constexpr
    B_IS_NK: tl.constexpr
    A_IS_KM: tl.constexpr


@mimw.jit
def part_of(tiles, me: tl.constexpr):
    """All rows of its own tiles in ping-pong, its share of the rows of each otherwise."""
    TURN: tl.constexpr = me if tiles.PING_PONG else 0
    ROW: tl.constexpr = 0 if tiles.PING_PONG else me * tiles.rows()
    return Part(me, tiles.PING_PONG, TURN, tiles.turns(), ROW, tiles.rows(), tiles.BN, tiles.CONSUMERS, tiles.B_IS_NK,
                tiles.A_IS_KM)


@mimw.jit
def output_tiles(M, N, grid):
    """The number of tiles of C."""
    return tl.cdiv(M, grid.BM) * tl.cdiv(N, grid.BN)


@mimw.jit
def tile_origin(tile, M, N, grid):
    """First row and column of output tile number `tile`, counted down bands of GROUP_M tile rows."""
    tiles_m, tiles_n = tl.cdiv(M, grid.BM), tl.cdiv(N, grid.BN)
    per_band = grid.GROUP_M * tiles_n
    first = (tile // per_band) * grid.GROUP_M
    height = min(tiles_m - first, grid.GROUP_M)
    within = tile % per_band
    return (first + within % height) * grid.BM, (within // height) * grid.BN
