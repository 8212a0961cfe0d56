r"""Readers of the assembly that mimw writes for other CTAs of a cluster, for all CTAs of a grid, and for copies of bytes.

Input: `ttg.inline_asm`. Output: one op of ours. For example:

    mapa.shared::cluster.u32 $0, $1, me;                                            its operand: an address of this CTA's own
    @on mbarrier.arrive.release.cluster.shared::cluster.b64 _, [there], 1;          remote_arrive %barrier 1 %rank
    @first cp.async.bulk.shared::cluster.shared::cta... [to], [from], 8192, [bar];  async_remote_copy %to %from %rank %bar

The operands are in the order in which mimw's lowering gives them: first each thread's number in its task, where one thread acts.
"""

from __future__ import annotations

import re

from ...ir import I32, Op, Scalar, Tensor, Value
from ...ir.types import TOKEN
from .assembly import form
from .element_registers import elements
from .reading import Here

_I1 = Scalar("i1")
_HINT = r"(?: \.reg \.b64 hint; createpolicy\.fractional\.L2::\w+\.b64 hint, 1\.0;)?"
_COPY = (r"@first cp\.async\.bulk\.shared::cluster\.shared::cta\.mbarrier::complete_tx::bytes \[to(?:\+\d+)?\], "
         r"\[from(?:\+\d+)?\], \d+, \[bar\];")


def when(here: Here, flag: Value) -> tuple[list[Op], Value]:
    """The ops that make a predicate of a number that is 0 or 1, and the predicate."""
    zero, none = here.number(0, flag.type)
    made = here.value(_I1)
    return [zero, here.op("icmpNE", flag, none, results=(made, ))], made


@form(r"\{ \.reg \.b32 me; mov\.u32 me, %cluster_ctarank; mapa\.shared::cluster\.u32 \$0, \$1, me; \}")
def own(here: Here, found):
    here.stands_for(here.operands[0])
    here.reader.texts[here.node.results[0][0]] = here.operand_texts[0]


@form(r"\{ \.reg \.pred on; \.reg \.b32 there; setp\.eq\.s32 on, \$0, 0;(?P<when> setp\.ne\.and\.s32 on, \$3, 0, on;)? "
      r"@on mapa\.shared::cluster\.u32 there, \$1, \$2; "
      r"@on mbarrier\.arrive\.release\.(?P<scope>cluster|cta)\.shared::cluster\.b64 _, \[there\], (?P<count>\d+); \}")
def arrived_there(here: Here, found):
    thread, barrier, rank, *flag = here.operands
    if not isinstance(thread.type, Tensor):
        raise here.unreadable("arrivals of each thread on another CTA's barrier are not read")
    ops, predicate = when(here, flag[0]) if flag else ([], None)
    scope = {"scope": "cta"} if found["scope"] == "cta" else {}
    return [*ops, here.op("remote_arrive", barrier, int(found["count"]), rank, predicate, **scope)]


@form(r"\{ \.reg \.pred first; \.reg \.b32 to, bar, me, from; setp\.eq\.s32 first, \$0, 0; mov\.u32 me, %cluster_ctarank; "
      r"mapa\.shared::cluster\.u32 from, \$2, me; mapa\.shared::cluster\.u32 to, \$1, \$3; "
      r"mapa\.shared::cluster\.u32 bar, \$4, \$3; "
      rf"(?P<copies>{_COPY}(?: {_COPY})*) \}}")
def copied_there(here: Here, found):
    """The stretches of a slice of a swizzled tile lie apart; together they are the slice."""
    _, buffer, source, rank, barrier = here.operands
    sizes = [int(one) for one in re.findall(r"\], (\d+), \[bar\]", found["copies"])]
    if sum(sizes) != source.type.tile_bytes or buffer.type.tile_bytes != source.type.tile_bytes:
        raise here.unreadable("a copy into another CTA of a part of a buffer is not read")
    return here.op("async_remote_copy", buffer, source, rank, barrier)


@form(r"\{ \.reg \.pred on; \.reg \.b32 to, bar;(?: setp\.lt\.u32 on, \$0, \d+;)? mad\.lo\.u32 to, \$0, \d+, \$1; "
      r"mapa\.shared::cluster\.u32 to, to, \$2;(?P<bar> mapa\.shared::cluster\.u32 bar, \$3, \$2;)?"
      r"(?P<stores>(?: (?:\.reg|prmt)[^;]*;)*(?: (?:@on )?(?:st\.shared::cluster|st\.async\.weak\.shared::cluster)[^;]*;"
      r"(?: (?:\.reg|prmt)[^;]*;)*)+) \}")
