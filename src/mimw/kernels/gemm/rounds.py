"""The rule by rounds: which tile leaves the fewest programs without work.

Input: the measured configuration of the nearest shape, and the problem. Output: that one, or one whose tiles are 96 to 240 columns
wide, if its launch takes less by the sum below. For example, of 4096 x 2112 x 7168 on 132 programs:

    128 columns         32 x 17 tiles are 4.1 rounds: 5 x 39.0 us
    176 columns         32 x 12 tiles are 2.9 rounds: 3 x 54.4 us, which is chosen

The sum: every whole round takes a tile's time, which is CHUNK for each chunk of 128 x 128, in proportion for other columns, and
EXPOSED for what nothing overlaps; the last round takes as much, or less where its tiles are shared out
(`Configuration.last_round`).
Measured times differ from it by up to a tenth (clocks, L2), so GAIN is asked of a tile that nobody has measured.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

COLUMNS = range(96, 256, 16)
EXPOSED = 1.0       # microseconds a tile: its sums on their way out, without a product meanwhile; consumers that take turns hide it
GAIN = 0.97
MOST_STAGES = 8     # `Configuration.fitted` leaves those that shared memory holds


def microseconds(chosen: Any, m: int, n: int, k: int, in_bytes: int, programs: int) -> float:
    """The time of a launch, by the sum above."""
    tiles = -(-m // chosen.bm) * -(-n // chosen.bn)
    exposed = 0.0 if chosen.ping_pong else EXPOSED
    rounds = tiles // programs * (chosen.tile_time(k, in_bytes) + exposed)
    return rounds + (chosen.last_round(m, n, k, in_bytes, programs)[0] + exposed if tiles % programs else 0.0)


def by_rounds(measured: Any, m: int, n: int, k: int, in_bytes: int, programs: int) -> Any:
    """The measured configuration, or a quicker one with tiles of 128 rows that two consumers share."""
    most = GAIN * microseconds(measured, m, n, k, in_bytes, programs)
    tile = replace(measured, bm=128, stages=MOST_STAGES, consumers=2, staging=1, ping_pong=False)
    others = [replace(tile, bn=columns) for columns in COLUMNS]
    found = [(microseconds(one, m, n, k, in_bytes, programs), one) for one in others]
    took, best = min(found, key=lambda each: each[0])
    return best if took < most else measured
