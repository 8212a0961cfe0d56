"""Operations on mbarriers that PTX has and Triton's ops do not offer: bytes without an arrival, waits that sleep, arrivals of
threads.

Input: MLIR values of a barrier and its operands. Output: assembly:

    announce(emitter, barrier, 4096)        @first mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [$1], 4096;
"""

from __future__ import annotations

from ....ir import Op
from ..asm import own_address, ptx, thread_in_task, zero_or_one
from ..emitter import Emitter, emits
from ..predicates import predicate
from ..whole_task import in_all_threads


def announce(emitter: Emitter, barrier, size: int) -> None:
    """Announce bytes, by one thread. PTX ISA, mbarrier.expect_tx: no arrival, so the copies may also come first."""
    ptx(emitter, "{\n.reg .pred first;\nsetp.eq.s32 first, $0, 0;\n"
        f"@first mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [$1], {size};\n}}", ["r", "r"],
        [thread_in_task(emitter), own_address(emitter, barrier)])


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


def wait(emitter: Emitter, op: Op, suspend_ns: int) -> None:
    """A `barrier_wait` in which a thread may sleep `suspend_ns` nanoseconds before it looks again."""
    address = own_address(emitter, emitter.of(op.barrier))
    when = zero_or_one(emitter, predicate(emitter, op.predicate))
    ptx(emitter, _WAIT.format(suspend_ns), ["r", "r", "r"], [address, emitter.of(op.phase), when])


# PTX ISA, mbarrier.test_wait: it acquires where it is true.
_TEST = """{
.reg .pred done;
mbarrier.test_wait.parity.shared::cta.b64 done, [$1], $2;
selp.b32 $0, 1, 0, done;
}"""


@emits("barrier_test")
def test(emitter: Emitter, op: Op):
    """An i1: whether all threads of the task see the phase complete. One that looks later may see more, hence the reduction."""
    mine = thread_in_task(emitter)
    address = own_address(emitter, emitter.of(op.barrier))
    seen = ptx(emitter, _TEST, ["=r", "r", "r", "r"], [address, emitter.of(op.phase), mine], mine.get_type())
    return in_all_threads(emitter, seen)


def arrive_per_thread(emitter: Emitter, barrier, count: int, when) -> None:
    """Arrive with every thread by itself, without a sync: the arrival of a thread releases that thread's earlier reads and
    writes."""
    address = own_address(emitter, barrier)
    arrive = "mbarrier.arrive.release.cta.shared::cta.b64 _, [$0]" + (f", {count};" if count > 1 else ";")
    if when is None:
        ptx(emitter, arrive, ["r"], [address])
    else:
        ptx(emitter, f"{{\n.reg .pred on;\nsetp.ne.s32 on, $1, 0;\n@on {arrive}\n}}", ["r", "r"],
            [address, zero_or_one(emitter, when)])
