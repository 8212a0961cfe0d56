"""Pointers into another GPU's memory; and what no chip but NVIDIA's does yet.

Input: a `peer_pointer`. Output: two loads from the rank's table, and the pointer moved by the distance of the two heaps:

    %there = peer_pointer %x %world %rank      %x + (bases[rank] - bases[own]) / size of an element

Heaps begin at multiples of 256 bytes, so the distance keeps what is known of the pointer's alignment; that is written on it, since
Triton chooses the width of accesses by what it knows.
"""

from __future__ import annotations

from ...errors import NotYet
from ...ir import I64, Op, Tensor
from ...ir.types import element_of
from ...triton_port.builder import mlir
from ..emitter import Emitter, emits

_RANK, _BASES = 0, 3    # entries of the table; `mimw.world` has the others
_ALIGNED = 256          # bytes; of each heap


@emits("peer_pointer")
def peer_pointer(emitter: Emitter, op: Op):
    builder, world = emitter.builder, emitter.of(op.world)
    plain = builder.get_cache_policy("none", "evict_normal")

    def entry(index):
        return builder.create_load(builder.create_addptr(world, index), plain, False)

    own = builder.create_int_cast(entry(builder.get_int32(_RANK)), builder.get_int32_ty(), True)
    first = builder.get_int32(_BASES)
    here, there = (entry(builder.create_add(first, rank)) for rank in (own, emitter.of(op.gpu)))
    size = element_of(op.pointer.type).pointee.bytes
    apart = builder.create_ashr(builder.create_sub(there, here), builder.get_int64(size.bit_length() - 1))
    apart.set_attr("tt.divisibility", mlir.make_attr([_ALIGNED // size], apart.get_context()))
    type_ = op.result.type
    if isinstance(type_, Tensor):
        layout = emitter.layouts.registers[op.result]
        apart = builder.create_splat(emitter.types.tensor(Tensor(I64, type_.shape), layout), apart)
    return builder.create_addptr(emitter.operand(op, "pointer"), apart)


@emits("signal_wait", "world_barrier")
def not_yet(emitter: Emitter, op: Op):
    """PTX has these in `nvidia/world.py`."""
    word = {"signal_wait": "tlx.wait_signal"}.get(op.name, "a barrier among GPUs")
    raise NotYet(f"not yet: {word} on {emitter.target.name}", op.site,
                 hint="spin on tl.atomic_load(..., sem='acquire', scope='sys') instead; `signal` and `peer_pointer` work")
