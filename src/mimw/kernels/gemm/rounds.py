"""The rule by rounds: which tile leaves the fewest programs without work.

Input: the measured configuration of the nearest shape, and the problem. Output: that one, or one whose tiles are 96 to 240 columns
wide, if its launch takes less by the sum below. For example, of 4096 x 2112 x 7168 on 132 programs:

    128 columns         32 x 17 tiles are 4.1 rounds: 5 x 39.9 us
    176 columns         32 x 12 tiles are 2.9 rounds: 3 x 54.1 us, which is chosen

The sum: every whole round takes a tile's time, which is CHUNK for each chunk of 128 x 128, in proportion for other columns and
BESIDE more of them, and EXPOSED for what nothing overlaps; the last round takes as much, or less where its tiles are shared out
(`Configuration.last_round`). GAIN is asked of a tile that nobody has measured: of what was measured (benchmarks/notes/gemm.md) the
rule chose nothing that is slower than the nearest row's tile.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

COLUMNS = range(96, 256, 16)
IN_TURN = range(144, 208, 16)   # of consumers that take turns: more sums than that leave too few registers
MOST_SHARED = 160               # of those that share out the last round: with more of them 32 bytes a thread are spilled
BESIDE = 6                      # columns that a chunk takes as long as, whatever it has
EXPOSED = 1.0                   # microseconds a tile: its sums on their way out, which consumers that take turns hide
GAIN = 0.985
SHORT = 2048                    # bytes of a row of A: where they are fewer, stores bound it, which tiles of powers of two do best
MOST_STAGES = 8                 # `Configuration.fitted` leaves those that shared memory holds


def microseconds(chosen: Any, m: int, n: int, k: int, in_bytes: int, programs: int) -> float:
    """The time of a launch, by the sum above."""
    tiles = -(-m // chosen.bm) * -(-n // chosen.bn)
    last = chosen.last_round(m, n, k, in_bytes, programs)[0] if tiles % programs else 0.0
    exposed = 0.0 if chosen.ping_pong else EXPOSED * -(-tiles // programs)
    return (tiles // programs * chosen.tile_time(k, in_bytes) + last) * (1 + BESIDE / chosen.bn) + exposed


def by_rounds(measured: Any, m: int, n: int, k: int, in_bytes: int, programs: int) -> Any:
    """The measured configuration, or a quicker one with tiles of 128 rows: by consumers that take turns, if most programs have two
    tiles or more."""
    if k * in_bytes < SHORT:
        return measured
    tile = replace(measured, bm=128, stages=MOST_STAGES, consumers=2, staging=1, ping_pong=False)
    others = [replace(tile, bn=columns) for columns in COLUMNS]
    others += [replace(one, ping_pong=True) for one in others if one.bn in IN_TURN and -(-m // 128) * -(-n // one.bn) > programs
               and (one.bn <= MOST_SHARED or one.sharers(m, n, k, in_bytes, programs) is None)]
    found = [(microseconds(one, m, n, k, in_bytes, programs), -one.bn, one) for one in others]
    took, _, best = min(found, key=lambda each: each[:2])
    return best if took < GAIN * microseconds(measured, m, n, k, in_bytes, programs) else measured
