"""Which launches for the gradients of which rows: a rule for all lengths, and what was measured, as data in `configs.json`.

Input: number and length of the rows, and the bytes of their elements. Output: a `Configuration` of ../norm/configs.py. For example:

    configuration(1152, 65536, 2)       Configuration(form="ring", ctas=8, chunk=2048, chunks=4, stages=3, rows=2, ahead=True, ...)
    configuration(4, 65536, 2)          Configuration(form="direct", ctas=16, chunk=4096, chunks=1, ...)
"""

from __future__ import annotations

from pathlib import Path

from ..measured import by_chip
from ..norm.configs import LONGEST, MOST_CTAS, PART, ROOM, SHARED, Configuration, read_rows
from ..powers import power_of_two

SUMS = 8192         # columns whose sums for dw and db a CTA of the ring keeps in registers: 16 of each in each of 512 threads
CHUNK = 2048        # columns of a tile
PROGRAMS = 264      # of the direct form, which share the rows


def configuration(rows: int, n: int, in_bytes: int, staged: int = 2, kept_bytes: int = 4, ring: bool = True) -> Configuration:
    """The configuration for `rows` rows of n elements.

    args:      in_bytes    of an element of x
               staged      how many such arrays are read by rows: x, dy, and a gradient more
               kept_bytes  of w, for a column
               ring        whether bulk copies take the rows
    """
    if ring and (measured := _measured().get((rows > 2 * ROOM[1], n, in_bytes, staged))):
        return measured
    return (ring and ring_configuration(rows, n, in_bytes, staged, kept_bytes)) or direct_configuration(rows, n)


def ring_configuration(rows: int, n: int, in_bytes: int, staged: int = 2, kept_bytes: int = 4) -> Configuration | None:
    """The ring form, for enough rows that are long enough; None where it is not for them, or they do not fit. Two rows at a time,
    if their number is even and three slots of two fit."""
    if rows < ROOM[1] or n * in_bytes < PART // 2:
        return None
    ctas = power_of_two(-(-n // SUMS))
    part = -(-n // ctas)
    chunk = min(CHUNK, power_of_two(part))
    chunks = -(-part // chunk)
    for each in (2, 1):
        stages = min(8, (SHARED - chunk * chunks * kept_bytes) // (chunk * chunks * each * in_bytes * staged))
        if rows % each == 0 and stages >= 3 and ctas <= MOST_CTAS and rows // each >= ROOM[ctas] and chunk <= n:
            return Configuration("ring", ctas, chunk, chunks, 16, stages, 1, keep=False, rows=each, ahead=True, apart=True)
    return None


def direct_configuration(rows: int, n: int) -> Configuration:
    """The direct form, for anything: short rows several at a time, and long ones by a cluster where there are SMs to spare."""
    if n <= 1024:
        block = power_of_two(n)
        return Configuration("direct", 1, block, 1, 4, rows=min(2048 // block, power_of_two(rows)))
    ctas = 1
    while ctas < MOST_CTAS and n > 2048 * ctas and (rows * ctas < ROOM[1] // 2 or n > LONGEST // 2 * ctas):
        ctas *= 2
    block = min(power_of_two(-(-n // ctas)), LONGEST // 2)
    return Configuration("direct", ctas, block, -(-n // (ctas * block)), 4 if block <= 1024 else 8 if block <= 4096 else 16)


_measured = by_chip(Path(__file__).parent / "configs.json")(read_rows)
