"""Emissions that use what sm_100 brought: cluster launch control.

Input: an op. Output: Triton's ops, or assembly where it has none:

    clc_issue        ttng.clc_try_cancel
"""

from . import launch_control  # noqa: F401
