"""Waits for signals, and barriers among GPUs, on AMD's chips.

Input: a `signal_wait` or `world_barrier`. Output: assembly that every wave runs, and barriers of the task's threads; on gfx9:

    signal_wait %flag %value 'ge' 'acquire' 'sys'     global_load_dword .. sc0 sc1; v_cmp_ge_i32 ..; buffer_inv sc0 sc1
    world_barrier %world                              buffer_wbl2 sc0 sc1; a sync; global_atomic_cmpswap .. sc0 sc1 by a lane for
                                                      each peer: its pad from 0 to 1, the own from 1 to 0; buffer_inv sc0 sc1

Source: LLVM's AMDGPU guide, memory models of gfx942, which gfx950 shares, and of gfx12: a release writes caches back as far as the
scope says and waits, an acquire invalidates. Each wave of a task looks for itself, so each has acquired. Nothing of this has run on
a chip; LLVM's assembler takes it.
"""

from __future__ import annotations

from dataclasses import dataclass

from ....errors import NotYet
from ....ir import I1, I32, I64, Op, Tensor
from ....ir.layouts import Blocked
from ..asm import sync, thread_in_task
from ..emitter import Emitter, emits
from ..words.world import BASES, CAPACITY, RANK, SIZE, Table, stride_of
from .barriers import SETTLED, WRITE_BACK


@dataclass(frozen=True)
class _Isa:
    """The assembly of one family. `wait`: the lanes of a wave read one word, and go on as soon as one of them has seen what is
    awaited. `meet`: $1 is whether this thread has a peer; $2, $3 are the pads of that peer and of this rank; lanes leave a loop as
    they are done, and all get what `taken` names. `scopes` spells the scopes of a memory instruction."""

    scopes: dict[str, str]
    wait: str
    wide: dict[int, str]
    acquire: str
    release: str
    meet: str
    taken: str
    trap: str


_GFX9 = _Isa(
    scopes={"gpu": "sc1", "sys": "sc0 sc1"},
    wait="""1:
s_sleep 1
global_load_{width} $0, $1, off {scope}
s_waitcnt vmcnt(0)
v_cmp_{compare}_{type} vcc, $0, $2
s_cbranch_vccz 1b""",
    wide={32: "dword", 64: "dwordx2"},
    acquire="buffer_inv {scope}",
    release="buffer_wbl2 sc0 sc1\ns_waitcnt vmcnt(0) lgkmcnt(0)",
    meet="""v_mov_b32 $0, 0
s_mov_b64 s[20:21], exec
v_cmp_ne_u32 vcc, 0, $1
s_and_b64 s[22:23], exec, vcc
s_mov_b64 exec, s[22:23]
v_mov_b32 v2, 1
v_mov_b32 v3, 0
1:
s_cbranch_execz 2f
global_atomic_cmpswap $0, $2, v[2:3], off sc0 sc1
s_waitcnt vmcnt(0)
v_cmp_ne_u32 vcc, 0, $0
s_and_b64 exec, exec, vcc
s_branch 1b
2:
s_mov_b64 exec, s[22:23]
v_mov_b32 v2, 0
v_mov_b32 v3, 1
3:
s_cbranch_execz 4f
global_atomic_cmpswap $0, $3, v[2:3], off sc0 sc1
s_waitcnt vmcnt(0)
v_cmp_ne_u32 vcc, 1, $0
s_and_b64 exec, exec, vcc
s_branch 3b
4:
s_mov_b64 exec, s[20:21]""",
    taken="~{vcc},~{scc},~{v2},~{v3},~{s20},~{s21},~{s22},~{s23}",
    trap="""v_cmp_ne_u32 vcc, 0, $0
s_cbranch_vccz 1f
s_trap 2
1:""")

