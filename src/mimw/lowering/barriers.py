"""Mbarriers, the hardware's numbered barriers, and fences."""

from __future__ import annotations

from collections.abc import Iterator

from ..ir import Block, Op
from ..target import Target
from .asm import flag, here, ptx, sync, thread_in_task
from .emitter import Emitter, emits


def predicate(emitter: Emitter, value):
    """The MLIR predicate of an optional IR one; none means always."""
    return emitter.builder.get_int1(True) if value is None else emitter.values[value]


@emits("alloc_barriers")
def alloc_barriers(emitter: Emitter, op: Op):
    count, arrive_count = op.args
    builder = emitter.builder
    barriers = emitter.allocate(emitter.types.barrier(count))
    for index in range(count):
        barrier = builder.create_memdesc_index(emitter.types.barrier(0), barriers, builder.get_int32(index))
        builder.create_mbarrier_init(barrier, arrive_count)
    if emitter.program.launch_facts.suspend_ns or any(map(_by_assembly, _outside_tasks(emitter.program.body))):
        sync(emitter)  # one thread makes them; Triton puts a sync before an arrival or a wait of its own, and sees none in assembly
    return barriers


def _by_assembly(op: Op) -> bool:
    """Whether the op uses a barrier in a way that Triton does not see."""
    return op.name == "barrier_bytes" or op.name == "barrier_arrive" and op.args[0].type.per_thread


def _outside_tasks(block: Block) -> Iterator[Op]:
    """The ops that the whole CTA runs: all tasks start behind a sync of theirs."""
    for op in block.ops:
        yield op
        if op.name != "warp_specialize":
            for inner in op.blocks:
                yield from _outside_tasks(inner)


@emits("barrier_index")
def barrier_index(emitter: Emitter, op: Op):
    barriers, index = emitter.operands(op)
    return emitter.builder.create_memdesc_index(emitter.types.barrier(0), barriers, index)


@emits("barrier_expect")
def barrier_expect(emitter: Emitter, op: Op):
    barrier, size, when = op.args
    emitter.builder.create_mbarrier_expect(emitter.values[barrier], size, predicate(emitter, when))


@emits("barrier_bytes")
def barrier_bytes(emitter: Emitter, op: Op):
    """By one thread. PTX ISA, mbarrier.expect_tx: no arrival, so the copies may also come first."""
    barrier, size = op.args
    ptx(emitter, "{\n.reg .pred first;\nsetp.eq.s32 first, $0, 0;\n"
        f"@first mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [$1], {size};\n}}", ["r", "r"],
        [thread_in_task(emitter), here(emitter, emitter.values[barrier])])


@emits("barrier_wait")
def barrier_wait(emitter: Emitter, op: Op):
    barrier, phase, when = op.args
    if emitter.program.launch_facts.suspend_ns:
        ptx(emitter, _WAIT.format(emitter.program.launch_facts.suspend_ns), ["r", "r", "r"],
            [here(emitter, emitter.values[barrier]), emitter.values[phase], flag(emitter, predicate(emitter, when))])
    else:
        emitter.builder.create_mbarrier_wait(emitter.values[barrier], emitter.values[phase], predicate(emitter, when), [])


# PTX ISA, mbarrier.try_wait: the last operand is how many nanoseconds the thread may sleep. Triton's own wait has none.
_WAIT = """{{
.reg .pred done, on;
setp.ne.s32 on, $2, 0;
@!on bra over;
again:
mbarrier.try_wait.parity.shared::cta.b64 done, [$0], $1, {};
@!done bra again;
over:
}}"""


@emits("barrier_arrive")
def barrier_arrive(emitter: Emitter, op: Op):
    barrier, count, when = op.args
    if barrier.type.per_thread:
        _arrive_per_thread(emitter, here(emitter, emitter.values[barrier]), count, when)
    else:
        emitter.builder.create_mbarrier_arrive(emitter.values[barrier], count, predicate(emitter, when))


def _arrive_per_thread(emitter: Emitter, barrier, count: int, when) -> None:
    """Every thread for itself, without a sync: what it read or wrote before is released by its own arrive."""
    arrive = "mbarrier.arrive.release.cta.shared::cta.b64 _, [$0]" + (f", {count};" if count > 1 else ";")
    if when is None:
        ptx(emitter, arrive, ["r"], [barrier])
    else:
        ptx(emitter, f"{{\n.reg .pred on;\nsetp.ne.s32 on, $1, 0;\n@on {arrive}\n}}", ["r", "r"],
            [barrier, flag(emitter, emitter.values[when])])


@emits("named_barrier_wait", "named_barrier_arrive")
def named_barrier(emitter: Emitter, op: Op):
    """After lane-divergent code the warp first comes together again. The form that is not `aligned` stays right if LLVM
    duplicates it."""
    number, threads = op.args
    kind = "sync" if op.name == "named_barrier_wait" else "arrive"
    ptx(emitter, f"bar.warp.sync 0xffffffff;\nbarrier.{kind} {number}, {threads};", [], [])


# Acquire and release at the scope, by every thread. PTX ISA, membar / fence; LLVM's AMDGPU guide, memory models of gfx942 (which
# gfx950 shares) and gfx12: write caches back as far as the scope's other readers need, wait, invalidate what may be stale.
_CDNA = "buffer_wbl2 {0}\ns_waitcnt vmcnt(0) lgkmcnt(0)\nbuffer_inv {0}"
_GFX12 = ("global_wb scope:{0}\ns_wait_storecnt 0x0\ns_wait_loadcnt 0x0\ns_wait_dscnt 0x0\n"
          "global_inv scope:{0}\ns_wait_loadcnt 0x0")


def _fence(target: Target, scope: str) -> str:
    """The instructions of a fence at scope "gpu" or "sys"."""
    if target.backend == "cuda":
        return f"fence.acq_rel.{scope};"
    if target.arch == "gfx1250":
        return _GFX12.format({"gpu": "SCOPE_DEV", "sys": "SCOPE_SYS"}[scope])
    return _CDNA.format({"gpu": "sc1", "sys": "sc0 sc1"}[scope])


@emits("fence")
def fence(emitter: Emitter, op: Op):
    (scope, ) = op.args
    if scope in ("async_shared", "handover"):
        emitter.builder.create_fence_async_shared(op.attrs.get("cluster", False))
        return
    proxies = "\nfence.proxy.async.global;" if op.attrs.get("proxy") else ""
    emitter.builder.create_threadwise_inline_asm(_fence(emitter.target, scope) + proxies, "~{memory}", [], [], False)
