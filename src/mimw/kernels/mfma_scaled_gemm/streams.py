"""Bytes of one array that go straight to LDS, one tile of rows after the other along K.

Input: a pointer, rows, and a layout. Output: a stream, whose tiles are copied ahead and read. For example:

    a = stream(a_ptr, m, M, steps.a, width, 128, 128, 128, form.WHOLE, LAYOUT)
    copy(a, 0, 0)                   tile 0 to slot 0; then commit and wait as of any copy
    tile = a.ring[0]

Rows behind the array's last one are read as the last one: what they give is not stored, and a copy without a mask is wide whatever
the sizes are. Columns behind the array's end, where a step does not divide it, become 0 by a mask: its border is a multiple of what
a lane copies, so the copy stays wide. A scale of 0 is 2^-127, and the numbers beside it are 0.
"""

from typing import Any

import triton.language as tl

import mimw
import mimw.tle as tle
import mimw.tlx as tlx

from .nouns import STAGES


@tle.struct
class Stream:
    """The tiles of a stream: `at`, from `base` on, STEP bytes further on each; a row has `width` bytes."""
    base: tl.tensor
    at: tl.tensor
    width: Any
    ring: Any
    STEP: tl.constexpr
    WHOLE: tl.constexpr


@mimw.jit
def stream(ptr, first, rows, stride, width, ROWS: tl.constexpr, COPIED: tl.constexpr, STEP: tl.constexpr, WHOLE: tl.constexpr,
           LAYOUT: tl.constexpr):
    """The stream of rows `first` to `first` + ROWS - 1 of the array's `rows`, which are `stride` bytes apart, in tiles of COPIED
    rows, the last one more than once."""
    first = min(first, rows - 1)
    base = ptr + first.to(tl.int64) * stride
    row = tl.minimum(tl.arange(0, COPIED), min(rows - 1 - first, ROWS - 1))
    at = row[:, None] * stride + tl.arange(0, STEP)[None, :]
    ring = tlx.local_alloc((COPIED, STEP), tl.uint8, STAGES, layout=LAYOUT)
    return Stream(tlx.assume_uniform(base), at, width, ring, STEP, WHOLE)


@mimw.jit
def copy(from_, slot, number):
    """Start the copy of tile `number`."""
    base = from_.base + number * from_.STEP
    if from_.WHOLE:
        tlx.buffer_load_to_local(from_.ring[slot], base, from_.at)
    else:
        inside = tl.arange(0, from_.STEP)[None, :] < from_.width - number * from_.STEP
        tlx.buffer_load_to_local(from_.ring[slot], base, from_.at, mask=inside)
