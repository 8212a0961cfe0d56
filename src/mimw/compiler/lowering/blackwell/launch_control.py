"""Requests to take over clusters that have not started, and the fields of their answers (PTX ISA, clusterlaunchcontrol).

Input: a `clc_issue`, `clc_issue_all` or `clc_query`. Output: Triton's ops for one CTA; for a whole cluster, and for decoding, PTX:

    clc_issue_all %response %full        @on clusterlaunchcontrol.try_cancel.async...multicast::cluster::all.b128 [$1], [$2];
"""

from __future__ import annotations

from ....ir import Op
from ..asm import own_address, ptx, sync, thread_in_task, zero_or_one
from ..emitter import Emitter, emits

# Triton's own op sends the answer to one CTA where its programs are single CTAs. This one elects a thread as that does.
_REQUEST = """{{
.reg .pred on, leader;
elect.sync _|leader, 0xffffffff;
setp.lt.and.s32 on, $0, 32, leader;{condition}
@on clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.multicast::cluster::all.b128 [$1], [$2];
}}"""

# The ids of an answer that was a refusal are undefined, so they are asked for only where there are some.
_DECODE = """{
.reg .pred taken;
.reg .b128 answer;
mov.b128 answer, {$3, $4};
mov.b32 $0, -1;
mov.b32 $1, -1;
mov.b32 $2, -1;
clusterlaunchcontrol.query_cancel.is_canceled.pred.b128 taken, answer;
@taken clusterlaunchcontrol.query_cancel.get_first_ctaid::x.b32.b128 $0, answer;
@taken clusterlaunchcontrol.query_cancel.get_first_ctaid::y.b32.b128 $1, answer;
@taken clusterlaunchcontrol.query_cancel.get_first_ctaid::z.b32.b128 $2, answer;
}"""


@emits("clc_issue")
def clc_issue(emitter: Emitter, op: Op):
    emitter.builder.create_clc_try_cancel(emitter.of(op.response), emitter.of(op.barrier))


@emits("clc_issue_all")
def clc_issue_all(emitter: Emitter, op: Op):
    """The sync keeps the answer behind the task's earlier reads of the response."""
    operands = [thread_in_task(emitter), *(own_address(emitter, emitter.of(place)) for place in (op.response, op.barrier))]
    condition = ""
    if op.predicate is not None:
        condition = "\nsetp.ne.and.s32 on, $3, 0, on;"
        operands.append(zero_or_one(emitter, emitter.of(op.predicate)))
    sync(emitter)
    ptx(emitter, _REQUEST.format(condition=condition), ["r"] * len(operands), operands)


@emits("clc_query")
def clc_query(emitter: Emitter, op: Op):
    builder = emitter.builder
    answer, i64, i32 = builder.create_clc_load_result(emitter.of(op.response)), builder.get_int64_ty(), builder.get_int32_ty()
    high = builder.create_lshr(answer, builder.create_int_cast(builder.get_int64(64), answer.get_type(), False))
    halves = [builder.create_int_cast(half, i64, False) for half in (answer, high)]
    decoded = builder.create_threadwise_inline_asm(_DECODE, "=&r,=&r,=&r,l,l", halves, [i32] * 3, False)
    return [decoded.get_result(place) for place in range(3)]
