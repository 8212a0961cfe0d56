"""The cut of a product of few rows into whole columns: so many weights a tile that all programs have as many.

Input: M, N, the bytes of an element of the inputs and of the output, the number of programs. Output: a `Columns`, which gives the
kernel's constants and blocks:

    columns(16, 6144, 2, 2, 132)                Columns(tn=48, stages=14, rows=64)
    columns(16, 6144, 2, 2, 132).form(2, 2)     WholeForm(tiles=Tiles(BM=64, BN=48, ...), STAGES=14, ...)
"""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd

from ..gemm.tiles import Tiles
from .configs import LINE_BYTES
from .whole import WholeForm

ROOM_BYTES = 224 << 10      # of 227 KiB, for the ring and what is staged
MOST = 256                  # columns of one wgmma


@dataclass(frozen=True)
class Columns:
    """Tiles of `tn` weights by `rows` rows of X, whose chunks are so many `lines` of the swizzle wide."""

    tn: int
    stages: int
    rows: int = 64
    ping_pong: bool = False
    lines: int = 1
    streamed: bool = True
    staging: int = 1

    @property
    def consumers(self) -> int:
        return 2 if self.ping_pong else self.rows // 64

    def form(self, in_bytes: int, out_bytes: int, **scales: bool) -> WholeForm:
        """The kernel's constants."""
        pieces = self._pieces(out_bytes)
        tiles = Tiles(self.rows, self.tn, 1, self._depth(in_bytes), self.consumers, pieces, gcd(self.staging, pieces), self.ping_pong,
                      True)
        return WholeForm(tiles, self.stages, self.streamed, **scales)

    def blocks(self, in_bytes: int, out_bytes: int) -> tuple[list[int], list[int], list[int]]:
        """Blocks of X, W and C that their descriptors copy at a time."""
        depth, rows = self._depth(in_bytes), self.rows if self.ping_pong else 64
        return [self.rows, depth], [self.tn, depth], [rows, self.tn // self._pieces(out_bytes)]

    def _depth(self, in_bytes: int) -> int:
        return self.lines * LINE_BYTES // in_bytes

    def _pieces(self, out_bytes: int) -> int:
        return 1 if self.tn & (self.tn - 1) else max(1, self.tn * out_bytes // LINE_BYTES)


def deepest(tn: int, rows: int, out_bytes: int, lines: int = 1, ping_pong: bool = False) -> int:
    """The chunks that fit beside what is staged."""
    pieces = 1 if tn & (tn - 1) else max(1, tn * out_bytes // LINE_BYTES)
    staged = (2 if ping_pong else 1) * rows * (tn // pieces) * out_bytes
    return min(32, (ROOM_BYTES - staged) // (LINE_BYTES * lines * (rows + tn)))


def even(n: int, programs: int, least: int = 1) -> int:
    """Weights of a tile, a multiple of 16, so that each program has as many tiles as any other, `least` or more."""
    rounds = max(least, -(-n // (programs * MOST)))
    return -(-n // (16 * programs * rounds)) * 16
