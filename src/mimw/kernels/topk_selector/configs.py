"""How a launch is cut up.

Input: how many rows of which length, and k. Output: a `Configuration`, whose `meta` gives the kernel's compile-time arguments:

    configuration(64, 524288, 2048)     Configuration(ctas=4, warps=16, chunks=4, candidates=4096)
"""

from __future__ import annotations

from dataclasses import dataclass

import mimw.tle as tle
import mimw.tlx as tlx

from ..powers import power_of_two
from .kernel import SelectorForm

WIDEST = 16             # bytes that a thread loads at once
MOST_CTAS = 16          # of one cluster
RESIDENT = 128          # CTAs that run at a time: one a multiprocessor, since what each does once takes as long as its numbers
LEAST_A_CTA = 1 << 14   # numbers, below which a cluster costs more than it saves
FEWEST, MOST = 1024, 4096   # candidates, unless k is larger: room for twice k of one digit
MANY, MANY_LONGER, ALL_LONGER = 32, 1 << 14, 1 << 17      # measured on an H200: benchmarks/notes/topk.md


@dataclass(frozen=True)
class Configuration:
    """The spread of a row over CTAs and warps.

    ctas        CTAs that share it; 1, or a cluster of a power of two of them, 16 at most
    warps       of each
    chunks      loads of 16 bytes that a thread has under way
    candidates  places in shared memory for keys that may be the k-th, at least k
    pinned      numbers stay in the threads that load them; AMD's waves of 64 lanes have no such layout
    """

    ctas: int = 1
    warps: int = 16
    chunks: int = 4
    candidates: int = MOST
    pinned: bool = True

    def meta(self, k: int, in_bytes: int) -> dict:
        """The kernel's compile-time arguments."""
        threads, each = 32 * self.warps, WIDEST // in_bytes
        layout = tlx.layout(((32, self.warps), (each, self.chunks)), ((each, 32 * each), (1, threads * each)))
        mesh = tle.device_mesh({"cluster": self.ctas}) if self.ctas > 1 else None
        form = SelectorForm(threads * each * self.chunks, power_of_two(k), self.candidates)
        return dict(mesh=mesh, layout=layout if self.pinned else None, FORM=form, num_warps=self.warps)


def configuration(rows: int, n: int, k: int) -> Configuration:
    """The configuration for rows of n numbers: few rows are shared by clusters."""
    ctas = min(MOST_CTAS, power_of_two(max(1, RESIDENT // rows) + 1) // 2, max(1, power_of_two(n) // LEAST_A_CTA))
    return Configuration(ctas, candidates=candidates(k))


def candidates(k: int) -> int:
    """How many candidates there is room for: more is more to look through, fewer are counted once more."""
    return max(min(MOST, max(FEWEST, power_of_two(2 * k))), power_of_two(k))


def streamed(rows: int, n: int) -> bool:
    """Whether rows are read twice here sooner than `mimw.kernels.topk` finds the k largest of numbers that it keeps: many rows of
    over 16384 numbers, and all of over 131072."""
    return n > MANY_LONGER and rows >= MANY or n > ALL_LONGER
