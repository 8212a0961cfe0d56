"""A task that accessed shared memory by ordinary instructions fences before others may let a copy overwrite that memory.

Input: a program. Output: the program with a fence before each op that lets others go on, where one is needed:

    x = local_load(slot)                                  x = local_load(slot)
    barrier_arrive(free)         becomes                  fence("handover")
                                                          barrier_arrive(free)

`slot` is filled by TMA, in the asynchronous proxy, and read in the generic one. PTX promises an order between accesses
of two proxies only where a proxy fence stands between, also for a write after a read (PTX ISA, "Async proxy"; its
example of clusterlaunchcontrol.try_cancel fences a generic read before the next asynchronous write of the same bytes).
Without the fence a copy engine has been seen to overwrite bytes whose read was issued and not yet done. Where one task
does both, Triton puts the fence in; from one task to another nothing does. Authors of TLX kernels do not write it, so
the compiler does: docs/MEMORY_MODEL.md, rule 20.

A fence stands before such an op if its task may since its last fence have touched memory that some copy writes. None is
put in for memory that no copy writes, nor for what wgmma reads, nor behind the last copy of the kernel. The walk is `fencing`'s.
"""

from __future__ import annotations

from ...ir import Op, Program
from .fencing import NONE, Fencer, Touched, releases

_TOUCHED = ("read", "write", "peer-read", "peer-write")


def fence_handovers(program: Program) -> Program:
    """The program with such fences; the same object if no copy writes shared memory that is also touched otherwise."""
    fencer = _Handovers(program)
    return fencer.kernel() if fencer.copied else program


class _Handovers(Fencer):
    """`copied` are the allocations that copies write, and that are touched otherwise, too."""

    SCOPE, SCOPES = "handover", ("async_shared", "handover", "delivery")

    def __init__(self, program: Program):
        super().__init__(program)
        writing = program.where(lambda row: any(how == "async-write" for _, how in row.touches))
        touching = program.where(lambda row: any(how in _TOUCHED for _, how in row.touches))
        self.copied = frozenset(root for op in writing for root in self.buffers(op, "async-write"))
        self.copied &= frozenset(root for op in touching for how in _TOUCHED for root in self.buffers(op, how))

    def touches(self, op: Op) -> Touched:
        if not op.row.touches:
            return NONE
        return frozenset((root, kind.startswith("peer")) for kind in _TOUCHED for root in self.buffers(op, kind) & self.copied)

    def needs_fence(self, op: Op, touched: Touched) -> bool:
        return releases(op) or not self.buffers(op, "async-write").isdisjoint(root for root, _ in touched)

    def is_over(self, op: Op) -> bool:
        """True for a copy that writes a buffer: behind the last one nothing is overwritten any more."""
        return bool(self.buffers(op, "async-write"))
