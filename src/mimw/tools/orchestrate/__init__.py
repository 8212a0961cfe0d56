"""`mimw.orchestrate`: an ordinary Triton kernel, unchanged, as a warp-specialised one, proved to compute the same.

Input: a kernel of `triton.jit` or `mimw.jit`, a grid and arguments. Output: an `Orchestration`. For example:

    found = mimw.orchestrate(attention, grid, *args, BM=128, BN=128, D=128, CAUSAL=False, num_warps=8)
    print(found)                        the report
    found[grid](*args, BM=128, ...)     launches the orchestrated kernel, or the plain one

What it does, step by step: docs/ORCHESTRATE.md.
"""

from ...compiler.orchestrate.plan import Plan
from .auto import AutoFunction, auto
from .choose import Candidate, Search
from .found import Orchestration
from .orchestrating import orchestrate
from .plain import CannotOrchestrate
from .prove import Certificate

__all__ = ["AutoFunction", "Candidate", "CannotOrchestrate", "Certificate", "Orchestration", "Plan", "Search", "auto",
           "orchestrate"]
