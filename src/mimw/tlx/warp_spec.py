"""`mimw.tlx.warp_spec`: helpers of warp-specialised kernels.

Input: a name. Output: the helper of `mimw.tlx`, for kernels that import the helpers by module. For example:

    get_bufidx_phase(5, 2)      (1, 0): slot 1 of a ring of 2 buffers, phase 0
"""

from ..language.tlx.warp_spec import get_bufidx_phase

__all__ = ["get_bufidx_phase"]
