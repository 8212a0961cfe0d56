"""Readers of mbarriers, fences, and barriers of threads and CTAs.

Input: ops of `ttng` on memory of mbarriers, `ttg.barrier`. Output: ours. For example:

    ttng.barrier_expect %full, 32768, %pred : ..         barrier_expect %full 32768 %pred
    ttng.wait_barrier %full, %phase deps %a : ..         barrier_wait %full %phase
"""

from __future__ import annotations

import re

from ...ir import Scalar
from .reading import Here, reads


def _count(here: Here) -> int:
    """The number that stands among the operands of an op: `ttng.init_barrier %b, 1`."""
    found = re.search(r"[\w\])], (\d+)(?=[ ,:]|$)", here.text)
    if found is None:
        raise here.unreadable(f"{here.name} without its number")
    return int(found[1])


def _numbers(here: Here) -> list:
    """The operands that are numbers: phases and predicates."""
    return [value for value in here.operands if isinstance(value.type, Scalar)]


@reads("ttng.init_barrier")
def made(here: Here):
    return here.op("barrier_init", here.operands[0], _count(here))


@reads("ttng.inval_barrier")
def ended(here: Here):
    return here.op("barrier_invalidate", here.operands[0])


@reads("ttng.barrier_expect")
def expected(here: Here):
    return here.op("barrier_expect", here.operands[0], _count(here), *_numbers(here)[:1])


@reads("ttng.wait_barrier")
def awaited(here: Here):
    """Behind phase and predicate stand the buffers that the wait is for: the compiler's, so that it keeps them."""
    return here.op("barrier_wait", here.operands[0], *_numbers(here)[:2])


@reads("ttng.arrive_barrier")
def arrived(here: Here):
    return here.op("barrier_arrive", here.operands[0], _count(here), *_numbers(here)[:1])


@reads("ttng.fence_async_shared")
def fenced(here: Here):
    return here.op("fence", "async_shared", **({"cluster": True} if here.word("bCluster") == "true" else {}))


@reads("ttg.barrier", "gpu.barrier")
def met(here: Here):
    return here.op("barrier")


@reads("ttng.fence_mbarrier_init_release_cluster")
def announced(here: Here):
    return here.op("fence_mbarrier_init")


@reads("ttng.cluster_barrier")
def cluster(here: Here):
    return here.op("cluster_barrier")
