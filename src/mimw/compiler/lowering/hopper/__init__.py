"""Emissions that use what sm_90 brought: wgmma, the TMA and bulk copy engines, clusters. Later chips kept all but wgmma.

Input: an op. Output: assembly in Triton's IR, or Triton's op for wgmma:

    cluster_cta_rank        mov.u32 $0, %cluster_ctarank;
"""

from . import bulk, cluster, group_barriers, mma, multicast, prefetch, remote, remote_elements  # noqa: F401
