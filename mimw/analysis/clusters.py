"""What a kernel does with the cluster it runs in."""

from __future__ import annotations

from ..ir import OPS, Program

CROSS_CTA = tuple(name for name, row in OPS.items() if row.peers)  # ops that touch another CTA's barriers or shared memory


def crosses_ctas(program: Program) -> bool:
    """True if any CTA may touch another one."""
    return any(op.name in CROSS_CTA for op in program.walk())



def forms_clusters(program: Program) -> bool:
    """True if the kernel has to be launched in clusters, of one CTA if need be: the instructions of these ops are illegal in a
    launch without clusters (seen on an H200: "illegal instruction", also for a CTA's own shared memory), and legal in clusters
    of one CTA."""
    return any(op.name in CROSS_CTA or OPS[op.name].blocks == "cluster" or op.name == "fence_mbarrier_init" for op in program.walk())
