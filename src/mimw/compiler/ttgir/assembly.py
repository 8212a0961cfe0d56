r"""Readers of native code that a whole task runs, by its text: what mimw's own lowering writes where TTGIR has no op.

Input: `ttg.inline_asm`. Output: the op of ours that the text does. For example:

    ttg.inline_asm "bar.warp.sync 0xffffffff;\0Abarrier.sync 8, 256;"         named_barrier_wait 8 256
    ttg.inline_asm "" {constraints = "=r,=r,0,1"} %tile                       its operand, which stays in its registers

A text without a meaning here is refused whole: what assembly does to memory cannot be guessed.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from ...ir import Barrier, Scalar, Tensor
from .reading import Here, Ops, reads

_FORMS: list[tuple[re.Pattern[str], Callable[[Here, re.Match[str]], Ops]]] = []


def form(pattern: str) -> Callable[[Callable[[Here, re.Match[str]], Ops]], Callable[[Here, re.Match[str]], Ops]]:
    """Register what a text does that matches the whole pattern; a blank there matches any white space."""

    def register(reader: Callable[[Here, re.Match[str]], Ops]) -> Callable[[Here, re.Match[str]], Ops]:
        _FORMS.append((re.compile(pattern.replace(" ", r"\s+")), reader))
        return reader

    return register


@reads("ttg.inline_asm", one_cta=True)
def assembly(here: Here):
    text = " ".join(here.string().replace("\\0A", "\n").replace("\\09", " ").split())
    for pattern, reader in _FORMS:
        if found := pattern.fullmatch(text):
            return reader(here, found)
    raise here.unreadable("this assembly has no meaning in the simulator")


@form(r"|s_nop 1 v_readfirstlane_b32 \$0, \$1")
def same(here: Here, found):
    """Values as they are, in the registers that the text names; of a number that all lanes have, one lane's."""
    for place, value in enumerate(here.operands[:len(here.node.results)]):
        here.stands_for(value, place)


@form(r"bar\.warp\.sync 0xffffffff; barrier\.(sync|arrive) (\d+), (\d+);")
def named_barrier(here: Here, found):
    name = "named_barrier_wait" if found[1] == "sync" else "named_barrier_arrive"
    return here.op(name, int(found[2]), int(found[3]))


@form(r"setmaxnreg\.(?:inc|dec)\.sync\.aligned\.u32 \d+;")
def registers(here: Here, found):
    """The number of registers changes no value."""


@form(r"wgmma\.wait_group\.sync\.aligned (\d+);")
def products_awaited(here: Here, found):
    return [here.op("async_dot_wait", int(found[1]), value, results=(result, ))
            for value, result in zip(here.operands, here.results, strict=True)]


@form(r"bar\.warp\.sync 0xffffffff; barrier\.cluster\.arrive\.release\.aligned; barrier\.cluster\.wait\.acquire\.aligned;")
def cluster(here: Here, found):
    return here.op("cluster_barrier")


@form(r"\{ \.reg \.pred first; setp\.eq\.s32 first, \$0, 0; @first fence\.mbarrier_init\.release\.cluster; \}")
def announced(here: Here, found):
    return here.op("fence_mbarrier_init")


@form(r"mov\.u32 \$0, %cluster_ctarank;")
def rank(here: Here, found):
    return here.op("cluster_cta_rank")


@form(r"s_waitcnt (?:vmcnt\(0\) )?lgkmcnt\(0\)|(?:s_wait_loadcnt 0x0 s_wait_storecnt 0x0 )?s_wait_dscnt 0x0")
def accesses_awaited(here: Here, found):
    """Accesses of a task are in order here."""


@form(r"mimw\.init")
def barrier_made(here: Here, found):
    """AMD's barriers, which are counters in shared memory, stand for themselves up to the last stage of mimw's lowering."""
    barrier, count = here.operands
    return here.op("barrier_init", barrier, int(here.known(count)))


@form(r"mimw\.arrive")
def barrier_arrived(here: Here, found):
    barrier, count, *_ = here.operands
    return here.op("barrier_arrive", barrier, int(here.known(count)))


@form(r"mimw\.each")
def barrier_arrived_by_waves(here: Here, found):
    """By each wave of the task, of so many arrivals."""
    barrier, count = here.operands
    return here.op("barrier_arrive", barrier, int(here.known(count)) * here.reader.task_warps)


@form(r"mimw\.wait")
def barrier_awaited(here: Here, found):
    return here.op("barrier_wait", *here.operands[:2])


@form(r"\{ \.reg \.pred on.* (?:cp\.async\.bulk\.)?prefetch\.[^;]*; \}")
def prefetched(here: Here, found):
    """A hint."""


@form(r"(?:prefetch\.global\.L[12] \[\$\d+\];\s*)+")
def prefetched_each(here: Here, found):
    """A hint."""


@form(r"\{ \.reg \.b32 any; \.reg \.pred yes; mov\.b32 any, \$1; setp\.ne\.s32 yes, any, 0; "
      r"vote\.sync\.ballot\.b32 \$0, yes, 0x([0-9a-f]+); \}")
def ballot(here: Here, found):
    """Of one number, which is 0 or 1."""
    if isinstance(here.operands[0].type, Tensor):
        raise here.unreadable("a ballot of the elements that each lane has")
    zero, none = here.number(0, here.operands[0].type)
    vote = here.value(Scalar("i1"))
    return [zero, here.op("icmpNE", here.operands[0], none, results=(vote, )), here.op("vote_ballot", int(found[1], 16), vote)]


@form(r"mov\.u64 \$0, %clock64;")
def clock(here: Here, found):
    return here.op("clock64", type=here.types[0])


@form(r"mov\.u32 \$0, %tid\.([xyz]);")
def thread(here: Here, found):
    return here.op("thread_id", "xyz".index(found[1]))


@form(r"\{ \.reg \.pred on, leader; \.reg \.b32 lane; setp\.lt\.u32 on, \$0, 32; @!on bra over; "
      r"elect\.sync lane\|leader, 0xffffffff; "
      r"@leader tcgen05\.commit\.cta_group::1\.mbarrier::arrive::one\.shared::cluster\.b64 \[\$1\]; over: \}")
def products_committed(here: Here, found):
    """By one thread of the first warp: its number among the task's threads is the first operand."""
    return here.op("tcgen05_commit", next(value for value in here.operands if isinstance(value.type, Barrier)))
