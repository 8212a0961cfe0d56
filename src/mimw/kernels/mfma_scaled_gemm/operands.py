"""The operands of a product with microscaling formats: streams of their numbers and of their scales, and tiles in registers.

Input: pointers, sizes and the constants of a launch. Output: streams; tiles as the matrix cores take them. For example:

    parts = halves(0, a_ptr, m, sizes.M, steps.a, K, form)      two streams, of the upper and the lower rows of a tile of A
    scales = scales_of(0, scale_a_ptr, m, sizes.M, ...)         one stream, of the scales of all of these rows
    x, sx = numbers(parts[0], slot, 0, SUMS), factors(scales, slot, 0, 0, 128, form)

Scales go through LDS as well. A lane needs bytes of 16 rows for one instruction, and several waves need the same: read from memory
by each of them that would be up to 24 loads of single bytes a step, more than there are copies; so it is one copy of 4 bytes a
lane. Where a tile has fewer bytes its last row is copied again, as the chip copies no less.
"""

import triton
import triton.language as tl

import mimw
import mimw.tlx as tlx

from .layouts import by_rows, of_operand, of_rows, of_scales
from .streams import stream

TOGETHER = tl.constexpr(32)     # rows whose scales lie together, if they are shuffled


@triton.constexpr_function
def packed(format_):
    """Numbers in a byte."""
    return 2 if format_ == "e2m1" else 1


@triton.constexpr_function
def copied(rows, line, warps):
    """Rows of so many bytes that are copied at once: at least a word for each lane."""
    return max(rows, warps[0] * warps[1] * 64 * 4 // line)


@mimw.jit
def part(ptr, first, rows, stride, form, ROWS: tl.constexpr, K, FORMAT: tl.constexpr):
    """The stream of ROWS rows of an operand."""
    LINE: tl.constexpr = form.BK // packed(FORMAT)
    width = K // 128 * (128 // packed(FORMAT))      # so written that its factors are seen
    return stream(ptr, first, rows, stride, width, ROWS, ROWS, LINE, form.WHOLE, of_rows(ROWS, LINE, form.SIDE))


@mimw.jit
def scales_of(ptr, first, rows, stride, K, form, ROWS: tl.constexpr):
    """The stream of the scales of ROWS rows; `stride` counts words of 4 bytes."""
    if form.SHUFFLED:
        LINE: tl.constexpr = TOGETHER * form.groups()
        HEIGHT: tl.constexpr = ROWS // TOGETHER
        return stream(ptr, first // TOGETHER, tl.cdiv(rows, TOGETHER), stride * 4, tl.cdiv(K, 256) * 256, HEIGHT,
                      copied(HEIGHT, LINE, form.warps()), LINE, True, by_rows())
    GROUPS: tl.constexpr = form.groups()
    return stream(ptr, first, rows, stride * 4, K // 128 * 4, ROWS, copied(ROWS, GROUPS, form.warps()), GROUPS, form.WHOLE,
                  by_rows())


@mimw.jit
def numbers(from_, slot, INDEX: tl.constexpr, SUMS: tl.constexpr):
    """A tile of operand A (0) or B (1), along K as a product takes it."""
    if INDEX == 0:
        return tlx.local_load(from_.ring[slot], layout=of_operand(INDEX, SUMS), relaxed=True)
    return tlx.local_load(tlx.local_trans(from_.ring[slot]), layout=of_operand(INDEX, SUMS), relaxed=True)


@mimw.jit
def factors(from_, slot, INDEX: tl.constexpr, PART: tl.constexpr, ROWS: tl.constexpr, form):
    """The scales of rows ROWS PART to ROWS (PART + 1) - 1, (ROWS, K / 32)."""
    HEIGHT: tl.constexpr = ROWS // TOGETHER if form.SHUFFLED else ROWS
    GROUPS: tl.constexpr = form.groups()
    tile = tlx.local_slice(from_.ring[slot], [PART * HEIGHT, 0], [HEIGHT, from_.STEP])
    scales = tlx.local_load(tile, layout=of_scales(INDEX, ROWS, GROUPS, form.warps(), form.SIDE, form.SHUFFLED), relaxed=True)
    if form.SHUFFLED:
        scales = scales.reshape(HEIGHT, GROUPS // 8, 4, 16, 2, 2).permute(0, 5, 3, 1, 4, 2).reshape(ROWS, GROUPS)
    return scales
