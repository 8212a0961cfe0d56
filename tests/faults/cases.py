"""Faults of several GPUs: what goes wrong, and what each rank has to end with.

Input: nothing. Output: `CASES`, by the name of its function in programs.py:

    CASES["killed"].judge(found, stderr)        "" where each rank ended as it should, else what is wrong

No torch and no mimw here: who starts the processes of a case must not have touched a GPU.
"""

from __future__ import annotations

import re
import signal
from dataclasses import dataclass

KILLED, HUNG = -signal.SIGKILL, 124
WAITS = r"programs? [01].* of rank 0 reached a world barrier, and rank 1 did not"
LOST = rf"rank 1: its process \d+ has ended.*{WAITS}"


@dataclass(frozen=True)
class Case:
    """`what` goes wrong; `wanted` a pattern for each rank: of its exit status, or of what it returned, then of what it wrote to
    stderr; `ends_processes` that one of them goes down."""

    what: str
    wanted: tuple[str, str]
    ends_processes: bool = True

    def judge(self, found: list, stderr: list[str]) -> str:
        ends = [f"{value}\n{text}" for value, text in zip(found, stderr)]
        return "; ".join(f"rank {rank} ended with {end!r}, and should have with {wanted!r}" for rank, (end, wanted) in
                         enumerate(zip(ends, self.wanted)) if not re.match(wanted, end, re.DOTALL))


CASES = {
    "killed": Case(
        "A process is killed while kernels of both ranks meet",
        (rf"{HUNG}\n.*PeerLost: rank 0 of group '0' .*{LOST}", str(KILLED))),
    "killed_beside_a_graph": Case(
        "A process is killed while the other replays a graph, which nobody notes",
        (rf"{HUNG}\n.*PeerLost: rank 0 of group '0' .*{LOST}", str(KILLED))),
    "killed_in_the_host": Case(
        "A process is killed, and the other asks for symmetric memory",
        ("PeerLost: rank 1 of group '0' will not reach", str(KILLED))),
    "killed_at_rest": Case(
        "A process is killed while nothing runs: the other goes on alone, and its next launch is refused",
        ("1048576 PeerLost: rank 1 of group '0' takes part in no further launch", str(KILLED))),
    "late": Case(
        "A rank is late by seconds, within the limit",
        ("right", "right"), False),
    "too_late": Case(
        "A rank is later than the limit",
        (rf"{HUNG}\n.*PeerLate: rank 0 .*{WAITS}.*rank 1: its process runs",
         rf"PeerLost: rank 0 of group|{HUNG}\n.*PeerLost.*rank 0: its process")),
    "wrong_shape": Case(
        "Another shape at one rank: both are told, and go on",
        ("True right", "True right"), False),
    "two_groups": Case(
        "Two groups of the same ranks at once, on two streams, in different orders",
        ("right right", "right right"), False),
    "random_delays": Case(
        "Ten thousand launches, with random delays of hosts and devices",
        ("right", "right"), False),
}
