"""Waits for signals, and barriers among GPUs.

Input: a `signal_wait` or `world_barrier`. Output: PTX that one thread runs, or one for each peer, and barriers of the task's
threads:

    signal_wait %flag %value 'ge' 'acquire' 'sys'     ld.acquire.sys.global ...; setp.ge.s32 ...; in thread 0, or in all of
                                                      one warp; a sync
    world_barrier %world                              a sync; atom.cas.release.sys on each peer's pad, .acquire on its own

A thread that acquires for the others, and a sync behind it, order what the others do: barriers within the CTA are links of
causality order (PTX ISA, "Causality order"). So do a sync and one thread that releases.
"""

from __future__ import annotations

from ....ir import Op
from ..asm import ptx, sync, thread_in_task
from ..emitter import Emitter, emits
from ..words.world import stride_of
from .cta_number import cta_number

MOST = 32       # ranks of a barrier: a thread for each, in one warp

_WAIT = """{{
.reg .pred on, met;
.reg .b{bits} now;
setp.ne.u32 on, $0, 0;
@on bra past;
again:
ld.{order}.{scope}.global.b{bits} now, [$1];
setp.{compare}.{type} met, now, $2;
@!met bra again;
past:
}}"""

# By all lanes of a task that is one warp: they read one word, and go on together. A loop of one lane is to the assembler a place
# behind which the warp may be apart, in every role of the kernel: it gave up uniform registers, and consumers spilled.
_WAIT_TOGETHER = """{{
.reg .pred met;
.reg .b{bits} now;
again:
ld.{order}.{scope}.global.b{bits} now, [$0];
setp.{compare}.{type} met, now, $1;
vote.sync.all.pred met, met, -1;
@!met bra.uni again;
}}"""

# The pads lie at the start of each heap, a word for each program and sender: 1 from when the sender has put it until who waits
# takes it. So a word is ready for the next barrier as soon as both have gone on, and for one of other ranks as well.
# All lanes of the task's warps go through the loops together, by votes, for the same reason; who has no peer asks for nothing.
_MEET = """{{
.reg .pred on, todo, more;
.reg .b32 me, peer, size, program, old, slot, off;
.reg .b64 wide, here, there, at, most;
.reg .b32 x, y, z, nx, ny;
ld.global.b64 wide, [$1];
cvt.u32.u64 me, wide;
ld.global.b64 wide, [$1+8];
cvt.u32.u64 size, wide;
{members}
{number}
ld.global.b64 most, [$1+16];
cvt.u64.u32 wide, program;
setp.ge.u64 more, wide, most;
@more trap;
mul.lo.u32 slot, program, size;
mad.wide.u32 at, me, 8, $1;
ld.global.b64 here, [at+24];
mad.wide.u32 at, peer, 8, $1;
@on ld.global.b64 there, [at+24];
add.u32 off, slot, me;
mad.wide.u32 there, off, 4, there;
add.u32 off, slot, peer;
mad.wide.u32 here, off, 4, here;
mov.pred todo, on;
put:
@todo atom.cas.release.sys.global.b32 old, [there], 0, 1;
@todo setp.ne.u32 todo, old, 0;
vote.sync.any.pred more, todo, -1;
@more bra.uni put;
mov.pred todo, on;
take:
@todo atom.cas.acquire.sys.global.b32 old, [here], 1, 0;
@todo setp.ne.u32 todo, old, 1;
vote.sync.any.pred more, todo, -1;
@more bra.uni take;
}}"""

_ALL = """mov.u32 peer, $0;
setp.lt.u32 on, peer, size;"""

# Ranks first, first + step, ...: thread number n is for number n of them; who is none of them has nothing to do.
_SOME = """setp.lt.u32 on, $0, {count};
mad.lo.u32 peer, $0, {step}, {first};
setp.ge.and.u32 more, peer, size, on;
@more trap;
sub.u32 off, me, {first};
rem.u32 old, off, {step};
setp.eq.and.u32 on, old, 0, on;
div.u32 old, off, {step};
setp.lt.and.u32 on, old, {count}, on;"""


def _listed(ranks: tuple[int, ...]) -> str:
    """Thread number n is for number n of `ranks`, of which no stride says which they are."""
    first, *others = ranks
    peers = "\n".join(f"setp.eq.u32 more, $0, {number};\n@more mov.u32 peer, {rank};" for number, rank in enumerate(others, 1))
    own = "\n".join(f"setp.eq.or.u32 more, me, {rank}, more;" for rank in others)
    return "\n".join([f"setp.lt.u32 on, $0, {len(ranks)};\nmov.u32 peer, {first};", peers, "setp.ge.and.u32 more, peer, size, on;",
                      f"@more trap;\nsetp.eq.u32 more, me, {first};", own, "and.pred on, on, more;"])


@emits("signal_wait", assembly="ptx")
def signal_wait(emitter: Emitter, op: Op):
    type_ = op.value.type
    unsigned = op.compare.startswith("u")
    together = emitter.num_warps == 1
    assembly = (_WAIT_TOGETHER if together else _WAIT).format(
        bits=type_.bits, order=op.sem, scope=op.scope, compare=op.compare.removeprefix("u"),
        type=f"{'u' if unsigned else 's'}{type_.bits}")
    constraints, operands = ["l", "l" if type_.bits == 64 else "r"], [emitter.of(op.pointer), emitter.of(op.value)]
    if not together:
        constraints, operands = ["r", *constraints], [thread_in_task(emitter), *operands]
    ptx(emitter, assembly, constraints, operands)
    sync(emitter)


@emits("world_barrier", assembly="ptx")
def world_barrier(emitter: Emitter, op: Op):
    part = None if op.gpus is None else stride_of(op)
    members = _ALL if op.gpus is None else _SOME.format(**part) if part else _listed(tuple(sorted(op.gpus)))
    sync(emitter)
    assembly = _MEET.format(members=members, number=cta_number("program"))
    ptx(emitter, assembly, ["r", "l"], [thread_in_task(emitter), emitter.of(op.world)])
    sync(emitter)
