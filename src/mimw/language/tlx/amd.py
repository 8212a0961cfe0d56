"""Words of AMD's chips. Not offered yet, except `assume_uniform` on NVIDIA: the others check, then raise `NotYet`.

Input: the arguments of a kernel's call. Output: an error with the author's line, so that published kernels import and
fail clearly; `assume_uniform` on NVIDIA gives its argument back and records no op. For example:

    tlx.buffer_load(pointer, offsets)      NotYet: not yet: tlx.buffer_load is not offered by this release
    tlx.assume_uniform(n)                  n
"""

from __future__ import annotations

import triton.language.core as tl

from ..core import capability, compile_time, host_constructible, not_yet, word
from ..refuse import refuse
from .arguments import is_int
from .async_task import Region
from .types import async_token

__all__ = [
    "amd_sched_barrier", "assume_uniform", "buffer_atomic_add", "buffer_load", "buffer_load_to_local", "buffer_store",
    "warp_pipeline_stage",
]

_ATOMIC_TYPES = (tl.float16, tl.bfloat16, tl.float32, tl.float64, tl.int32, tl.int64)


def _check_buffer(ptr, offsets, mask=None, other=None, contiguity: int = 1) -> None:
    if not isinstance(ptr, tl.tensor) or not ptr.type.is_ptr():
        refuse(AssertionError, "ptr must be a scalar pointer type")
    if not isinstance(offsets, tl.tensor) or not offsets.type.is_block():
        refuse(AssertionError, "offsets must be a tensor type")
    if offsets.dtype not in (tl.int32, tl.uint32):
        refuse(AssertionError, f"offsets element type must be int32 or uint32, got {offsets.dtype}")
    if other is not None and mask is None:
        refuse(AssertionError, "other needs a mask", mend="give a mask: `other` stands where it is false")
    if not is_int(contiguity) or contiguity <= 0 or contiguity & (contiguity - 1):
        refuse(AssertionError, f"contiguity must be a positive power of two, got {contiguity!r}")


@word
def buffer_load(ptr, offsets, mask=None, other=None, cache: tl.constexpr = None, contiguity: tl.constexpr = 1,
                _semantic=None) -> tl.tensor:
    """Load at element offsets from a scalar base pointer; not offered yet.

    errors:    AssertionError for a `ptr` that is no scalar pointer, offsets that are no 32-bit integers, `other`
               without `mask`, or a `contiguity` that is no power of two; else NotYet
    example:   x = tlx.buffer_load(x_ptr, offsets, mask=offsets < n, other=0.0)
    """
    _check_buffer(ptr, offsets, mask, other, contiguity)
    raise not_yet(_semantic, "buffer_load")


@word
def buffer_store(stored_value, ptr, offsets, mask=None, cache: tl.constexpr = None, _semantic=None) -> None:
    """Store at element offsets from a scalar base pointer; not offered yet.

    errors:    AssertionError as for `buffer_load`; else NotYet
    example:   tlx.buffer_store(value, x_ptr, offsets, mask=offsets < n)
    """
    _check_buffer(ptr, offsets, mask)
    raise not_yet(_semantic, "buffer_store")


@word
def buffer_atomic_add(ptr, offsets, value, mask=None, sem: tl.constexpr = None, scope: tl.constexpr = None,
                      contiguity: tl.constexpr = 1, _semantic=None) -> tl.tensor:
    """Add at element offsets from a scalar base pointer, giving the old values; not offered yet.

    errors:    AssertionError as for `buffer_load`, and for element types that cannot be added; else NotYet
    example:   before = tlx.buffer_atomic_add(x_ptr, offsets, value, mask=offsets < n)
    """
    _check_buffer(ptr, offsets, mask, contiguity=contiguity)
    element = ptr.dtype.element_ty
    if element not in _ATOMIC_TYPES:
        refuse(AssertionError, f"buffer_atomic_add supports {', '.join(map(str, _ATOMIC_TYPES))}, got {element}")
    raise not_yet(_semantic, "buffer_atomic_add")


@word
def buffer_load_to_local(dest, ptr, offsets, mask=None, other=None, cache_modifier: tl.constexpr = "",
                         _semantic=None) -> async_token:
    """Start copying from element offsets of a scalar base pointer into a buffer; not offered yet.

    errors:    AssertionError as for `buffer_load`; else NotYet
    example:   token = tlx.buffer_load_to_local(tile[0], x_ptr, offsets)
    """
    _check_buffer(ptr, offsets, mask, other)
    raise not_yet(_semantic, "buffer_load_to_local")


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
