"""Words of AMD's chips that are not offered yet: they check, then raise `NotYet`.

Input: the arguments of a kernel's call. Output: an error with the author's line, so that published kernels import and
fail clearly. For example:

    tlx.buffer_load(pointer, offsets)      NotYet: not yet: tlx.buffer_load is not offered by this release
"""

from __future__ import annotations

import triton.language.core as tl

from ..core import not_yet, word
from ..refuse import refuse
from .arguments import is_int
from .types import async_token

__all__ = ["buffer_atomic_add", "buffer_load", "buffer_load_to_local", "buffer_store", "extract_slice"]

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
