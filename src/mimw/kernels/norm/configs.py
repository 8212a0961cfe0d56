"""Which launch for which rows: a rule for all lengths, and what was measured, as data in `configs.json`, with the command that
made it.

Input: number and length of the rows, and the bytes of their elements. Output: a `Configuration`. For example:

    configuration(1152, 131072, 2)      Configuration(form="ring", ctas=8, chunk=2048, chunks=8, stages=3, ...)
    configuration(4, 65536, 2)          Configuration(form="direct", ctas=16, chunk=4096, chunks=1, ...)
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path

from ..measured import by_chip
from ..powers import power_of_two
from .blocks import DirectForm

SHARED = 232448 - 2048      # bytes of shared memory of a CTA, less barriers and scratch
UNIT_BYTES = 16     # what bulk copies move
PART = 32768                # bytes of a row that a slot of the ring holds
HALVED = 4                  # clusters of so many CTAs are twice as large, of parts half as long, where both w and b are kept
MOST_CTAS = 16              # of one cluster
LONGEST = 16384             # elements of a row that a CTA of the direct form keeps in registers
# Clusters that an H200 runs at a time, one CTA an SM: none reaches over the border of a GPC.
ROOM = {1: 132, 2: 66, 4: 30, 8: 15, 16: 7}


@dataclass(frozen=True)
class Configuration:
    """The spread of rows over CTAs, warps and launches.

    form       "ring", kernel.py: persistent clusters that copy parts of rows ahead; "direct", direct.py: a cluster for a few rows
    ctas       of a cluster, which share a row; a power of two, 16 at most
    chunk      columns of a tile, a power of two
    chunks     tiles of a CTA's part of a row; of the direct form the times that it loops
    warps      of a consumer, or of a CTA of the direct form
    stages     ring: parts that are there or on their way
    consumers  ring: tasks that take the rows in turn
    keep       ring: hold a row in registers until y is written, and give its slot back at once
    behind     ring: rows that are asked for before w and b
    drawn      ring: rows are drawn from a counter, instead of in equal shares
    resident   ring: CTAs that an SM is to hold, as far as registers go
    waves      ring: so many times as many clusters as run at a time; the chip gives a cluster to whoever has ended
    rows       rows that a CTA takes at a time; ring of the gradients: 1, 2 or 4, halved until they divide the number of rows
    held       ring of the gradients: w stays in registers
    ahead      ring of the gradients: the first pass over rows goes together with the second one over the consumer's rows before
    apart      gradients: the sums for dw and for db over the consumers are made by different programs, each in one read, whose
               launch begins early
    early      direct: a launch may begin before the one ahead of it in its stream has ended
    """

    form: str = "direct"
    ctas: int = 1
    chunk: int = 1024
    chunks: int = 1
    warps: int = 4
    stages: int = 5
    consumers: int = 2
    keep: bool = True
    rows: int = 1
    early: bool = False
    waves: int = 1
    drawn: bool = False
    behind: int = 1
    resident: int = 1
    held: bool = False
    ahead: bool = False
    apart: bool = False

    def check(self, n: int, bulk: bool, apart: str) -> None:
        """ValueError where rows of n elements, so far `apart`, do not fit, or where the ring's bulk copies do not move them."""
        ring, most = self.form == "ring", f"{self.ctas} x {self.chunk} x {self.chunks}"
        if ring and not bulk:
            raise ValueError(f"bulk copies move multiples of {UNIT_BYTES} bytes from addresses that are such; rows of {n} "
                             f"elements, {apart} apart, are not: choose the direct form")
        if n > self.ctas * self.chunk * self.chunks or ring and n < self.chunk:
            takes = f"the ring takes {self.chunk} to {most}" if ring else f"{most} do"
            raise ValueError(f"rows of {n} elements do not fit: {takes}")

    def options(self, **meta) -> dict:
        """Options of a launch, the warps, and the cluster if there is one, besides `meta`."""
        return meta | {"num_warps": self.warps} | ({"ctas_per_cga": (self.ctas, 1, 1)} if self.ctas > 1 else {})

    def direct(self) -> DirectForm:
        """The constants of the direct form."""
        return DirectForm(self.rows, self.chunk, self.chunks, self.ctas)

    def ring(self, unit: int, n: int, whole: bool = True) -> tuple:
        """The constants of the ring form for rows of n elements, `unit` of them 16 bytes; not `whole`: no part is."""
        return (unit, self.chunk, self.chunks, self.ctas, self.stages, self.consumers,
                whole and n == self.ctas * self.chunk * self.chunks)

    def clusters(self, rows: int, room: int | None = None) -> int:
        """How many clusters of the ring form share so many rows: as many as run at a time (`room`), or `waves` times as many;
        unless rows are drawn, all with as many rows."""
        room = self.waves * (room or ROOM[self.ctas])
        return min(room, rows) if self.drawn else -(-rows // -(-rows // room))


def configuration(rows: int, n: int, in_bytes: int, staged: int = 1, kept_bytes: int = 8, ring: bool = True) -> Configuration:
    """The configuration for `rows` rows of n elements.

    args:      in_bytes    of an element of x
               staged      how many such arrays are read by rows: x, and a residual
               kept_bytes  of w and b, for a column
               ring        whether bulk copies take the rows
    """
    if ring and (measured := _measured().get((rows > 2 * ROOM[1], n, in_bytes, staged))):
        return measured
    return (ring and ring_configuration(rows, n, in_bytes, staged, kept_bytes)) or direct_configuration(rows, n)


def ring_configuration(rows: int, n: int, in_bytes: int, staged: int = 1, kept_bytes: int = 8, warps: int = 8,
                       consumers: int = 2) -> Configuration | None:
    """The ring form, for enough rows that are long enough; None where it is not for them, or they do not fit."""
    if rows < ROOM[1] or n * in_bytes < PART // 2:
        return None
    longest = PART // in_bytes // staged
    ctas = power_of_two(-(-n // longest))
    if ctas == HALVED and staged == 1 and kept_bytes > in_bytes:
        ctas, warps, consumers = 2 * ctas, warps // 2, 2 * consumers
    part = -(-n // ctas)
    chunk = min(warps * 32 * 16 // in_bytes, power_of_two(part))
    if ctas > MOST_CTAS or rows < ROOM[ctas] or chunk > n:
        return None
    chunks = -(-part // chunk)
    slot = chunk * chunks * in_bytes * staged
    stages = min(8, (SHARED - chunk * chunks * kept_bytes) // slot)
    stages -= stages % consumers if stages > consumers + 1 else 0   # a slot is then always one consumer's, who waits once for it
    return Configuration("ring", ctas, chunk, chunks, warps, stages, consumers, behind=stages) if stages >= consumers + 1 else None


def direct_configuration(rows: int, n: int) -> Configuration:
    """The direct form, for anything: short rows several at a time, and long ones by a cluster where there are SMs to spare."""
    if n <= 2048:
        block = power_of_two(n)
        return Configuration("direct", 1, block, 1, 4, rows=min(4096 // block, power_of_two(rows)))
    ctas = 1
    while ctas < MOST_CTAS and n > 2048 * ctas and (rows * ctas < ROOM[1] // 2 or n > LONGEST * ctas):
        ctas *= 2
    block = min(power_of_two(-(-n // ctas)), LONGEST)
    return Configuration("direct", ctas, block, -(-n // (ctas * block)), 4 if block <= 1024 else 8 if block <= 2048 else 16)


def plain_configuration(rows: int, n: int) -> Configuration:
    """The direct form for chips without clusters and bulk copies: plain Triton."""
    block = min(power_of_two(n), LONGEST // 2)
    each = min(4096 // block, power_of_two(rows)) if n <= 2048 else 1
    return Configuration("direct", 1, block, -(-n // block), 4 if block <= 1024 else 8, rows=each)


def read_rows(rows: list[dict]) -> dict[tuple[bool, int, int, int], Configuration]:
    """(many rows or few, N, bytes of an element, arrays read by rows) -> the fastest configuration found."""
    return {(row["many"], row["n"], row["in_bytes"], row["staged"]): Configuration(**row["configuration"]) for row in rows}


_measured = by_chip(Path(__file__).parent / "configs.json")(read_rows)


def as_row(rows: int, n: int, in_bytes: int, staged: int, chosen: Configuration) -> dict:
    """One row of `configs.json`."""
    return dict(many=rows > 2 * ROOM[1], n=n, in_bytes=in_bytes, staged=staged, configuration=asdict(chosen))
