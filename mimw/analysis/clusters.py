"""What a kernel does with the cluster it runs in."""

from __future__ import annotations

from ..ir import OPS, Program

CROSS_CTA = tuple(name for name, row in OPS.items() if row.peers)  # ops that touch another CTA's barriers or shared memory


def crosses_ctas(program: Program) -> bool:
    """True if any CTA may touch another one."""
    return any(op.name in CROSS_CTA for op in program.walk())

