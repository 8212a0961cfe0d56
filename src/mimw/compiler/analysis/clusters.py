"""Use of the cluster by a kernel: whether any op reaches another CTA.

Input: a program. Output: True or False. For example, of a kernel with a `remote_arrive`:

    crosses_ctas(program)       True: the arrival is on another CTA's barrier
"""

from __future__ import annotations

from ...ir import Program


def crosses_ctas(program: Program) -> bool:
    """True if any CTA may touch another one."""
    return bool(program.where(lambda row: row.peers))


# The trait `clusters_only`: st.async, and cp.async.bulk between two CTAs' shared memory. Of all instructions for other CTAs these
# alone end in "illegal instruction" in a launch without clusters, also on the CTA's own memory; in clusters of one CTA they work
# (seen on an H200, CUDA C++ programs of one instruction each; the driver's documents do not say it).
def forms_clusters(program: Program) -> bool:
    """True if the kernel has to be launched in clusters, of one CTA if need be."""
    return bool(program.where(lambda row: "clusters_only" in row.traits))
