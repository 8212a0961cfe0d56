"""TMA loads into several CTAs of the cluster.

Triton's op takes the targets from a layout over several CTAs of one program, so this one is PTX.
Input: a `tma_load_multicast`. Output: one instruction for each box of the block (`box_copies.py`):

    tma_load_multicast %map (%row, %column) %full %tile (%first, %second)        @on cp.async.bulk.tensor.2d...multicast::cluster
"""

from __future__ import annotations

from ....ir import Op
from ..emitter import Emitter, emits
from .box_copies import load_boxes


@emits("tma_load_multicast")
def tma_load_multicast(emitter: Emitter, op: Op):
    """The copy takes the same offset in each CTA, so addresses are not mapped to this one's."""
    load_boxes(emitter, op, emitter.of(op.buffer), emitter.of(op.barrier), op.predicate, mask_of(emitter, op.targets))


def mask_of(emitter: Emitter, targets):
    """One bit a target."""
    builder = emitter.builder
    bits = [builder.create_shl(builder.get_int32(1), rank) for rank in emitter.of(targets)]
    mask = bits[0]
    for bit in bits[1:]:
        mask = builder.create_or(mask, bit)
    return mask
