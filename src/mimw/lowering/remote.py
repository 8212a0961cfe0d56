"""Stores and copies into another CTA's shared memory.

A flat tile is spread so that thread t holds elements t * n to t * n + n - 1 of every round of all threads; the buffer
lies in plain rows, so an element's address follows from its number. Threads beyond the tile's end hold copies of others'
elements and store nothing.
"""

from __future__ import annotations

from ..ir import I32, I64, Op, Scalar, like
from .asm import ptx, registers_of, sync, thread_in_task
from .emitter import Emitter, emits

# An operand is an offset in the CTA's own window; where the engine reads, that must be this CTA's place in the cluster's.
_COPY = """{{
.reg .pred first;
.reg .b32 to, bar, me, from;
setp.eq.s32 first, $0, 0;
mov.u32 me, %cluster_ctarank;
mapa.shared::cluster.u32 from, $2, me;
mapa.shared::cluster.u32 to, $1, $3;
mapa.shared::cluster.u32 bar, $4, $3;
@first cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [to], [from], {size}, [bar];
}}"""


@emits("remote_store")
def remote_store(emitter: Emitter, op: Op):
    buffer, value, rank = op.args
    _store(emitter, op, value, [emitter.values[buffer], emitter.values[rank]], "st.shared::cluster", "")


@emits("async_remote_store")
def async_remote_store(emitter: Emitter, op: Op):
    buffer, value, rank, barrier = op.args
    _store(emitter, op, value, [emitter.values[buffer], emitter.values[rank], emitter.values[barrier]],
           "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes", ", [bar]")


def _store(emitter: Emitter, op: Op, value, places: list, store: str, completion: str) -> None:
    """`places` are the buffer, the rank and, for an asynchronous store, the barrier."""
    size, (extent, ) = value.type.element.bytes, value.type.shape
    (each, ) = emitter.layouts.wanted(op, op.operands.index(value)).size_per_thread
    threads = 32 * emitter.num_warps
    bits = as_registers(emitter, op, value)
    held = registers_of(emitter, bits)
    operands = [thread_in_task(emitter), *places, bits]
    names = [f"${len(places) + 1 + index}" for index in range(held)]
    lines = [".reg .pred on;", ".reg .b32 to, bar;"]
    when = ""
    if extent // each < threads:
        lines.append(f"setp.lt.u32 on, $0, {extent // each};")
        when = "@on "
    lines += [f"mad.lo.u32 to, $0, {each * size}, $1;", "mapa.shared::cluster.u32 to, to, $2;"]
    if completion:
        lines.append("mapa.shared::cluster.u32 bar, $3, $2;")
    for step in range(held // each):
        packing, kind, words = packed(names[step * each:][:each], size, f"w{step}_")
        lines += [*packing, f"{when}{store}{kind} [to+{step * threads * each * size}], {words}{completion};"]
    constraints = ["r"] * (len(places) + 1) + ["l" if size == 8 else "r"] * held
    ptx(emitter, "{\n" + "\n".join(lines) + "\n}", constraints, operands)


def as_registers(emitter: Emitter, op: Op, value):
    """The tile as integers of one register each: 64 bits, or 32 that hold no more than the element."""
    builder, type_ = emitter.builder, value.type
    layout = emitter.layouts.wanted(op, op.operands.index(value))
    bits = emitter.operand(op, value)
    if type_.element.is_float:
        bits = builder.create_bitcast(bits, emitter.types.tensor(like(type_, Scalar(f"i{type_.element.bits}")), layout))
    wide = I64 if type_.element.bytes == 8 else I32
    if type_.element.bits >= wide.bits:
        return bits
    return builder.create_int_cast(bits, emitter.types.tensor(like(type_, wide), layout), False)


def packed(names: list[str], size: int, prefix: str) -> tuple[list[str], str, str]:
    """Registers of `size` bytes each as one store's: (instructions that pack them, the store's type, its operand)."""
    lines: list[str] = []
    while size < 4 and len(names) > 1:
        selector = "0x0040" if size == 1 else "0x5410"  # PTX ISA, "prmt": the low bytes, or halves, of both
        merged = [f"{prefix}{size}_{index}" for index in range(len(names) // 2)]
        lines.append(f".reg .b32 {', '.join(merged)};")
        pairs = zip(merged, names[::2], names[1::2])
        lines += [f"prmt.b32 {name}, {low}, {high}, {selector};" for name, low, high in pairs]
        names, size = merged, size * 2
    vector = f".v{len(names)}" if len(names) > 1 else ""
    operand = "{" + ", ".join(names) + "}" if vector else names[0]
    return lines, f"{vector}.b{8 * size}", operand


@emits("async_remote_copy")
def async_remote_copy(emitter: Emitter, op: Op):
    """The sync brings the source's last writes, which the author has fenced, before the copy."""
    buffer, source, rank, barrier = op.args
    sync(emitter)
    operands = [thread_in_task(emitter), *(emitter.values[value] for value in (buffer, source, rank, barrier))]
    ptx(emitter, _COPY.format(size=source.type.tile_bytes), ["r"] * len(operands), operands)
