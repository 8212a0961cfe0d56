r"""Readers of assembly that copies consecutive bytes by the bulk copy engine, and of fences of global memory.

Input: `ttg.inline_asm` whose text is that of `lowering/hopper/bulk.py` or `lowering/nvidia/barriers.py`. Output: ours. For example:

    "{ .. @leader cp.async.bulk.global.shared::cta.bulk_group [$2], [from], $3; cp.async.bulk.commit_group; }"      bulk_store
    "fence.acq_rel.gpu;"                                                                                            fence gpu

A text that asks the cache for something does the same to memory.
"""

from __future__ import annotations

from ...ir.types import TOKEN
from .assembly import form
from .reading import Here

_HINT = r"(?:\.reg \.b64 hint; createpolicy\.fractional\.L2::\w+\.b64 hint, 1\.0; )?"
_HINTED = r"(?:\.L2::cache_hint)?"
_LAST = r"(?:, hint)?"


@form(r"\{ \.reg \.pred first; \.reg \.b32 me, to, bar; setp\.eq\.s32 first, \$0, 0; mov\.u32 me, %cluster_ctarank; "
      r"mapa\.shared::cluster\.u32 to, \$1, me; mapa\.shared::cluster\.u32 bar, \$3, me; "
      rf"{_HINT}@first cp\.async\.bulk\.shared::cluster\.global\.mbarrier::complete_tx::bytes{_HINTED} "
      rf"\[to\], \[\$4\], \$2, \[bar\]{_LAST}; \}}")
def loaded(here: Here, found):
    """Thread 0 has the first element of a tile of pointers, which says where the bytes begin."""
    _, buffer, size, barrier, pointer = here.operands
    return here.op("bulk_load", pointer, barrier, buffer, size, None, results=(here.value(TOKEN), ))


@form(r"\{ \.reg \.pred warp, leader; \.reg \.b32 me, from; mov\.u32 me, %cluster_ctarank; mapa\.shared::cluster\.u32 from, \$1, me; "
      r"setp\.lt\.s32 warp, \$0, 32; elect\.sync _\|leader, 0xffffffff; and\.pred leader, leader, warp; "
      rf"{_HINT}@leader cp\.async\.bulk\.global\.shared::cta\.bulk_group{_HINTED} \[\$2\], \[from\], \$3{_LAST}; "
      r"cp\.async\.bulk\.commit_group; \}")
def stored(here: Here, found):
    _, buffer, pointer, size = here.operands
    return here.op("bulk_store", pointer, buffer, size, None)


@form(r"fence\.acq_rel\.(gpu|sys);( fence\.proxy\.async\.global;)?")
def fenced(here: Here, found):
    return here.op("fence", found[1], **({"proxy": True} if found[2] else {}))
