"""Words of AMD's chips. Not offered yet, except `assume_uniform` on NVIDIA: the others check, then raise `NotYet`.

Input: the arguments of a kernel's call. Output: an error with the author's line, so that published kernels import and
fail clearly; `assume_uniform` on NVIDIA gives its argument back and records no op. For example:

    tlx.amd_sched_barrier(0)               NotYet: not yet: tlx.amd_sched_barrier is not offered by this release
    tlx.assume_uniform(n)                  n
"""

from __future__ import annotations

import triton.language.core as tl

from ..core import capability, compile_time, host_constructible, not_yet, word
from ..refuse import refuse
from .arguments import is_int
from .async_task import Region

__all__ = [
    "amd_sched_barrier", "assume_uniform", "extract_slice", "warp_pipeline_stage",
]

@word
def assume_uniform(value, _semantic=None):
    """`value`, promised to be equal in all lanes: a scalar pointer or a scalar of at least 16 bits. No effect on NVIDIA.

    errors:    AssertionError for anything else; NotYet on AMD
    example:   x_ptr = tlx.assume_uniform(x_ptr)
    """
    scalar = isinstance(value, tl.tensor) and not value.type.is_block()
    if not scalar or (not value.dtype.is_ptr() and value.dtype.primitive_bitwidth < 16):
        refuse(AssertionError, f"assume_uniform takes a scalar pointer or a scalar of at least 16 bits, got {value}")
    if capability(_semantic) is None:
        raise not_yet(_semantic, "assume_uniform on AMD")
    return value


@word
def amd_sched_barrier(mask: tl.constexpr = 0, _semantic=None) -> None:
    """Instruction scheduling barrier; not offered yet.

    errors:    ValueError for a mask that is no constexpr int from 0 to 0xFFF; NotImplementedError on NVIDIA; else NotYet
    example:   tlx.amd_sched_barrier(0)
    """
    if not is_int(mask) or not 0 <= mask <= 0xFFF:
        refuse(ValueError, f"amd_sched_barrier: mask must be a constexpr int from 0 to 0xFFF, got {mask!r}")
    if capability(_semantic) is not None:
        refuse(NotImplementedError, "amd_sched_barrier is only available on AMD")
    raise not_yet(_semantic, "amd_sched_barrier")


@word
def extract_slice(source, shape: tl.constexpr, offsets: tl.constexpr, _semantic=None) -> tl.tensor:
    """A static slice of a register tile that moves nothing between lanes; not offered yet.

    errors:    AssertionError for another rank, or a slice that is not inside the tile; else NotYet
    example:   upper = tlx.extract_slice(x, (64, 32), (0, 0))
    """
    rank = len(source.shape)
    if not len(shape) == len(offsets) == rank:
        refuse(AssertionError, f"extract_slice: shape and offsets must have rank {rank}")
    for size, start, extent in zip(shape, offsets, source.type.shape, strict=True):
        if size <= 0 or start < 0:
            refuse(AssertionError, f"extract_slice: extents must be positive and offsets not negative, got {size}, {start}")
        if start + size > extent:
            refuse(AssertionError, f"extract_slice: {size} elements from {start} are outside the extent {extent}")
    raise not_yet(_semantic, "extract_slice")


@host_constructible
class warp_pipeline_stage(Region):
    """Mark one pipeline stage of a loop body; two warp groups run the stages one step apart. AMD only, not offered yet.

    args:      label    - a string or None;  priority - 0 to 3 or None; else ValueError
    example:   with tlx.warp_pipeline_stage("load"): ...
    """

    def __init__(self, label=None, *, priority=None, _semantic=None, _generator=None):
        self.label = compile_time("tlx.warp_pipeline_stage", "label", label)
        self.priority = compile_time("tlx.warp_pipeline_stage", "priority", priority)
        if self.label is not None and not isinstance(self.label, str):
            refuse(ValueError, f"warp_pipeline_stage: label must be a string or None, got {self.label!r}")
        if self.priority is not None and (not is_int(self.priority) or not 0 <= self.priority <= 3):
            refuse(ValueError, f"warp_pipeline_stage: priority must be 0 to 3 or None, got {self.priority!r}")
        if _semantic is not None:
            raise not_yet(_semantic, "warp_pipeline_stage")