# A wave has 32 lanes.
_GFX12 = _Isa(
    scopes={"gpu": "scope:SCOPE_DEV", "sys": "scope:SCOPE_SYS"},
    wait=f"""{SETTLED}
1:
s_sleep 1
global_load_{{width}} $0, $1, off {{scope}}
s_wait_loadcnt 0x0
v_cmp_{{compare}}_{{type}} vcc_lo, $0, $2
s_cbranch_vccz 1b""",
    wide={32: "b32", 64: "b64"},
    acquire="global_inv {scope}\ns_wait_loadcnt 0x0",
    release=WRITE_BACK.format("SCOPE_SYS"),
    meet=f"""v_mov_b32 $0, 0
s_mov_b32 s20, exec_lo
v_cmp_ne_u32 vcc_lo, 0, $1
s_and_b32 s22, exec_lo, vcc_lo
s_mov_b32 exec_lo, s22
v_mov_b32 v2, 1
v_mov_b32 v3, 0
{SETTLED}
1:
s_cbranch_execz 2f
global_atomic_cmpswap_b32 $0, $2, v[2:3], off th:TH_ATOMIC_RETURN scope:SCOPE_SYS
s_wait_loadcnt 0x0
v_cmp_ne_u32 vcc_lo, 0, $0
s_and_b32 exec_lo, exec_lo, vcc_lo
s_branch 1b
2:
s_mov_b32 exec_lo, s22
{SETTLED}
v_mov_b32 v2, 0
v_mov_b32 v3, 1
{SETTLED}
3:
s_cbranch_execz 4f
global_atomic_cmpswap_b32 $0, $3, v[2:3], off th:TH_ATOMIC_RETURN scope:SCOPE_SYS
s_wait_loadcnt 0x0
v_cmp_ne_u32 vcc_lo, 1, $0
s_and_b32 exec_lo, exec_lo, vcc_lo
s_branch 3b
4:
s_mov_b32 exec_lo, s20
{SETTLED}""",
    taken="~{vcc},~{scc},~{v2},~{v3},~{s20},~{s22}",
    trap="""v_cmp_ne_u32 vcc_lo, 0, $0
s_cbranch_vccz 1f
s_trap 2
1:""")
_ISAS = {"gfx9": _GFX9, "gfx12": _GFX12}


@emits("signal_wait", assembly="gfx9")
@emits("signal_wait", assembly="gfx12")
def signal_wait(emitter: Emitter, op: Op):
    isa, type_, unsigned = _ISAS[emitter.target.assembly], op.value.type, op.compare.startswith("u")
    scope = isa.scopes[op.scope]
    assembly = isa.wait.format(width=isa.wide[type_.bits], scope=scope, compare=op.compare.removeprefix("u"),
                               type=f"{'u' if unsigned else 'i'}{type_.bits}")
    if op.sem == "acquire":
        assembly += "\n" + isa.acquire.format(scope=scope)
    result = emitter.builder.get_int64_ty() if type_.bits == 64 else emitter.builder.get_int32_ty()
    _asm(emitter, assembly, "=&v,v,v,~{vcc}", [emitter.of(op.pointer), emitter.of(op.value)], [result])
    sync(emitter)


