"""Kernels of mimw as a backend of flash-linear-attention (`fla`): linear attention, SwiGLU, norms, rotary embedding, cross entropy,
causal attention.

Input: fla-core 0.6, whose functions ask registered backends first. Output: these functions by `mimw.ops`. For example:

    import mimw.integrations.fla
    mimw.integrations.fla.register()                        names of the functions that mimw now takes
    logging.getLogger("fla.backends").setLevel("INFO")      says who computes what, and why mimw does not

FLA_MIMW=0 turns it off again (docs/FLA.md).
"""

from .backend import UnsupportedFla, register
from .entries import ENTRIES, Entry

__all__ = ["ENTRIES", "Entry", "UnsupportedFla", "register"]
