"""`mimw.tlx.warp_spec`: helpers of warp-specialised kernels."""

from ..language.tlx.warp_spec import get_bufidx_phase

__all__ = ["get_bufidx_phase"]
