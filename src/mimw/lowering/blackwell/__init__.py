"""Emissions that use what sm_100 brought: cluster launch control, conversions that round by random bits, reductions of a warp.

Input: an op. Output: Triton's ops, or assembly where it has none:

    clc_issue                  ttng.clc_try_cancel
    warp_redux %x "max"        redux.sync.max.f32 $0, $1, 0xffffffff;
"""

from . import launch_control, redux, rounding  # noqa: F401
