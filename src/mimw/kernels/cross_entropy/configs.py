"""Which launch of a cross entropy for which rows: a rule, and what was measured of many rows, as data in `configs.json`, which
`mimw tune cross_entropy --write` makes.

Input: number and length of the rows, and the bytes of their elements. Output: a `Configuration` of ../norm/configs.py. For example:

    configuration(8192, 131072, 2)      Configuration(form="ring", ctas=4, chunk=4096, chunks=8, warps=8, stages=3, ...)
    configuration(3, 50257, 2)          Configuration(form="direct", ctas=16, chunk=4096, ...)
"""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

from ..measured import by_chip
from ..norm.configs import MOST_CTAS, ROOM, SHARED, Configuration
from ..norm_backward.configs import direct_configuration
from ..powers import power_of_two

__all__ = ["Configuration", "as_row", "configuration", "direct_configuration", "ring_configuration"]

PART = 65536        # bytes of a row that a slot of the ring holds: three slots fit, and clusters are small
SHORTEST = 16384    # bytes of a row of the ring


def configuration(rows: int, n: int, in_bytes: int, ring: bool = True) -> Configuration:
    """The configuration for `rows` rows of n elements of `in_bytes`; `ring` says whether bulk copies take the rows."""
    if not ring or rows < ROOM[1]:
        return direct_configuration(rows, n)
    return _measured().get((n, in_bytes)) or ring_configuration(rows, n, in_bytes) or direct_configuration(rows, n)


def ring_configuration(rows: int, n: int, in_bytes: int, part: int = PART, warps: int = 8,
                       consumers: int = 2) -> Configuration | None:
    """The ring form, for enough rows that are long enough; None where it is not for them, or they do not fit. An SM that moves 31
    bytes a nanosecond needs 4 us for 64 KB read and written, which is what a row's two reductions and its exchange need, too."""
    if rows < ROOM[1] or n * in_bytes < SHORTEST:
        return None
    ctas = power_of_two(-(-n * in_bytes // part))
    if ctas > MOST_CTAS or rows < ROOM[ctas]:
        return None
    chunk = warps * 32 * 32 // in_bytes     # 32 bytes a thread: with 16 there are more chunks, and ptxas spills their limits
    chunks = -(-n // (ctas * chunk))
    stages = min(6, SHARED // (chunk * chunks * in_bytes))
    stages -= stages % consumers if stages > consumers + 1 else 0   # a slot is then always one consumer's, who waits once for it
    return Configuration("ring", ctas, chunk, chunks, warps, stages, consumers, keep=False) if stages > consumers else None


def _read_rows(rows: list[dict]) -> dict[tuple[int, int], Configuration]:
    """(N, bytes of an element) -> the fastest configuration found."""
    return {(row["n"], row["in_bytes"]): Configuration(**row["configuration"]) for row in rows}


_measured = by_chip(Path(__file__).parent / "configs.json")(_read_rows)


def as_row(n: int, in_bytes: int, chosen: Configuration) -> dict:
    """One row of `configs.json`."""
    return dict(n=n, in_bytes=in_bytes, configuration=asdict(chosen))
