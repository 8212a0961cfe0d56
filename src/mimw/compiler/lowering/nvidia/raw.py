"""Calls of native code: where buffers lie, and the call between two barriers of the task.

Input: a `raw_call` and the declarations around it. Output: what the dialect's emission makes, which `calls` registers:

    @calls("ptx")
    def call_ptx(emitter, op, code): ..         code is the op's `RawCode`; gives the MLIR value of each result

Triton's barrier insertion sees nothing of what native code does to shared memory, so all threads of the task pass a barrier before
the code and behind it.
"""

from __future__ import annotations

from collections.abc import Callable

from ....errors import NotYet, TargetError
from ....ir import Op, Value
from ....ir.raw_code import RawCode, code_of
from ..asm import own_address, ptx, sync
from ..emitter import Emitter, emits

Call = Callable[[Emitter, Op, RawCode], object]
CALLS: dict[str, Call] = {}


def calls(*dialects: str):
    """Register how the functions of these dialects are called."""

    def register(function: Call) -> Call:
        CALLS.update(dict.fromkeys(dialects, function))
        return function

    return register


@emits("raw_address")
def raw_address(emitter: Emitter, op: Op):
    return _address(emitter, op.buffer)


@emits("raw_barrier")
def raw_barrier(emitter: Emitter, op: Op):
    return _address(emitter, op.barrier)


def _address(emitter: Emitter, place: Value):
    """The 32-bit address in the CTA's shared memory."""
    return ptx(emitter, "mov.u32 $0, $1;", ["=r", "r"], [own_address(emitter, emitter.of(place))], emitter.builder.get_int32_ty())


@emits("raw_arrives", "raw_loads", "raw_reads", "raw_stores", "raw_writes")
def declaration(emitter: Emitter, op: Op) -> None:
    """Emit nothing: an author's declaration is for those who read the program."""


@emits("raw_call")
def raw_call(emitter: Emitter, op: Op):
    code = code_of(op)
    if emitter.target.assembly != "ptx":
        raise TargetError(f"{op.site}: tle.raw.call of {code.dialect} is not available on {emitter.target}")
    if code.dialect not in CALLS:
        raise NotYet(f"not yet: native code in the dialect {code.dialect!r} on {emitter.target}", op.site)
    sync(emitter)
    results = CALLS[code.dialect](emitter, op, code)
    sync(emitter)
    return results
