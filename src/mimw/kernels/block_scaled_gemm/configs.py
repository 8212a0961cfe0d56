"""The cut of a block-scaled product: two consumers of 64 or 128 rows, 128 columns.

Input: the columns of C and the bytes of an output element. Output: the kernel's constants. For example:

    configuration(4096, 7168, "plain", 132)       Configuration(bm=256, stages=4, rows=128, ...)
    Configuration().meta(4096, 2, "plain")        {"FORM": Form(BM=128, GROUP_M=8, STAGES=5, ROWS=64, PIECES=2, STAGING=2, ...)}
"""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd
from typing import Any

from mimw import TensorDescriptor

from ..descriptors import Maps
from ..gemm.pieces import widths
from ..grouped_gemm import ragged
from .nouns import Form

LINE_BYTES = 128    # the columns that a consumer sends at a time


@dataclass(frozen=True)
class Configuration:
    """Output tiles of bm x 128, `rows` for each consumer: 64 of them, `together` chunks at a time, or 128. `apart`: how many chunks
    the second consumer is behind the first one (of 64 rows: whether it is). `narrow`: tiles of 64 columns where so few are left
    over. `early`: of 64 rows, what does not depend on a product stands beside it (as it always does of 128). The rest as in
    kernel.py."""

    bm: int = 128
    bn: int = 128
    group_m: int = 8
    stages: int = 5
    staging: int = 2
    together: int = 4
    rows: int = 64
    apart: int = 0
    narrow: bool = False
    early: bool = False
    turns: int = 0

    def meta(self, n: int, out_bytes: int, layout: str) -> dict:
        """The kernel's constants. Each part of a tile starts with the first staging tile, so their number divides that
        of the pieces."""
        pieces = self.pieces(out_bytes)
        staging = min(self.staging, pieces.count(pieces[0])) if self.bn != 128 else gcd(self.staging, pieces)
        narrow = self.narrow and 0 < n % 128 <= 64
        return dict(FORM=Form(self.bm, self.bn, self.group_m, self.stages, self.rows, pieces, staging, layout,
                              self.together, self.apart, narrow, self.early, self.turns))


    def pieces(self, out_bytes: int) -> int | tuple[int, ...]:
        """Pieces, a line wide, in which a tile is stored; of tiles as wide as no power of two the widths of each."""
        return max(1, 128 * out_bytes // LINE_BYTES) if self.bn == 128 else widths(self.bn, LINE_BYTES // out_bytes)


    def output(self, c: Any) -> TensorDescriptor | Maps:
        """C as the kernel takes it: a descriptor of rows that end with a group, or one for each width of the pieces."""
        pieces = self.pieces(c.dtype.itemsize)
        if isinstance(pieces, int):
            return ragged(c, [64, 128 // pieces])
        return Maps([ragged(c, [64, columns]) for columns in sorted(set(pieces), reverse=True)])


TALL = Configuration(bm=256, rows=128, stages=4, staging=1, together=1)


def configuration(m: int, n: int, layout: str, programs: int) -> Configuration:
    """TALL for one matrix whose tiles of 256 rows take no more rounds than those of 128, each as long as two: they read a quarter
    less out of L2. Else, and for groups, whose sizes only the device knows, the default."""
    columns = -(-n // 128)
    tall, short = (-(-(-(-m // rows) * columns) // programs) for rows in (256, 128))
    return TALL if layout == "plain" and 2 * tall <= short else Configuration()
