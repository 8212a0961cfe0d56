"""The cut of a product of few rows into columns: so many weights a tile that all programs have as many of them.

Input: M, N, bytes of an element of the inputs and of the output, the number of programs. Output: a `Configuration`, which gives the
kernel's constants and the blocks of its descriptors:

    chosen = configuration(16, 6144, 2, 2, 132)     Configuration(tn=48, stages=7, rows=64, lines=2, ...)
    chosen.form(2, 2)                               ColumnForm(tiles=Tiles(BM=64, BN=48, ...), STAGES=7, ...)
    chosen.blocks(2, 2)                             [64, 128], [48, 128], [64, 48]
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from ..gemm.tiles import Tiles
from .kernel import ColumnForm

LINE_BYTES = 128            # one swizzle row of a chunk
ROOM_BYTES = 224 << 10      # of 227 KiB, for the ring and what is staged
MOST, STEP = 256, 16        # columns of one wgmma; of what a row of a staging tile has, 32 bytes
DEEPEST = 32                # slots of a ring


@dataclass(frozen=True)
class Configuration:
    """Tiles of `tn` weights by `rows` rows of X, 64 or 128; a ring of `stages` chunks, each so many `lines` of the swizzle wide.
    Consumers have 64 rows each, or in `ping_pong` two of them tiles in turn. `streamed` weights leave L2 first."""

    tn: int
    stages: int
    rows: int = 64
    lines: int = 1
    ping_pong: bool = False
    streamed: bool = True
    split: int = 1
    rotated: bool = False

    @property
    def consumers(self) -> int:
        return 2 if self.ping_pong else self.rows // 64

    def form(self, in_bytes: int, out_bytes: int, **scales: bool) -> ColumnForm:
        """The kernel's constants."""
        depth, pieces = self._depth(in_bytes), self._pieces(out_bytes)
        tiles = Tiles(self.rows, self.tn, 1, depth, self.consumers, pieces, 1, self.ping_pong, True)
        return ColumnForm(tiles, self.stages, self.streamed, self.split, self.rotated, **scales)

    def blocks(self, in_bytes: int, out_bytes: int) -> tuple[list[int], list[int], list[int]]:
        """Blocks of X, W and C that their descriptors copy at a time."""
        depth, rows = self._depth(in_bytes), self.rows if self.ping_pong else 64
        return [self.rows, depth], [self.tn, depth], [rows, self.tn // self._pieces(out_bytes)]

    def deepest(self, out_bytes: int) -> int:
        """Chunks that fit beside what is staged."""
        staged = (self.consumers if self.ping_pong else 1) * self.rows * (self.tn // self._pieces(out_bytes)) * out_bytes
        staged += 8 * self.rows * self.tn if self.split > 1 else 0
        return min(DEEPEST, (ROOM_BYTES - staged) // (LINE_BYTES * self.lines * (self.rows + self.tn)))

    def _depth(self, in_bytes: int) -> int:
        return self.lines * LINE_BYTES // in_bytes

    def _pieces(self, out_bytes: int) -> int:
        """Pieces, a line wide, in which a tile is stored; one, of stripes, where no power of two is that wide."""
        if self.split > 1:
            return self.split
        return 1 if self.tn & (self.tn - 1) else max(1, self.tn * out_bytes // LINE_BYTES)


def configuration(m: int, n: int, k: int, in_bytes: int, out_bytes: int, programs: int) -> Configuration:
    """The configuration for these sizes."""
    rows, step = 64 if m <= 64 else 128, max(8, 32 // out_bytes)
    rounds = -(-n // (programs * MOST))
    tn = max(step, -(-n // (programs * rounds * step)) * step)
    lines = 2
    chosen = Configuration(tn, 0, rows, lines)
    return replace(chosen, stages=chosen.deepest(out_bytes))


def suits(m: int, n: int, k: int, in_bytes: int, programs: int) -> bool:
    return m <= 128 and n * k * in_bytes >= 1 << 22
