"""Which tile, main loop and instruction for which product.

Input: M, N, the formats. Output: a `Configuration`, which gives the kernel's constants and options. For example:

    configuration(4096, 4096)       Configuration(form="ping-pong", bm=256, bn=256, line=128, group_m=4, side=16)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ..mfma_gemm.configs import UNITS, XCDS
from .layouts import CHIP
from .nouns import Form


@dataclass(frozen=True)
class Configuration:
    """Tiles of bm x bn by eight waves that take turns or by four that interleave; `line` bytes of a row of the wider operand at a
    time; bands of group_m tile rows; instructions of side x side."""

    form: Literal["ping-pong", "interleave"] = "ping-pong"
    bm: int = 256
    bn: int = 256
    line: int = 128
    group_m: int = 4
    side: int = 16

    def least(self, shuffled: bool) -> int:
        """The rows and columns of the smallest tile in which each wave has instructions of each half, with shuffled scales two by
        two."""
        return 4 * max(self.side, 32 * shuffled)

    def meta(self, k: int, a_format: str, b_format: str, shuffled: bool) -> dict:
        """The kernel's constants and options."""
        bk = self.line * (2 if {a_format, b_format} == {"e2m1"} else 1)
        ping_pong = self.form == "ping-pong"
        form = Form(self.bm, self.bn, self.group_m, bk, ping_pong, a_format, b_format, self.side, shuffled, k % bk == 0, XCDS[CHIP])
        return dict(FORM=form, num_warps=8 if ping_pong else 4, num_stages=1, waves_per_eu=2 if ping_pong else 1)


SMALL = Configuration("interleave", 128, 128)


def configuration(m: int, n: int) -> Configuration:
    """Tiles of 256 x 256 where they give each compute unit one, else of 128 x 128. Compiled and predicted; nothing was measured."""
    return Configuration() if -(-m // 256) * -(-n // 256) >= UNITS[CHIP] else SMALL
