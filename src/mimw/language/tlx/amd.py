"""Words of AMD's chips that are not offered yet: they check, then raise `NotYet`.

Input: the arguments of a kernel's call. Output: an error with the author's line, so that published kernels import and
fail clearly. For example:

    tlx.extract_slice(x, (64, 32), (0, 0))      NotYet: not yet: tlx.extract_slice is not offered by this release
"""

from __future__ import annotations

import triton.language.core as tl

from ..core import not_yet, word
from ..refuse import refuse

__all__ = ["extract_slice"]


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