@emits("world_barrier", assembly="gfx9")
@emits("world_barrier", assembly="gfx12")
def world_barrier(emitter: Emitter, op: Op):
    isa, builder, table = _ISAS[emitter.target.assembly], emitter.builder, Table(emitter, emitter.of(op.world))
    layout = Blocked((1, ), (emitter.target.warp_size, ), (emitter.num_warps, ), (0, ))
    if op.gpus is not None and len(op.gpus) > emitter.threads:
        raise NotYet(f"not yet: a barrier of {len(op.gpus)} ranks in a task of {emitter.threads} threads", op.site)

    def tile(element):
        return emitter.types.tensor(Tensor(element, (emitter.threads, )), layout)

    def all_of(element, scalar):
        return builder.create_splat(tile(element), scalar)

    me, size, number = table.narrow(RANK), table.narrow(SIZE), thread_in_task(emitter)
    peer, mine = number, builder.create_icmpSLT(number, all_of(I32, size))
    if op.gpus is not None:
        part = stride_of(op)
        if part is not None:
            first, step = (builder.get_int32(part[name]) for name in ("first", "step"))
            peer = builder.create_add(builder.create_mul(number, all_of(I32, step)), all_of(I32, first))
            is_member = _is_member(builder, me, part)
        else:
            peer, is_member = _listed(builder, number, me, tuple(sorted(op.gpus)), all_of)
        mine = builder.create_icmpSLT(number, all_of(I32, builder.get_int32(len(op.gpus))))
        mine = builder.create_and(mine, all_of(I1, is_member))
    program = builder.get_int32(0)
    for axis in (2, 1, 0):
        program = builder.create_add(builder.create_mul(program, builder.create_get_num_programs(axis)),
                                     builder.create_get_program_id(axis))
    beyond = builder.create_icmpSGE(program, builder.create_int_cast(table.wide(CAPACITY), builder.get_int32_ty(), True))
    slot = builder.create_mul(program, size)
    there = builder.create_masked_load(
        builder.create_addptr(builder.create_splat(emitter.types.tensor(Tensor(op.world.type, (emitter.threads, )), layout),
                                                   emitter.of(op.world)),
                              builder.create_add(peer, all_of(I32, builder.get_int32(BASES)))),
        mine, all_of(I64, builder.get_int64(0)), table.plain, False)
    words = builder.create_add(all_of(I32, slot), all_of(I32, me)), builder.create_add(all_of(I32, slot), peer)
    put, take = (builder.create_add(base, builder.create_mul(builder.create_int_cast(word, tile(I64), True),
                                                             all_of(I64, builder.get_int64(4))))
                 for base, word in ((there, words[0]), (all_of(I64, table.wide(BASES, behind=me)), words[1])))
    _asm(emitter, isa.release, "", [])
    sync(emitter)
    _asm(emitter, isa.trap, "v,~{vcc}", [builder.create_int_cast(beyond, builder.get_int32_ty(), False)])
    flags = builder.create_int_cast(mine, tile(I32), False)
    _asm(emitter, f"{isa.release}\n{isa.meet}", f"=&v,v,v,v,{isa.taken}", [flags, put, take], [tile(I32)])
    sync(emitter)
    _asm(emitter, isa.acquire.format(scope=isa.scopes["sys"]), "", [])


def _listed(builder, number, me, ranks: tuple[int, ...], all_of):
    """The peer of each thread, number n of `ranks` for thread n, and whether this rank is one of them."""
    peer, is_member = all_of(I32, builder.get_int32(ranks[0])), builder.create_icmpEQ(me, builder.get_int32(ranks[0]))
    for at, rank in enumerate(ranks[1:], 1):
        is_it = builder.create_icmpEQ(number, all_of(I32, builder.get_int32(at)))
        peer = builder.create_select(is_it, all_of(I32, builder.get_int32(rank)), peer)
        is_member = builder.create_or(is_member, builder.create_icmpEQ(me, builder.get_int32(rank)))
    return peer, is_member


def _is_member(builder, me, part: dict[str, int]):
    """An i1 that is true if this rank is one of first, first + step, .. ."""
    off = builder.create_sub(me, builder.get_int32(part["first"]))
    step = builder.get_int32(part["step"])
    inside = builder.create_icmpSLT(off, builder.get_int32(part["step"] * part["count"]))
    fits = builder.create_icmpEQ(builder.create_srem(off, step), builder.get_int32(0))
    return builder.create_and(builder.create_and(inside, builder.create_icmpSGE(off, builder.get_int32(0))), fits)


def _asm(emitter: Emitter, assembly: str, constraints: str, operands: list, results: list = ()) -> None:
    constraints = ",".join(filter(None, (constraints, "~{memory}")))
    emitter.builder.create_threadwise_inline_asm(assembly, constraints, operands, list(results), False)
