"""Which launch for which row length.

Input: the length of a row. Output: a `Configuration`, whose `meta` gives the kernel's compile-time arguments. For
example:

    configuration(100)              Configuration(ctas=1, warps=4, copies=1, digit=8)
    configuration(131072)           Configuration(ctas=8, warps=16, copies=1, digit=8): a cluster shares each row
"""

from __future__ import annotations

from dataclasses import dataclass

import mimw.tle as tle
import mimw.tlx as tlx

from ..powers import power_of_two
from .kernel import SelectForm

WIDEST = 16             # bytes that a thread loads at once
MOST_A_CTA = 1 << 15    # keys: the kernel counts them in half a word
MOST_CTAS = 16          # of one cluster
LONGEST_LIST = 1 << 12  # results that are written together


@dataclass(frozen=True)
class Configuration:
    """The spread of a row over CTAs and warps.

    ctas    CTAs that share it; 1, or a cluster of a power of two of them, 16 at most
    warps   of each
    copies  places of each count, a power of two
    digit   bits found at a time: 4 or 8
    """

    ctas: int = 1
    warps: int = 8
    copies: int = 1
    digit: int = 8

    def meta(self, n: int, k: int, in_bytes: int) -> dict:
        """The kernel's compile-time arguments for the k largest of rows of n elements."""
        threads = 32 * self.warps
        block = max(threads, power_of_two(-(-n // self.ctas)))
        each = min(WIDEST // in_bytes, block // threads)
        chunks = block // (threads * each)
        layout = tlx.layout(((32, self.warps), (each, chunks)), ((each, 32 * each), (1, threads * each)))
        mesh = tle.device_mesh({"cluster": self.ctas}) if self.ctas > 1 else None
        form = SelectForm(block, threads, each, self.copies, self.digit, min(block, LONGEST_LIST, power_of_two(k)))
        return dict(mesh=mesh, layout=layout, FORM=form, num_warps=self.warps)


def configuration(n: int) -> Configuration:
    """The configuration for rows of n elements."""
    if n <= 8192:
        return Configuration(warps=4 if n <= 128 else 8 if n <= 1024 else 16)
    if n <= 16384:
        return Configuration(warps=32)
    # Longer rows: 16 warps a CTA. With 32 a thread may have 64 registers only, and 32 keys of its own spill.
    return Configuration(ctas=min(MOST_CTAS, power_of_two(n) // (MOST_A_CTA // 2)), warps=32 if n <= MOST_A_CTA else 16)
