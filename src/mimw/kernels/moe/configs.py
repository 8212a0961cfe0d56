"""How the tiles of a mixture of experts are cut: by the rows that an expert has on average, and so that all SMs have a tile.

Input: rows and experts, or a product's extents. Output: a `Configuration`, and a product's compile-time arguments. For example:

    configuration(64 * 8, 256)                          2 rows an expert: Configuration(bm=16, bn=256, ping_pong=True, ...)
    product_meta(chosen, 256, 2, gated=True, picked=False)      {"BM": 16, "BN": 256, "BK": 64, "STAGES": 4, ...}

The host does not know how many rows an expert has, only the sum of all. The choices are data, in `configs.json`.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, gcd
from pathlib import Path

from ..measured import by_chip

LINE_BYTES = 128            # one swizzle row: BK elements of any type, and the columns that a consumer sends at a time
SHARED_BYTES = 226 << 10    # for the ring and the staging tiles; the rest of 227 KiB holds barriers
DEEPEST = 12                # chunks: what is under way then covers the latency of memory many times
NARROWEST = 64              # columns of the weights' tile
BUSY = 0.8                  # of the programs have to have a tile, or tiles get narrower
FULLER = 0.1                # is what tiles of half the weights have to gain: measured at 3.4 and 6.8 rounds (1.03)


@dataclass(frozen=True)
class Configuration:
    """Blocks of `bm` rows, tiles of `bn` weights for them (half of them the gate's in the first product); the schedules are the
    GEMM's. `load_warps` share out the rows of tokens to pick; with 0 a launch before copies the rows to where the experts want
    them. A chunk has `lines` times 128 bytes of a row of weights, and `ctas` CTAs share an SM. `swapped`: weights are the rows of
    the products (few_rows.py), 64 for each consumer or twice 64; consumers are then as many as 128 weights of a tile, one at least.
    Their tiles may be `drawn` from a counter, instead of shared out.
    """

    bm: int = 128
    bn: int = 256
    group_m: int = 8
    consumers: int = 2
    staging: int = 1
    ping_pong: bool = False
    load_warps: int = 0
    lines: int = 1
    ctas: int = 1
    swapped: bool = False
    drawn: bool = False


@by_chip(Path(__file__).parent / "configs.json")
def _chosen(rows: list[dict]) -> tuple[tuple[int, Configuration], ...]:
    """(rows of an expert at most, configuration), ascending."""
    rows = sorted(rows, key=lambda row: row["rows"])
    return tuple((row["rows"], Configuration(**row["configuration"])) for row in rows)


def configuration(rows: int, experts: int) -> Configuration:
    """The configuration for so many rows in all: by those that an expert has on average, if it has any."""
    has = -(-rows // min(rows, experts))
    return next((chosen for most, chosen in _chosen() if has <= most), _chosen()[-1][1])


def columns_of(chosen: Configuration, n: int, rows: int, experts: int, programs: int, gated: bool) -> int:
    """The weights in a tile of a product with N columns: as configured, or fewer, until most programs have a tile; or, swapped,
    half as many where that fills the last round of tiles."""
    narrowest = 128 if chosen.swapped and gated else NARROWEST
    bn, blocks = max(chosen.bn, narrowest), max(min(rows, experts), rows // chosen.bm)
    rounds = lambda bn: blocks * -(-n // (bn // 2 if gated else bn)) / (programs * chosen.ctas)  # noqa: E731
    while bn > narrowest and rounds(bn) < BUSY:
        bn //= 2
    if chosen.swapped and bn > narrowest and rounds(bn) / ceil(rounds(bn)) + FULLER < rounds(bn // 2) / ceil(rounds(bn // 2)):
        return bn // 2
    return bn


def product_meta(chosen: Configuration, bn: int, in_bytes: int, out_bytes: int, gated: bool, picked: bool) -> dict:
    """The compile-time arguments of a product; its ring is as deep as shared memory holds. Each output tile starts with the first
    staging tile, so their number divides that of the pieces."""
    line = LINE_BYTES * chosen.lines
    if chosen.swapped:
        stages = min(DEEPEST * 2, SHARED_BYTES // chosen.ctas // (line * (chosen.bm + bn)))
        return dict(BM=chosen.bm, BN=bn, BK=line // in_bytes, GROUP_M=chosen.group_m, STAGES=stages,
                    CONSUMERS=max(1, bn // 128), GATED=gated, CTAS=chosen.ctas)
    width, tall = bn // 2 if gated else bn, max(64, chosen.bm)
    pieces = max(1, width * out_bytes // LINE_BYTES)
    staging = gcd(chosen.staging, pieces)
    share = tall if chosen.ping_pong else tall // chosen.consumers
    room = SHARED_BYTES // chosen.ctas - staging * chosen.consumers * share * min(LINE_BYTES, width * out_bytes)
    stages = min(DEEPEST, room // (line * (tall + bn)))
    return dict(BM=chosen.bm, BN=bn, BK=line // in_bytes, GROUP_M=chosen.group_m, STAGES=stages, CONSUMERS=chosen.consumers,
                PIECES=pieces, STAGING=staging, PING_PONG=chosen.ping_pong, GATED=gated,
                LOAD_WARPS=max(1, chosen.load_warps) if picked else 1, CTAS=chosen.ctas, PICKED=picked)
