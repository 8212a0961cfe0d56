r"""Readers of assembly on mbarriers: arrivals of each thread, waits in which threads sleep.

Input: `ttg.inline_asm` whose text is that of `lowering/hopper/mbarrier.py`. Output: ours. For example:

    "mbarrier.arrive.release.cta.shared::cta.b64 _, [$0];"      barrier_arrive %barrier 128, in a task of 128 threads

In a cluster an operand is first made an address of this CTA, which is the same barrier or buffer.
"""

from __future__ import annotations

from ...ir import I1, Op, Value, like
from .assembly import form
from .reading import Here

_ARRIVE = r"mbarrier\.arrive\.release\.cta\.shared::cta\.b64 _, \[\$0\](?:, (\d+))?;"


@form(r"\{ \.reg \.b32 me; mov\.u32 me, %cluster_ctarank; mapa\.shared::cluster\.u32 \$0, \$1, me; \}")
def own(here: Here, found):
    here.stands_for(here.operands[0])
    here.reader.texts[here.node.results[0][0]] = here.operand_texts[0]


@form(_ARRIVE)
def arrived(here: Here, found):
    return here.op("barrier_arrive", here.operands[0], _all_threads(here, found[1]))


@form(rf"\{{ \.reg \.pred on; setp\.ne\.s32 on, \$1, 0; @on {_ARRIVE} \}}")
def arrived_if(here: Here, found):
    barrier, flag = here.operands
    ops, predicate = _true(here, flag)
    return [*ops, here.op("barrier_arrive", barrier, _all_threads(here, found[1]), predicate)]


@form(r"\{ \.reg \.pred done, on; setp\.ne\.s32 on, \$2, 0; @!on bra over; again: mbarrier\.try_wait\.parity\.shared::cta\.b64 done, "
      r"\[\$0\], \$1, \d+; @!done bra again; over: \}")
def awaited(here: Here, found):
    barrier, phase, flag = here.operands
    ops, predicate = _true(here, flag)
    return [*ops, here.op("barrier_wait", barrier, phase, predicate)]


def _all_threads(here: Here, count: str | None) -> int:
    """So many arrivals of each thread of the task."""
    reader = here.reader
    return int(count or 1) * reader.warp_size * reader.notes.get("task_warps", reader.notes["num_warps"])


def _true(here: Here, flag: Value) -> tuple[list[Op], Value]:
    """Whether a number is not 0."""
    zero, nothing = here.number(0, flag.type)
    truth = here.value(like(flag.type, I1))
    return [zero, here.op("icmpNE", flag, nothing, results=(truth, ))], truth
