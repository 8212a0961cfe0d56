"""Time stamps of a task: one thread writes (clock, event) records into the profiling workspace of its CTA.

Triton gives every kernel a last parameter for such a workspace, and its launcher allocates it, as many bytes a CTA as the
kernel's metadata say. A kernel that wants none has the parameter, too, so nothing of the launch changes.

Input: ops of `passes/stamp_time.py`. Output: PTX of the task's first thread:

    time_stamp %base %count {event: 3}        mov.u64 now, %clock64;  @on st.global.v2.b64 [to], {now, what};
"""

from __future__ import annotations

from ....ir import Op
from ..asm import ptx, thread_in_task
from ..emitter import Emitter, emits
from .cta_number import cta_number

RECORD_BYTES = 16
BEGIN, END = 0, 1


@emits("time_base")
def time_base(emitter: Emitter, op: Op):
    """The address of the lane's records in the task's first thread, 0 in all others and in CTAs that are left out."""
    attrs = op.attrs
    lane_bytes = RECORD_BYTES * attrs["capacity"]
    cta_bytes = lane_bytes * attrs["lanes"]
    parameter = f"{emitter.program.name}_param_{len(emitter.program.params) + 1}"
    assembly = f"""{{
.reg .pred on, more;
.reg .b32 x, y, z, nx, ny, cta, kept, over;
.reg .b64 base;
{cta_number("cta")}
div.u32 kept, cta, {attrs["every"]};
mul.lo.u32 over, kept, {attrs["every"]};
setp.eq.u32 more, over, cta;
setp.eq.and.u32 on, $1, 0, more;
ld.param.u64 base, [{parameter}];
mad.wide.u32 base, kept, {cta_bytes}, base;
add.u64 base, base, {lane_bytes * attrs["lane"]};
selp.b64 $0, base, 0, on;
}}"""
    return ptx(emitter, assembly, ["=l", "r"], [thread_in_task(emitter)], emitter.builder.get_int64_ty())


@emits("time_stamp")
def time_stamp(emitter: Emitter, op: Op):
    """PTX ISA, special registers %clock64 (of the SM) and %globaltimer (of the GPU, in nanoseconds)."""
    base, count = emitter.of(op.base), emitter.of(op.count)
    event, last = op.attrs["event"], op.attrs["capacity"] - 2
    if event in (BEGIN, END):
        number = "mov.u32 aux, %smid;" if event == BEGIN else "mov.u32 aux, $1;"
        assembly = f"""{{
.reg .pred on;
.reg .b32 at, aux, id;
.reg .b64 now, what, to;
setp.ne.u64 on, $0, 0;
min.u32 at, $1, {last};
mad.wide.u32 to, at, {RECORD_BYTES}, $0;
{number}
mov.u32 id, {event + 1};
mov.b64 what, {{id, aux}};
mov.u64 now, %clock64;
@on st.global.v2.b64 [to], {{now, what}};
mov.u64 now, %globaltimer;
@on st.global.v2.b64 [to + {RECORD_BYTES}], {{now, what}};
}}"""
    else:
        assembly = f"""{{
.reg .pred on;
.reg .b64 now, what, to;
setp.ne.u64 on, $0, 0;
setp.lt.and.u32 on, $1, {last}, on;
mad.wide.u32 to, $1, {RECORD_BYTES}, $0;
mov.u64 what, {event + 1};
mov.u64 now, %clock64;
@on st.global.v2.b64 [to], {{now, what}};
}}"""
    ptx(emitter, assembly, ["l", "r"], [base, count])
    return emitter.builder.create_add(count, emitter.builder.get_int32(2 if event in (BEGIN, END) else 1))
