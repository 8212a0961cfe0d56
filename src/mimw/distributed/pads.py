"""Waits between ranks at the barriers of a world, read off the signal pads.

Input: a world's pads, this rank's and its peers', as numpy arrays of (programs, ranks). Output: for each peer the programs
that have come to a barrier where the peer has not:

    waits(0, {0: own, 1: theirs})       {1: [0, 1, 2]}
    told(0, {1: [0, 1, 2]})             "programs 0 to 2 of rank 0 reached a world barrier, and rank 1 did not"

Word (program, r) of a rank is 1 from when r has come until the rank itself goes on (docs/DISTRIBUTED.md, "Scopes"). So `me` waits
for p where p's word of `me` is 1 and `me`'s word of p is 0.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np


def waits(me: int, pads: Mapping[int, np.ndarray]) -> dict[int, list[int]]:
    """The programs of `me` that wait for each peer. Peers whose pads could not be read are not among `pads`."""
    found = {}
    for peer, theirs in pads.items():
        if peer != me:
            programs = np.nonzero((theirs[:, me] == 1) & (pads[me][:, peer] == 0))[0]
            if len(programs):
                found[peer] = programs.tolist()
    return found


def told(me: int, waiting: Mapping[int, list[int]]) -> str:
    """A description of the waits in words; one line a peer."""
    return "\n".join(f"{_programs(programs)} of rank {me} reached a world barrier, and rank {peer} did not" for peer, programs in
                     waiting.items())


def _programs(numbers: list[int]) -> str:
    if len(numbers) == 1:
        return f"program {numbers[0]}"
    if numbers == list(range(numbers[0], numbers[-1] + 1)):
        return f"programs {numbers[0]} to {numbers[-1]}"
    shown = ", ".join(map(str, numbers[:8]))
    return f"programs {shown}" + (f" and {len(numbers) - 8} more" if len(numbers) > 8 else "")


__all__ = ["told", "waits"]
