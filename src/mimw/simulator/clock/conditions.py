"""The conditions of a timed launch: facts that the simulated CTAs do not decide.

Input: what a chip and its cache give. Output: plain data for the machine with a clock. For example:

    Conditions(megahertz=1755, sms=132, from_dram=0.1, alone=0.2)
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class Conditions:
    """The clock, how many SMs share L2 and DRAM, which share of what is loaded comes from DRAM, and the lanes of a warp.

    alone   share of the loaded bytes that no other SM asks for at the same time; L2 serves requests for the same bytes together
    far     share of the loads that wait for DRAM: they ask for bytes that come from there, or for the same ones a little later
    """

    megahertz: float
    sms: int
    from_dram: float = 0.0
    warp_size: int = 32
    alone: float = 1.0
    far: float = 1.0
