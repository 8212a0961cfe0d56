r"""Readers of assembly that arrives on mbarriers by each thread, and of fences of global memory.

Input: `ttg.inline_asm` whose text is that of `lowering/hopper/mbarrier.py` or `lowering/nvidia/barriers.py`. Output: ours:

    "mbarrier.arrive.release.cta.shared::cta.b64 _, [$0];"      barrier_arrive %barrier 128, in a task of 128 threads
    "fence.acq_rel.gpu;"                                        fence gpu
"""

from __future__ import annotations

from .assembly import form
from .assembly_cluster import when
from .reading import Here

_ARRIVE = r"mbarrier\.arrive\.release\.cta\.shared::cta\.b64 _, \[\$0\](?:, (\d+))?;"


@form(_ARRIVE)
def arrived(here: Here, found):
    return here.op("barrier_arrive", here.operands[0], _all_threads(here, found[1]))


@form(rf"\{{ \.reg \.pred on; setp\.ne\.s32 on, \$1, 0; @on {_ARRIVE} \}}")
def arrived_if(here: Here, found):
    barrier, flag = here.operands
    ops, predicate = when(here, flag)
    return [*ops, here.op("barrier_arrive", barrier, _all_threads(here, found[1]), predicate)]


@form(r"\{ \.reg \.pred first; setp\.eq\.s32 first, \$0, 0; "
      r"@first mbarrier\.expect_tx\.relaxed\.cta\.shared::cta\.b64 \[\$1\], (\d+); \}")
def announced(here: Here, found):
    """Bytes without an arrival."""
    return here.op("barrier_bytes", here.operands[1], int(found[1]))


@form(r"fence\.acq_rel\.(gpu|sys);( fence\.proxy\.async\.global;)?")
def fenced(here: Here, found):
    return here.op("fence", found[1], **({"proxy": True} if found[2] else {}))


def _all_threads(here: Here, count: str | None) -> int:
    """So many arrivals of each thread of the task."""
    reader = here.reader
    return int(count or 1) * reader.warp_size * reader.task_warps

