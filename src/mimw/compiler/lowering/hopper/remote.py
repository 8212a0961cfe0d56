"""Stores and copies into another CTA's shared memory.

A flat tile is spread so that thread t holds elements t * n to t * n + n - 1 of every round of all threads; the buffer
lies in plain rows, so an element's address follows from its number. Threads beyond the tile's end hold copies of others'
elements and store nothing.

Input: an op, with the rank of the other CTA. Output: PTX that maps the buffer's address to that CTA's and stores there:

    remote_store %tile %values %rank        mapa.shared::cluster.u32 to, to, $2;  st.shared::cluster.v4.b32 [to+0], {...};
"""

from __future__ import annotations

from itertools import pairwise

from ....ir import Op, Value
from ....ir.layouts import NvmmaShared
from ..asm import ptx, registers_of, sync, thread_in_task
from ..emitter import Emitter, emits
from ..nvidia.elements import as_registers, packed

# An operand is an offset in the CTA's own window; where the engine reads, that must be this CTA's place in the cluster's.
_COPY = """{{
.reg .pred first;
.reg .b32 to, bar, me, from;
setp.eq.s32 first, $0, 0;
mov.u32 me, %cluster_ctarank;
mapa.shared::cluster.u32 from, $2, me;
mapa.shared::cluster.u32 to, $1, $3;
mapa.shared::cluster.u32 bar, $4, $3;
{copies}
}}"""
_ONE = "@first cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [to{to}], [from{start}], {size}, [bar];"


@emits("remote_store")
def remote_store(emitter: Emitter, op: Op):
    _store(emitter, op, [emitter.of(op.buffer), emitter.of(op.rank)], "st.shared::cluster", "")


@emits("async_remote_store")
def async_remote_store(emitter: Emitter, op: Op):
    _store(emitter, op, [emitter.of(op.buffer), emitter.of(op.rank), emitter.of(op.barrier)],
           "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes", ", [bar]")


def _store(emitter: Emitter, op: Op, places: list, store: str, completion: str) -> None:
    """`places` are the buffer, the rank and, for an asynchronous store, the barrier."""
    size, (extent, ) = op.value.type.element.bytes, op.value.type.shape
    (each, ) = emitter.wanted(op, "value").size_per_thread
    threads = emitter.threads
    bits = as_registers(emitter, op, "value")
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


@emits("async_remote_copy")
def async_remote_copy(emitter: Emitter, op: Op):
    """The sync brings the source's last writes, which the author has fenced, before the copy."""
    sync(emitter)
    operands = [thread_in_task(emitter), *emitter.of((op.buffer, op.source, op.rank, op.barrier))]
    targets, sources = (_stretches(emitter, value) for value in (op.buffer, op.source))
    if all(_follow(one) for one in (targets, sources)):
        targets, sources = ([(one[0][0], op.source.type.tile_bytes)] for one in (targets, sources))
    copies = [_ONE.format(to=_step(to), start=_step(start), size=size)
              for (to, size), (start, _) in zip(targets, sources, strict=True)]
    ptx(emitter, _COPY.format(copies="\n".join(copies)), ["r"] * len(operands), operands)


def _step(size: int) -> str:
    """The text behind an address for an offset of `size` bytes."""
    return f"+{size}" if size else ""


def _follow(stretches: list[tuple[int, int]]) -> bool:
    """True if the stretches follow each other without a gap, as one stretch."""
    return all(start + size == following for (start, size), (following, _) in pairwise(stretches))


def _stretches(emitter: Emitter, value: Value) -> list[tuple[int, int]]:
    """(first byte, bytes) of each contiguous piece of a buffer: for some rows or columns of a swizzled tile its part of each
    stripe, for any other buffer all of it."""
    type_, placed = value.type, emitter.placed[value]
    width = placed.layout.swizzle if isinstance(placed.layout, NvmmaShared) else 0
    if not width or len(type_.shape) != 2 or placed.layout.transposed:
        return [(0, type_.tile_bytes)]
    (rows, columns), below = type_.shape, placed.allocated[-2]
    return [(stripe * below * width, rows * width) for stripe in range(columns * type_.element.bytes // width)]
