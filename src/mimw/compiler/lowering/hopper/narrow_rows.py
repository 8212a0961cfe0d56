"""Rows of 32 and 64 bytes, which lie in a tile where TMA cannot begin: each goes through a line of 128 bytes of its own.

Input: an op that copies picked rows. Output: row copies to or from the lines, and a move between lines and tile by the threads:

    tma_gather %map %rows %column %full %tile     row i -> line i, by TMA;  wait;  line i -> tile;  complete_tx [full], bytes
    tma_scatter %map %rows %column %tile          tile -> line i;  line i -> row, by TMA

PTX ISA, cp.async.bulk.tensor: the address in shared memory is a multiple of 128 bytes. So the task waits for the copies of a
gather, and before a scatter for the reads of its own earlier stores. In lines and tile alike a 16-byte piece lies where the swizzle
puts it, which goes by bits 7 and 8 of the address.
"""

from __future__ import annotations

from dataclasses import replace

from ....ir import Op, Scalar, Value
from ....ir.layouts import NvmmaShared
from ..asm import own_address, ptx, sync, thread_in_task, zero_or_one
from ..emitter import Emitter
from ..predicates import predicate as always
from .descriptor_address import Inputs
from .row_copies import LINE, Rows, start_gather, start_scatter

_BYTE = Scalar("i8")
_PIECE = 16     # bytes, which every swizzle moves together
_FENCE = "fence.proxy.async.shared::cta;"


def gather(emitter: Emitter, op: Op, rows, tile, shape: Rows, barrier, predicate: Value | None) -> None:
    """The rows are in the tile when the barrier's phase may end, and the task has waited for them."""
    builder, size = emitter.builder, shape.rows * shape.width
    lines, landed = _lines(emitter, shape, lasting=False), builder.create_local_alloc(emitter.types.barrier(0))
    builder.create_mbarrier_init(landed, 1)
    builder.create_fence_async_shared(False)
    builder.create_mbarrier_expect(landed, size, always(emitter, predicate))
    start_gather(emitter, op, rows, lines, _in_lines(shape), landed, predicate)
    builder.create_mbarrier_wait(landed, builder.get_int32(0), always(emitter, predicate), [])
    _move(emitter, shape, lines, tile, LINE, shape.width, predicate)
    builder.create_mbarrier_inval(landed)
    builder.create_local_dealloc(landed)
    builder.create_local_dealloc(lines)
    _complete(emitter, barrier, size, predicate)


def scatter(emitter: Emitter, op: Op, rows, tile, shape: Rows) -> None:
    """The lines are the op's own until the kernel ends, and have been read by the time that they are filled again."""
    lines = _lines(emitter, shape, lasting=True)
    ptx(emitter, "cp.async.bulk.wait_group.read 0;", [], [])
    _move(emitter, shape, tile, lines, shape.width, LINE, None)
    start_scatter(emitter, op, rows, lines, _in_lines(shape))


def _lines(emitter: Emitter, shape: Rows, lasting: bool):
    """Memory for a line a row; its layout makes the memory begin at a whole swizzle atom."""
    type_ = emitter.types.buffer(_BYTE, (shape.rows, LINE), NvmmaShared(LINE, _BYTE.bits, 2))
    return emitter.allocate(type_) if lasting else emitter.builder.create_local_alloc(type_)


def _in_lines(shape: Rows) -> Rows:
    return replace(shape, pitch=LINE, apart=shape.swizzle)


def _move(emitter: Emitter, shape: Rows, source, target, from_pitch: int, to_pitch: int, predicate: Value | None) -> None:
    """Each thread's rows, piece by piece, then a fence towards TMA. The syncs keep the moves from other accesses."""
    inputs = Inputs()
    thread, start, end = (inputs.add(value) for value in (thread_in_task(emitter), own_address(emitter, source),
                                                          own_address(emitter, target)))
    text = [".reg .pred on;", ".reg .b32 from, to, at, swap, w<4>;", f"setp.lt.u32 on, {thread}, {shape.rows};"]
    if predicate is not None:
        text.append(f"setp.ne.and.s32 on, {inputs.add(zero_or_one(emitter, emitter.of(predicate)))}, 0, on;")
    text += [f"mad.lo.u32 from, {thread}, {from_pitch}, {start};", f"mad.lo.u32 to, {thread}, {to_pitch}, {end};"]
    for index in range(max(1, shape.rows // emitter.threads)):
        for piece in range(0, shape.width, _PIECE):
            text += _swizzled("from", index * emitter.threads * from_pitch + piece, shape.width)
            text.append("@on ld.shared.v4.b32 {w0, w1, w2, w3}, [at];")
            text += _swizzled("to", index * emitter.threads * to_pitch + piece, shape.width)
            text.append("@on st.shared.v4.b32 [at], {w0, w1, w2, w3};")
    sync(emitter)
    ptx(emitter, "\n".join(["{", *text, _FENCE, "}"]), inputs.kinds, inputs.values)
    sync(emitter)


def _swizzled(base: str, offset: int, width: int) -> list[str]:
    """Lines that put into `at` where the piece at `base` + `offset` lies under the swizzle of `width` bytes."""
    return [f"add.u32 at, {base}, {offset};", "shr.u32 swap, at, 3;", f"and.b32 swap, swap, {width - _PIECE};",
            "xor.b32 at, at, swap;"]


def _complete(emitter: Emitter, barrier, size: int, predicate: Value | None) -> None:
    """One thread completes the bytes, behind the moves of all: the sync is above. `complete_tx` is relaxed, and with the fence
    before it a release (PTX ISA, "Release and acquire patterns")."""
    inputs = Inputs()
    thread, bar = inputs.add(thread_in_task(emitter)), inputs.add(own_address(emitter, barrier))
    text = [".reg .pred on;", f"setp.eq.u32 on, {thread}, 0;"]
    if predicate is not None:
        text.append(f"setp.ne.and.s32 on, {inputs.add(zero_or_one(emitter, emitter.of(predicate)))}, 0, on;")
    text += ["@on fence.acq_rel.cta;", f"@on mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [{bar}], {size};"]
    ptx(emitter, "\n".join(["{", *text, "}"]), inputs.kinds, inputs.values)