def stored_there(here: Here, found):
    """A flat tile into the same place of another CTA; of narrow elements each register holds one."""
    _, buffer, rank, *rest = here.operands
    ops, tile = elements(here, rest[-1], buffer.type.element)
    if found["bar"]:
        return [*ops, here.op("async_remote_store", buffer, tile, rank, rest[0])]
    return [*ops, here.op("remote_store", buffer, tile, rank)]


@form(r"\{ \.reg \.pred odd; \.reg \.b32 me, here; mov\.u32 me, %cluster_ctarank; mapa\.shared::cluster\.u32 here, \$1, me; "
      r"mbarrier\.test_wait\.parity\.shared::cta\.b64 odd, \[here\], 0; selp\.b32 \$0, 1, 0, odd; \}")
def parity(here: Here, found):
    return here.op("barrier_phase", here.operands[0])


@form(r"\{ \.reg \.pred on, done; \.reg \.b32 me, here, there, rank; \.reg \.b64 ranks; .* "
      r"setp\.lt\.u32 on, \$0, (?P<count>\d+); .* "
      r"mov\.b64 ranks, (?P<ranks>\d+); .* @on mbarrier\.arrive\.release\.cluster\.shared::cluster\.b64 _, \[there\]; "
      r"wait: mbarrier\.try_wait\.parity\.acquire\.cluster\.shared::cta\.b64 done, \[here\], \$2; @!done bra wait; away: \}")
def met_by_some(here: Here, found):
    ranks = tuple(int(found["ranks"]) >> 4 * place & 15 for place in range(int(found["count"])))
    return here.op("group_barrier", here.operands[1], ranks=ranks)


@form(r"\{ \.reg \.pred on, first; \.reg \.b32 low, high, x, y, z, all, old, now, mine; .* "
      r"atom\.add\.release\.gpu\.global\.u32 old, \[\w+\+4\], mine; again: ld\.acquire\.gpu\.global\.u32 now, \[\w+\+4\]; "
      r"xor\.b32 now, now, old; setp\.ge\.s32 on, now, 0; @on bra again; met: \}")
def met_by_all(here: Here, found):
    return here.op("grid_barrier")


@form(r"\{ \.reg \.pred first; \.reg \.b32 me, to, bar; setp\.eq\.s32 first, \$0, 0; mov\.u32 me, %cluster_ctarank; "
      r"mapa\.shared::cluster\.u32 to, \$1, me; mapa\.shared::cluster\.u32 bar, \$3, me;" + _HINT +
      r" @first cp\.async\.bulk\.shared::cluster\.global\.mbarrier::complete_tx::bytes(?:\.L2::cache_hint)? \[to\], \[\$4\], \$2, "
      r"\[bar\](?:, hint)?; \}")
def bytes_loaded(here: Here, found):
    _, buffer, size, barrier, pointer = here.operands
    return here.op("bulk_load", pointer, barrier, buffer, _size(here, size), results=(here.value(TOKEN), ))


@form(r"\{ \.reg \.pred warp, leader; \.reg \.b32 me, from; mov\.u32 me, %cluster_ctarank; "
      r"mapa\.shared::cluster\.u32 from, \$1, me; "
      r"setp\.lt\.s32 warp, \$0, 32; elect\.sync _\|leader, 0xffffffff; and\.pred leader, leader, warp;" + _HINT +
      r" @leader cp\.async\.bulk\.global\.shared::cta\.bulk_group(?:\.L2::cache_hint)? \[\$2\], \[from\], \$3(?:, hint)?; "
      r"cp\.async\.bulk\.commit_group; \}")
def bytes_stored(here: Here, found):
    _, buffer, pointer, size = here.operands
    return here.op("bulk_store", pointer, buffer, _size(here, size))


def _size(here: Here, value: Value) -> int | Value:
    known = here.known(value)
    return value if known is None else int(known)


@form(r"\{ \.reg \.pred done, on; setp\.ne\.s32 on, \$2, 0; @!on bra over; again: "
      r"mbarrier\.try_wait\.parity\.shared::cta\.b64 done, \[\$0\], \$1, \d+; @!done bra again; over: \}")
def waited_asleep(here: Here, found):
    barrier, phase, flag = here.operands
    ops, predicate = when(here, flag)
    return [*ops, here.op("barrier_wait", barrier, phase, predicate)]


@form(r"\{ \.reg \.pred done; mbarrier\.test_wait\.parity\.shared::cta\.b64 done, \[\$1\], \$2; selp\.b32 \$0, 1, 0, done; \}")
def looked_at(here: Here, found):
    """Each thread looks; the answers of all are one answer here, in each element of a tile."""
    barrier, phase, *_ = here.operands
    one, number = here.value(_I1), here.value(I32)
    return [here.op("barrier_test", barrier, phase, results=(one, )), here.op("int_cast", one, I32, False, results=(number, )),
            here.op("splat", here.types[0], number)]
