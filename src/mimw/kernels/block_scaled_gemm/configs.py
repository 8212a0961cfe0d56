"""The cut of a block-scaled product: two consumers of 64 or 128 rows and 128 columns, or of 64 rows and 192 columns.

Input: the rows and columns of C, and the bytes of an output element. Output: the kernel's constants. For example:

    configuration(4096, 2112, "plain", 132)         WIDE, of which 3 rounds are enough
    WIDE.form(2, "plain")                           Form(BM=128, BN=192, GROUP_M=8, STAGES=4, ROWS=64, PIECES=3, ...)
"""

from dataclasses import dataclass
from math import gcd

from .nouns import Form


@dataclass(frozen=True)
class Configuration:
    """Output tiles of bm x bn, `rows` for each consumer: 64 of 128 columns, `together` chunks at a time, or of 192; or 128 of 128
    columns. The rest as in kernel.py."""

    bm: int = 128
    bn: int = 128
    group_m: int = 8
    stages: int = 5
    staging: int = 2
    rows: int = 64
    together: int = 4

    def form(self, out_bytes: int, layout: str) -> Form:
        """The kernel's constants. Pieces are lines of 128 bytes; a tile starts with the first staging tile, so the number of those
        divides that of pieces."""
        pieces = self.bn * out_bytes // 128
        return Form(self.bm, self.bn, self.group_m, self.stages, self.rows, pieces, gcd(self.staging, pieces), layout,
                    self.together)


TALL = Configuration(bm=256, rows=128, stages=4, staging=1, together=1)
WIDE = Configuration(bn=192, stages=4, staging=3, together=1)


def configuration(m: int, n: int, layout: str, programs: int) -> Configuration:
    """The tiles that fill up the rounds of one matrix: a round takes as long as a tile is large, of each of the three alike
    (benchmarks/notes/block-scaled-gemm.md); of as long ones TALL, which reads a quarter less out of L2. For groups, whose sizes
    only the device knows, the default."""
    each = (TALL, Configuration(), WIDE) if layout == "plain" else (Configuration(), )
    return min(each, key=lambda one: -(-(-(-m // one.bm) * -(-n // one.bn)) // programs) * one.bm * one.bn)
