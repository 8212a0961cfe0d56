"""Pointers into another GPU's memory, and where a rank's workspace is.

Input: a `peer_pointer`. Output: two loads from the rank's table, and the pointer moved by the distance of the two heaps:

    %there = peer_pointer %x %world %rank      %x + (bases[rank] - bases[own]) / size of an element

Heaps begin at multiples of 256 bytes, so the distance keeps what is known of the pointer's alignment; that is written on it, since
Triton chooses the width of accesses by what it knows.
"""

from __future__ import annotations

from ....ir import I64, Op, Tensor, workspace_stride
from ....ir.types import element_of
from ...triton_port.builder import mlir
from ..asm import ptx, ptx_value
from ..emitter import Emitter, emits

RANK, SIZE, CAPACITY, BASES = range(4)      # entries of the table (docs/DISTRIBUTED.md)
_WORKSPACE_BYTES = 1                            # and one behind the bases
_ALIGNED = 256                                  # bytes; of each heap


class Table:
    """The entries of a rank's table, loaded as they are asked for. No kernel writes the table, so on NVIDIA its loads are taken out
    of loops, and of a pointer's way to a peer there is one, however often it is asked for: in a loop that stores and signals an
    ordinary load could not move, and takes a microsecond while the link is at work."""

    def __init__(self, emitter: Emitter, world):
        self.emitter, self.builder, self.world = emitter, emitter.builder, world
        self.plain = self.builder.get_cache_policy("none", "evict_normal")

    def wide(self, index: int, behind=None):
        """The entry of that number, an i64; of that number more than the i32 `behind`, if there is one."""
        index = self.builder.get_int32(index)
        index = self.builder.create_add(index, behind) if behind is not None else index
        entry = self.builder.create_addptr(self.world, index)
        if self.emitter.target.assembly == "ptx":
            return ptx_value(self.emitter, "ld.global.nc.b64 $0, [$1];", ["=l", "l"], [entry], self.builder.get_int64_ty())
        return self.builder.create_load(entry, self.plain, False)

    def narrow(self, index: int):
        """The same as an i32."""
        return self.builder.create_int_cast(self.wide(index), self.builder.get_int32_ty(), True)


@emits("peer_pointer")
def peer_pointer(emitter: Emitter, op: Op):
    builder, table = emitter.builder, Table(emitter, emitter.of(op.world))
    here, there = (table.wide(BASES, behind=rank) for rank in (table.narrow(RANK), emitter.of(op.gpu)))
    size = element_of(op.pointer.type).pointee.bytes
    apart = builder.create_sub(there, here)
    if size > 1:    # a shift by no bits would be taken away, with what is written on it
        apart = builder.create_ashr(apart, builder.get_int64(size.bit_length() - 1))
    apart.set_attr("tt.divisibility", mlir.make_attr([_ALIGNED // size], apart.get_context()))
    type_ = op.result.type
    if isinstance(type_, Tensor):
        layout = emitter.layouts.registers[op.result]
        apart = builder.create_splat(emitter.types.tensor(Tensor(I64, type_.shape), layout), apart)
    return builder.create_addptr(emitter.operand(op, "pointer"), apart)


@emits("world_scratch")
def world_scratch(emitter: Emitter, op: Op):
    """The address behind the signal pads, at the next multiple of 256 bytes. A launch of more programs than fit there ends in
    a trap."""
    builder, table, stride = emitter.builder, Table(emitter, emitter.of(op.world)), workspace_stride(emitter.program)
    wide = builder.get_int64_ty()
    size = table.narrow(SIZE)
    words = builder.create_mul(table.wide(CAPACITY), builder.create_int_cast(size, wide, True))
    pads = builder.create_add(builder.create_mul(words, builder.get_int64(4)), builder.get_int64(_ALIGNED - 1))
    pads = builder.create_and(pads, builder.get_int64(-_ALIGNED))
    if emitter.target.assembly == "ptx":
        programs = builder.get_int64(1)
        for axis in range(3):
            programs = builder.create_mul(programs, builder.create_int_cast(builder.create_get_num_programs(axis), wide, True))
        needed = builder.create_mul(programs, builder.get_int64(stride))
        ptx(emitter, "{\n.reg .pred on;\nsetp.gt.s64 on, $0, $1;\n@on trap;\n}", ["l", "l"],
            [needed, table.wide(BASES + _WORKSPACE_BYTES, behind=size)])
    start = builder.create_int_to_ptr(builder.create_add(table.wide(BASES, behind=table.narrow(RANK)), pads),
                                      emitter.mlir_type(op.results[0]))
    start.set_attr("tt.divisibility", mlir.make_attr([_ALIGNED], start.get_context()))
    return start, builder.get_int32(stride)


def stride_of(op: Op) -> dict[str, int] | None:
    """The ranks of a barrier of a part of the world as first, step and count; None where they are not one stride apart."""
    ranks = tuple(sorted(op.gpus))
    step = ranks[1] - ranks[0] if len(ranks) > 1 else 1
    if ranks != tuple(range(ranks[0], ranks[0] + step * len(ranks), step)):
        return None
    return {"first": ranks[0], "step": step, "count": len(ranks)}
