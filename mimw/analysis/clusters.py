"""What a kernel does with the cluster it runs in."""

from __future__ import annotations

from ..ir import Program

# Ops that touch another CTA's barriers or shared memory.
CROSS_CTA = ("remote_view", "remote_arrive", "remote_store", "async_remote_store", "async_remote_copy", "tma_load_multicast",
             "group_barrier", "remote_load", "remote_scatter", "remote_rmw", "remote_cas")


def crosses_ctas(program: Program) -> bool:
    """True if any CTA may touch another one."""
    return any(op.name in CROSS_CTA for op in program.walk())

