"""Which form, and how it is launched, for a collective of so many bytes: data where it was measured, a rule elsewhere.

Input: the collective, its ranks, the bytes of one part, whether its tensors are symmetric. Output: a `Configuration`. For example:

    configuration("all_reduce", 2, 4096, False)         Configuration(form="flagged", programs=128, chunk=4096, warps=8)
    configuration("all_reduce", 8, 1 << 26, False)      Configuration(form="two_shot", ...)

`configs.json` has rows by chip: collective, ranks, symmetric, the bytes up to which a row counts, and the command that found them.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ..measured import by_chip

PROGRAMS = {"flagged": 128, "ring": 256, "two_shot": 256}   # for which there are slots
ROOM = {"flagged": 8192, "ring": 65536, "two_shot": 65536}  # bytes of a program's slots of one kind, of all ranks together
FORMS = ("flagged", "ring", "two_shot", "direct", "direct_two_shot")
FLAGGED_UP_TO = 1 << 18         # bytes of a part, by the rule; more where slots come to an end
ONE_HOP = 3 << 20               # bytes that a rank of several sends in one hop at most, where two would send fewer


def room_of(form: str, ranks: int) -> int:
    """Bytes of a slot; of flagged slots bytes of data."""
    return ROOM[form] if form == "flagged" else 1 << (ROOM[form] // ranks).bit_length() - 1


@dataclass(frozen=True)
class Configuration:
    """form      one of FORMS; the last two for symmetric tensors
    programs  at most so many
    chunk     bytes that a program moves at a time, of a part
    warps     of a program
    lag       of ring.py
    """

    form: str = "flagged"
    programs: int = PROGRAMS["flagged"]
    chunk: int = 1024
    warps: int = 16
    lag: int = 0


@by_chip(Path(__file__).parent / "configs.json")
def measured(rows: list[dict]) -> dict[tuple, list[tuple[float, Configuration]]]:
    """(collective, ranks, symmetric) -> [(bytes of a part up to which it counts, configuration), ..], in order."""
    found: dict[tuple, list] = {}
    for row in rows:
        limit = float("inf") if row["up_to"] is None else row["up_to"]
        key = row["collective"], row["ranks"], row["symmetric"]
        found.setdefault(key, []).append((limit, Configuration(**row["configuration"])))
    return {key: sorted(limits, key=lambda one: one[0]) for key, limits in found.items()}


def configuration(collective: str, ranks: int, size: int, symmetric: bool) -> Configuration:
    """The measured one, else by rule.

    args:      collective  "all_reduce", "all_gather" or "reduce_scatter"
               size        bytes of a part: of x in all-reduce and all-gather, of the result in reduce-scatter
               symmetric   whether x is read where it is; all-reduce in one hop then needs another tensor for its result
    """
    for limit, found in measured().get((collective, ranks, symmetric), ()):
        if size <= limit:
            return found
    return by_rule(collective, ranks, size, symmetric)


def by_rule(collective: str, ranks: int, size: int, symmetric: bool) -> Configuration:
    """Few bytes with flags, two words a thread; many by large chunks, of 64 programs where each has one, else of as many as there
    are slots for. Of more than two ranks all-reduce of many bytes goes in two hops: 1 MiB of four H100s took 22.1 us so and 18.0 in
    one, 4 MiB were faster in two."""
    if size <= FLAGGED_UP_TO:
        chunk = 1024 if size <= 1 << 16 else 2048 if size <= 1 << 18 else 4096
        return Configuration("flagged", PROGRAMS["flagged"], chunk, chunk // 256)
    in_parts = collective == "all_reduce" and ranks > 2
    if symmetric:
        return Configuration("direct_two_shot" if in_parts else "direct", 132, 16384)
    in_parts = in_parts and (ranks - 1) * size > ONE_HOP
    form = "two_shot" if in_parts else "ring"
    programs, lag = (64, 0) if size <= 1 << 20 else (PROGRAMS[form], 0 if in_parts else 1)
    return Configuration(form, programs, min(16384, room_of(form, ranks)), 16, lag)
