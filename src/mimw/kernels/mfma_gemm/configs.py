"""Which configuration for which problem, and what a launch is given of it.

Input: a chip, M, N and the bytes of an input element. Output: a `Configuration`, which gives the kernel's constants. For example:

    chosen = configuration("gfx950", 4096, 4096, 2)     Configuration("ping-pong", 256, 256, 64)
    chosen.form_for("gfx950", (4096, 4096, 4096), 2, True, (4096, 4096, 4096))      Form(BM=256, BN=256, ...)

Nothing here was measured: what each was compiled to is in tests/kernels/test_mfma_gemm_code.py.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd

from .kernel import Form
from .layouts import in_lds, of_operand, of_sums
from .operands import Held

FORMS = "ping-pong", "interleave"
WAVES = {"ping-pong": (2, 4), "interleave": (2, 2)}
XCDS = {"gfx942": 8, "gfx950": 8, "gfx1250": 1}
# Published figures (docs/TIMING.md); of gfx1250 nothing is published, and gfx950's are taken.
UNITS = {"gfx942": 304, "gfx950": 256, "gfx1250": 256}
PRODUCTS = {"gfx942": 2048, "gfx950": 4096, "gfx1250": 4096}    # a cycle and compute unit, of one byte; half of them of two
LOADED = 64             # bytes a cycle and compute unit
PIECE_BYTES = 16        # of a lane's copy


@dataclass(frozen=True)
class Configuration:
    """Tiles of bm x bn in bands of `group_m`, bk of K at a time in `stages` slots, products by instructions of `side` rows.

    ping-pong     eight waves, of which one half multiplies while the other reads and copies (ping_pong.py)
    interleave    four waves with 512 registers each (interleave.py); an even number of stages
    """

    form: str = "ping-pong"
    bm: int = 256
    bn: int = 256
    bk: int = 64
    stages: int = 2
    side: int = 16
    group_m: int = 4

    def __post_init__(self):
        if self.form not in FORMS:
            raise ValueError(f"form is {self.form!r}; it may be {' or '.join(FORMS)}")
        if self.stages < 2 or self.form == "interleave" and self.stages % 2:
            raise ValueError(f"{self.form} with stages={self.stages}; it takes 2 or more, for interleave an even number")

    @property
    def waves(self) -> int:
        """The waves of a program."""
        return WAVES[self.form][0] * WAVES[self.form][1]

    def _block(self) -> tuple[int, int]:
        """Rows and columns of which each lane has 16 sums: all of an instruction of 32 rows, or of four of 16 rows."""
        down, across = WAVES[self.form]
        return down * self.side, across * max(self.side, 64 * 16 // self.side)

    def form_for(self, chip: str, sizes: tuple[int, int, int], size: int, b_is_nk: bool, steps: tuple[int, int, int],
                 out_size: int, **epilogue) -> Form:
        """The kernel's constants for M, N, K, elements of `size` bytes, and elements from row to row of A, B and C in memory."""
        _, n, k = sizes
        a_step, b_step, c_step = steps
        sums = of_sums(chip, size, self.side, WAVES[self.form])
        parts = 1 if self.form == "ping-pong" else 2
        of_trip = self.bk * (1 if self.form == "ping-pong" else 2)

        def held(extent, parts, step, along_k, right):
            lds = in_lds(chip, extent // parts, self.bk, size, self.stages, self.side) if along_k else None
            return Held(extent, self.bk, parts, self.stages, along_k, right, lds, of_operand(int(right), sums, size),
                        piece(step, size), k % of_trip == 0)

        return Form(self.bm, self.bn, self.group_m, self.bk, XCDS[chip], self.form == "ping-pong", chip == "gfx950" and size == 1,
                    held(self.bm, 2, a_step, True, False), held(self.bn, parts, b_step, b_is_nk, True), sums,
                    None if sums is None else self._block(),
                    piece(n, size), piece(k, size), piece(c_step, out_size), **epilogue)


def piece(number: int, size: int) -> int:
    """The most elements of `size` bytes, of those that a lane copies at once, of which `number` is a multiple."""
    return gcd(number, PIECE_BYTES // size)


def _squares(depth: int, stages: int = 4) -> tuple[Configuration, ...]:
    """Ping-pong from the largest tile on, of so many elements of K; smaller tiles have room for more stages."""
    return (Configuration(bk=depth),
            *(Configuration(bm=extent, bn=extent, bk=depth, stages=stages) for extent in (128, 64)))


# By chip and bytes of an element. 256 x 256 x 32 fp16 in two stages are all of gfx942's LDS.
CONFIGURATIONS = {
    "gfx942": {2: _squares(32), 1: _squares(64)},
    "gfx950": {2: _squares(64), 1: _squares(128)},
    "gfx1250": {2: _squares(64), 1: _squares(128)}}
INTERLEAVED = {
    "gfx942": {2: Configuration("interleave", bk=32, side=32), 1: Configuration("interleave", bk=64, side=32)},
    "gfx950": {2: Configuration("interleave", bk=64, side=32), 1: Configuration("interleave", bk=128)}}


def configuration(chip: str, m: int, n: int, size: int, wide: bool = True) -> Configuration:
    """The one that is through first if a tile takes as long as its products, or as its bytes where these take longer; of equal ones
    that with the largest tile. Where copies are not `wide` the one with the smallest: they need registers."""

    def cycles(one: Configuration) -> float:
        rounds = -(-(-(-m // one.bm) * -(-n // one.bn)) // UNITS[chip])
        return rounds * max(one.bm * one.bn / PRODUCTS[chip], (one.bm + one.bn) / LOADED)

    return min(CONFIGURATIONS[chip][size], key=cycles) if wide else CONFIGURATIONS[chip][size][-1]


__all__ = ["CONFIGURATIONS", "INTERLEAVED", "Configuration", "configuration"]
