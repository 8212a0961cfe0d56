"""Readers of mbarriers, fences, and barriers of threads and CTAs.

Input: ops of `ttng` on memory of mbarriers, `ttg.barrier`. Output: ours. For example:

    ttng.barrier_expect %full, 32768, %pred : ..         barrier_expect %full 32768 %pred
    ttng.wait_barrier %full, %phase deps %a : ..         barrier_wait %full %phase
"""

from __future__ import annotations

import re

from ...ir import Scalar
from .cta_ops import both, leads, masked_rank, meeting, ranks_beside, split_of, within
from .halves import border
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


def sharing(here: Here, barrier: int = 0) -> int:
    """The bits of a rank in which CTAs differ that share an mbarrier: it is that of the first of them."""
    return split_of(here, here.operand_texts[barrier]).same if here.reader.rank_bits else 0


def owner(here: Here, shared: int):
    """The rank of the CTA that has the mbarrier which this one shares."""
    return masked_rank(here, (1 << here.reader.rank_bits) - 1 & ~shared)


def _by_owner(here: Here, op):
    ops, first = leads(here, sharing(here))
    return op if first is None else [*ops, here.only_if(first, op)]


@reads("ttng.init_barrier")
def made(here: Here):
    """Each of the CTAs that share it arrives as often."""
    return _by_owner(here, here.op("barrier_init", here.operands[0], _count(here) << sharing(here).bit_count()))


@reads("ttng.inval_barrier")
def ended(here: Here):
    return _by_owner(here, here.op("barrier_invalidate", here.operands[0]))


@reads("ttng.barrier_expect")
def expected(here: Here):
    return _arrived(here, "barrier_expect", "remote_expect")


@reads("ttng.arrive_barrier")
def arrived(here: Here):
    return _arrived(here, "barrier_arrive", "remote_arrive")


def _arrived(here: Here, own: str, remote: str):
    """On a CTA's own mbarrier, or on the one that it shares. `fromCTA` has the bits of a rank that an arrival keeps: the first of
    the CTAs that differ in others only arrives for each of them."""
    barrier, count, shared, when = here.operands[0], _count(here), sharing(here), _numbers(here)[:1]
    if "multicast" in here.text.lower():
        raise here.unreadable("an arrival of each CTA in several has no meaning in the simulator")
    every = (1 << here.reader.rank_bits) - 1
    if alike := every & ~here.integer("fromCTA", every):
        ops, first = leads(here, alike)
        more, predicate = both(here, *(when or [None]), first)
        beside, targets = ranks_beside(here, within(alike))
        return [*ops, *more, *beside, *(here.op(remote, barrier, count, target, predicate) for target in targets)]
    if not shared:
        return here.op(own, barrier, count, *when)
    ops, rank = owner(here, shared)
    return [*ops, here.op(remote, barrier, count, rank, *when)]


@reads("ttng.wait_barrier", any_order=True)
def awaited(here: Here):
    """Behind phase and predicate stand the buffers that the wait is for: the compiler's, so that it keeps them. Of the CTAs that
    share an mbarrier the one that has it waits."""
    phase, *when = _numbers(here)[:2]
    ops, first = leads(here, sharing(here))
    more, predicate = both(here, *(when or [None]), first)
    return [*ops, *more, here.op("barrier_wait", here.operands[0], phase, predicate)]


@reads("ttng.async_copy_mbarrier_arrive", "amdg.async_copy_mbarrier_arrive", one_cta=True)
def arrived_by_copies(here: Here):
    """By each thread, for its own copies."""
    threads = here.reader.warp_size * here.reader.task_warps
    raises = here.name.startswith("ttng") and not here.flag("noIncrement")
    return here.op("copies_arrive", here.operands[0], threads, **({"raises": True} if raises else {}))


@reads("ttng.fence_async_shared")
def fenced(here: Here):
    return here.op("fence", "async_shared", **({"cluster": True} if here.word("bCluster") == "true" else {}))


@reads("ttg.barrier", "gpu.barrier")
def met(here: Here):
    return border(here) or here.op("barrier")


@reads("ttng.fence_mbarrier_init_release_cluster")
def announced(here: Here):
    return here.op("fence_mbarrier_init")


@reads("ttng.cluster_barrier")
def cluster(here: Here):
    """One that is relaxed, behind the fence of new mbarriers, is taken for one that releases all that was done before."""
    return meeting(here)
