"""Groups of copies into LDS of which some stay in flight.

Input: an op that ends a group, or that waits for groups. Output: of those that `arrive_later` made calls of our functions, which
are LLVM's marks of asynchronous operations; of all others Triton's ops:

    async_commit in_flight=True          mimw.mark           ; asyncmark
    async_wait 3, in_flight=True         mimw.pending3       s_waitcnt vmcnt(18), of groups of six loads

LLVM counts the loads along each way to a wait and takes the least. Triton's own count on gfx1250 stops at the start of a task,
and is none in a loop there. A wait is each wave's own: what is behind it in the task's order asks for a sync, as an arrival has.
"""

from __future__ import annotations

from ....ir import Op
from ..emitter import Emitter, emits
from .functions import call, settled


@emits("async_commit", assembly="gfx9")
@emits("async_commit", assembly="gfx12")
def async_commit(emitter: Emitter, op: Op):
    if op.attrs.get("in_flight"):
        call(emitter, "mark", [])
    else:
        emitter.builder.create_async_commit_group()
    return []


@emits("async_wait", assembly="gfx9")
@emits("async_wait", assembly="gfx12")
def async_wait(emitter: Emitter, op: Op):
    if op.attrs.get("in_flight"):
        if op.attrs.get("stores"):
            settled(emitter)
        call(emitter, f"pending{op.pending}", [])
    else:
        emitter.builder.create_async_wait_group(op.pending)
    return []
