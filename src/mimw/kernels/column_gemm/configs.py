"""The cut of a product of few rows into columns: so many weights a tile that all programs have as many of them.

Input: M, N, bytes of an element of the inputs and of the output, the number of programs. Output: a `Configuration`, which gives the
kernel's constants and the blocks of its descriptors:

    chosen = configuration(16, 6144, 2, 2, 132)     Configuration(tn=48, stages=7, rows=64, lines=2, ...)
    chosen.form(2, 2)                               ColumnForm(tiles=Tiles(BM=64, BN=48, ...), STAGES=7, ...)
    chosen.blocks(2, 2)                             [64, 128], [48, 128], [64, 48]
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from pathlib import Path

from ..gemm.tiles import Tiles, is_between
from ..measured import by_chip
from .kernel import ColumnForm

LINE_BYTES = 128            # one swizzle row of a chunk
ROOM_BYTES = 224 << 10      # of 227 KiB, for the ring and what is staged
ROWS, MOST = 64, 256        # of X in one wgmma, and columns of it
STORED_BYTES = 32           # of a row of a staging tile: its columns are a multiple of as many
AT_LEAST, DEEPEST = 4, 32   # slots of a ring
MANY_WEIGHTS = 1 << 22      # fewer are read in the time of a launch
BUSY = 0.75                 # of the programs have to have a tile


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

    @property
    def consumers(self) -> int:
        return 2 if self.ping_pong else self.rows // ROWS

    def form(self, in_bytes: int, out_bytes: int, **scales: bool) -> ColumnForm:
        """The kernel's constants."""
        depth, pieces = self._depth(in_bytes), self._pieces(out_bytes)
        tiles = Tiles(self.rows, self.tn, 1, depth, self.consumers, pieces, 1, self.ping_pong, True)
        return ColumnForm(tiles, self.stages, self.streamed, self.split, **scales)

    def blocks(self, in_bytes: int, out_bytes: int) -> tuple[list[int], list[int], list[int]]:
        """Blocks of X, W and C that their descriptors copy at a time."""
        depth, rows = self._depth(in_bytes), self.rows if self.ping_pong else ROWS
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
        return 1 if is_between(self.tn) else max(1, self.tn * out_bytes // LINE_BYTES)


@by_chip(Path(__file__).parent / "configs.json")
def _measured(rows: list[dict]) -> dict[tuple[int, int, int, int], Configuration]:
    """(M up to a power of two, N, K, bytes of an element) -> the quickest configuration found on the chip that the file names."""
    return {_key(*row["shape"], row["in_bytes"]): Configuration(**row["configuration"]) for row in rows}


def configuration(m: int, n: int, k: int, in_bytes: int, out_bytes: int, programs: int) -> Configuration:
    """The configuration for these sizes: the measured one, where there is one of just these weights; else by this sum.

    Each program is to have as many tiles as any other. A tile has 256 weights at most: cdiv(N, 256 programs) rounds, and tiles of
    cdiv(N, rounds programs) weights, made a multiple of 32 bytes of C. 6144 weights and 132 programs are 128 tiles of 48, 57344
    are 256 of 224. The ring takes the shared memory that is left, in chunks of two lines where these are AT_LEAST so many.
    """
    found = _measured().get(_key(m, n, k, in_bytes))
    if found is not None and found.stages <= found.deepest(out_bytes):
        return found
    chosen = Configuration(_even(n, out_bytes, programs), 0, rows_for(m), lines=2)
    if chosen.deepest(out_bytes) < AT_LEAST:
        chosen = replace(chosen, lines=1)
    return replace(chosen, stages=chosen.deepest(out_bytes))


def suits(m: int, n: int, k: int, in_bytes: int, out_bytes: int, programs: int, scaled: bool = False) -> bool:
    """True where whole columns are the quicker way: what was measured so; else weights that take longer than a launch, tiles for
    most of the programs, and no more rows than a tile has weights, since each tile reads X anew, from L2.

    Of a chunk, TMA takes 5 ns to fill a row of X with zeros, and memory 4 ns to bring a weight's line. So half of a tile's rows
    have to be there, unless there are scales, which `skinny_gemm` does not take.
    """
    if _key(m, n, k, in_bytes) in _measured():
        return True
    tn = _even(n, out_bytes, programs)
    filled = scaled or 2 * m > rows_for(m)
    return filled and m <= min(2 * ROWS, tn) and n * k >= MANY_WEIGHTS and -(-n // tn) >= BUSY * programs


def _key(m: int, n: int, k: int, in_bytes: int) -> tuple[int, int, int, int]:
    return max(16, 1 << (m - 1).bit_length()), n, k, in_bytes


def rows_for(m: int) -> int:
    """Rows of a tile that holds M."""
    return ROWS if m <= ROWS else 2 * ROWS


def _even(n: int, out_bytes: int, programs: int) -> int:
    step = max(8, STORED_BYTES // out_bytes)
    rounds = -(-n // (programs * MOST))
    return -(-n // (programs * rounds * step)) * step


def as_row(shape: tuple[int, int, int], in_bytes: int, chosen: Configuration) -> dict:
    """One row of `configs.json`."""
    return {"shape": list(shape), "in_bytes": in_bytes, "configuration": asdict(chosen)}
