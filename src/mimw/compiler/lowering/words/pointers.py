"""Accesses to picked elements of a flat buffer: masked stores and atomics, each logical element once.

Triton's own scatter and atomics take any layout of the buffer, are seen by its barrier insertion, and leave replicated lanes out.
What they do not cover, compare-and-swap and masked stores of 8 and 16 bits, is assembly with a barrier on both sides.

Input: an op on `buffer_flat`. Output: Triton's scatter or atomic, or assembly of `nvidia.per_thread`:

    local_atomic_rmw ADD %flat %value %indices        ttg.local_atomic_scatter_rmw
"""

from __future__ import annotations

from ....ir import I32, I64, Op
from ....ir.layouts import LinearShared
from ...triton_port.builder import mlir
from ..addresses import inverse, places
from ..emitter import Emitter, emits
from ..nvidia.per_thread import PerThread


@emits("buffer_flat")
def buffer_flat(emitter: Emitter, op: Op):
    """An array is seen through the inverse of the map that says where each element lies."""
    source = op.buffer
    emitter.flat[op.result] = source
    if source.type == op.result.type:  # Triton would give it a linear layout, and cannot read back that of a single element
        return emitter.of(source)
    if not source.type.count:
        return emitter.builder.create_memdesc_reshape(emitter.of(source), list(op.result.type.shape))
    size = source.type.element.bytes
    images = [offset // size for offset in places(emitter, source, op)]
    layout = LinearShared(tuple((number, ) for number in inverse(images)),
                          max(16, getattr(emitter.placed[source].layout, "boundary", 16)))
    flat = emitter.types.buffer(source.type.element, (1 << len(images), ), layout)
    return emitter.builder.create_memdesc_reinterpret(flat, emitter.of(source))


@emits("local_atomic_rmw")
def local_atomic_rmw(emitter: Emitter, op: Op):
    buffer, value, indices = emitter.of(op.buffer), emitter.operand(op, "value"), emitter.operand(op, "indices")
    return emitter.builder.create_local_atomic_scatter_rmw(op.kind, buffer, value, indices, emitter.operand(op, "mask"), 0)


@emits("local_masked_scatter")
def local_masked_scatter(emitter: Emitter, op: Op):
    """An exchange whose result is not used; elements narrower than the hardware's atomics are stored by each thread."""
    bits = op.value.type.element.bits
    if bits >= 32:
        emitter.builder.create_local_atomic_scatter_rmw(mlir.ATOMIC_OP.XCHG, emitter.of(op.buffer), emitter.operand(op, "value"),
                                                        emitter.operand(op, "indices"), emitter.operand(op, "mask"), 0)
        return
    threads = PerThread(emitter, op)
    asked = emitter.builder.create_int_cast(emitter.operand(op, "mask"), threads.integers(I32), False)
    store = f"st.shared.b{bits}"
    threads.run(lambda at, bits, flag, _: f"setp.ne.s32 on, {flag}, 0;\nand.pred on, on, mine;\n@on {store} [{at}], {bits};",
                [threads.registers("value"), asked], "rr")


@emits("local_atomic_cas")
def local_atomic_cas(emitter: Emitter, op: Op):
    """Each element by one thread; the others that hold a copy of it get the result from that one."""
    threads, size = PerThread(emitter, op), op.value.type.element.bits
    swap = f"@mine atom.relaxed.cta.shared.cas.b{size}"

    def line(at: str, old: str, new: str, result: str) -> str:
        if size == 16:
            return (f"cvt.u16.u32 h0, {old};\ncvt.u16.u32 h1, {new};\nmov.b16 h2, 0;\n{swap} h2, [{at}], h0, h1;\n"
                    f"cvt.u32.u16 {result}, h2;")
        return f"mov.b{size} {result}, 0;\n{swap} {result}, [{at}], {old}, {new};"

    kind, result = ("l", I64) if size == 64 else ("r", I32)
    made = threads.run(line, [threads.registers("compare"), threads.registers("value")], kind * 2, result)
    return threads.spread(made, op.value.type)
