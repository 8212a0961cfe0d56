"""Emissions that use what sm_100 brought: tensor memory and the products that add up there, cluster launch control, conversions
that round by random bits, reductions of a warp.

Input: an op. Output: Triton's ops, or assembly where Triton has none:

    tcgen05_mma %a %b %acc     ttng.tc_gen5_mma %a, %b, %acc, %use_acc, %predicate
    clc_issue                  ttng.clc_try_cancel
    warp_redux %x "max"        redux.sync.max.f32 $0, $1, 0xffffffff;
"""

from . import launch_control, mma, pairs, redux, rounding, scaled, scaled_pairs, tensor_memory  # noqa: F401
