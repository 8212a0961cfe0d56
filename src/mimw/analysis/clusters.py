"""What a kernel does with the cluster it runs in."""

from __future__ import annotations

from ..ir import OPS, Program

CROSS_CTA = tuple(name for name, row in OPS.items() if row.peers)  # ops that touch another CTA's barriers or shared memory


def crosses_ctas(program: Program) -> bool:
    """True if any CTA may touch another one."""
    return any(op.name in CROSS_CTA for op in program.walk())



# st.async, and cp.async.bulk between two CTAs' shared memory. Of all instructions for other CTAs these alone end in "illegal
# instruction" in a launch without clusters, also on the CTA's own memory; in clusters of one CTA they work (seen on an H200, CUDA
# C++ programs of one instruction each; the driver's documents do not say it).
_IN_CLUSTERS_ONLY = ("async_remote_store", "async_remote_copy")


def forms_clusters(program: Program) -> bool:
    """True if the kernel has to be launched in clusters, of one CTA if need be."""
    return any(op.name in _IN_CLUSTERS_ONLY for op in program.walk())
