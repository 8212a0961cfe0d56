"""The cut of a block-scaled product: two consumers of 64 or 128 rows and 128 columns, or of 64 rows and 192 columns.

Input: the rows and columns of C, and the bytes of an output element. Output: the kernel's constants. For example:

    configuration(4096, 2112, "plain", 132)         WIDE, of which 3 rounds are enough
    WIDE.form(2, "plain")                           Form(BM=128, BN=192, GROUP_M=8, STAGES=4, ROWS=64, CONSUMERS=2, ...)
"""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd
from typing import Any

from mimw import TensorDescriptor

from ..descriptors import Maps
from ..gemm.pieces import widths
from ..gemm.tiles import is_between
from ..grouped_gemm import ragged
from .nouns import Form

LINE_BYTES = 128    # of columns that a consumer sends at a time


@dataclass(frozen=True)
class Configuration:
    """Output tiles of bm x bn, `rows` for each consumer: 64, of 128 columns `together` chunks at a time, or 128 of 128 columns. The
    rest as in kernel.py."""

    bm: int = 128
    bn: int = 128
    group_m: int = 8
    stages: int = 5
    staging: int = 2
    rows: int = 64
    together: int = 4

    def form(self, out_bytes: int, layout: str) -> Form:
        """The kernel's constants. A tile starts with the first staging tile, so their number divides that of equal pieces."""
        pieces = self.pieces(out_bytes)
        staging = min(self.staging, pieces.count(pieces[0])) if isinstance(pieces, tuple) else gcd(self.staging, pieces)
        return Form(self.bm, self.bn, self.group_m, self.stages, self.rows, self.bm // self.rows, pieces, staging, layout,
                    self.together)

    def pieces(self, out_bytes: int) -> int | tuple[int, ...]:
        """Pieces, a line wide, in which a tile is stored; of tiles as wide as no power of two the width of each."""
        line = LINE_BYTES // out_bytes
        return widths(self.bn, line) if is_between(self.bn) else max(1, self.bn // line)

    def output(self, c: Any) -> TensorDescriptor | Maps:
        """C as the kernel takes it: rows that end with a group, in blocks as wide as the pieces."""
        pieces = self.pieces(c.dtype.itemsize)
        if isinstance(pieces, int):
            return ragged(c, [64, self.bn // pieces])
        return Maps([ragged(c, [64, columns]) for columns in sorted(set(pieces), reverse=True)])


TALL = Configuration(bm=256, rows=128, stages=4, staging=1, together=1)
WIDE = Configuration(bn=192, stages=4, staging=3, together=1)
IN_ORDER = TALL, Configuration(), WIDE      # of as many rounds the first: TALL reads a quarter less out of L2


def configuration(m: int, n: int, layout: str, programs: int) -> Configuration:
    """The tiles that fill up the rounds of one matrix: a round takes as long as a tile is large, of each of the three alike
    (benchmarks/notes/block-scaled-gemm.md). For groups, whose sizes only the device knows, the default."""
    def time(chosen: Configuration) -> int:
        return -(-(-(-m // chosen.bm) * -(-n // chosen.bn)) // programs) * chosen.bm * chosen.bn
    return min(IN_ORDER, key=time) if layout == "plain" else Configuration()
