"""Which launches for the gradients of which rows: a rule for all lengths, and what was measured, as data in `configs.json`.

Input: number and length of the rows, and the bytes of their elements. Output: a `Configuration` of ../norm/configs.py. For example:

    configuration(1152, 65536, 2)       Configuration(form="ring", ctas=16, chunk=2048, chunks=2, stages=6, rows=2, held=True, ...)
    configuration(4, 65536, 2)          Configuration(form="direct", ctas=16, chunk=4096, chunks=1, ...)
"""

from __future__ import annotations

from pathlib import Path

from ..measured import by_chip
from ..norm.configs import LONGEST, MOST_CTAS, PART, ROOM, SHARED, Configuration, power_of_two, read_rows

HELD = 4096         # columns whose w a CTA of the ring keeps in registers besides their sums: 16 of each in each of 256 threads
SUMS = 8192         # columns whose sums for dw and db a CTA of the ring keeps in registers at most
PROGRAMS = 264      # of the direct form, which share the rows


def configuration(rows: int, n: int, in_bytes: int, staged: int = 2, kept_bytes: int = 4, ring: bool = True,
                  centred: bool = True) -> Configuration:
    """The configuration for `rows` rows of n elements.

    args:      in_bytes    of an element of x
               staged      how many such arrays are read by rows: x, dy, and a gradient more
               kept_bytes  of w, for a column
               ring        whether bulk copies take the rows
               centred     of LayerNorm
    """
    if ring and (measured := _measured().get((rows > 2 * ROOM[1], n, in_bytes, staged))):
        return measured
    return (ring and ring_configuration(rows, n, in_bytes, staged, kept_bytes, centred)) or direct_configuration(rows, n)


def ring_configuration(rows: int, n: int, in_bytes: int, staged: int = 2, kept_bytes: int = 4,
                       centred: bool = True) -> Configuration | None:
    """The ring form, for enough rows that are long enough; None where it is not for them, or they do not fit. LayerNorm has more to
    reduce, so it takes two rows at a time where parts are short enough; RMSNorm is bound by the memory with one consumer ahead."""
    if rows < ROOM[1] or n * in_bytes < PART // 2:
        return None
    held = centred and SUMS < n <= HELD * MOST_CTAS
    ctas = power_of_two(-(-n // (HELD if held else SUMS)))
    warps, consumers = (8, 2) if centred else (16, 1)
    part = -(-n // ctas)
    chunk = min(8 * 32 * 16 // in_bytes, power_of_two(part))
    if ctas > MOST_CTAS or rows < ROOM[ctas] or chunk > n:
        return None
    chunks, each = -(-part // chunk), 2 if held else 1
    stages = min(8, (SHARED - chunk * chunks * kept_bytes) // (chunk * chunks * each * in_bytes * staged))
    return Configuration("ring", ctas, chunk, chunks, warps, stages, consumers, keep=False, rows=each, held=held,
                         ahead=not centred) if stages >= 3 else None


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
