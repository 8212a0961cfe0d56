"""Where bytes lie in LDS and in registers, so that each wave reads by wide instructions and without bank conflicts.

Input: constants of a launch. Output: layouts of TLX. For example:

    of_rows(256, 128, 16)               of a tile of 256 rows of 128 bytes in LDS, for instructions of 16 rows
    of_sums((2, 4), 16, True)           of sums: 16 x 16 by each of 2 x 4 waves, two by two beside each other
    of_scales(0, 128, 8, ...)           of the scales of operand A, one register for four of them

A copy straight to LDS writes 1024 bytes in a row for each wave, so gaps can stand only between such blocks. Sixteen rows that an
instruction reads together lie in sixteen blocks, further on in each by a gap. A read of 16 bytes has four phases, of lanes 0-3,
12-15, 20-27, and so on: of an instruction of 16 rows these are rows 0-3, 12-15 of one piece along K and 4-11 of the next piece, and
gaps of 32 bytes send them to all 64 banks; of one of 32 rows they are rows 0-3, 12-15, 20-27 of one piece, and gaps of 16 bytes do,
if row r + 16 lies a whole 256 bytes behind row r. Scales that are shuffled lie as `mimw.kernels.mfma_scaled_gemm.shuffled` says: a
lane's four, of rows r and r + 16 and groups g and g + 4, are one word.
"""

import triton

import mimw.tlx as tlx

COPIED = 1024       # bytes that a wave copies straight to LDS at a time: 16 by each of 64 lanes
GAPS = {16: 32, 32: 16}         # bytes behind each of them, by the rows of an instruction
NEAR = [1, 2, 4, 8]             # the bits of a row that choose among 16 blocks
BANKS = 256         # bytes
DEPTH = {16: 128, 32: 64}       # K of v_mfma_scale_f32_16x16x128_f8f6f4 and 32x32x64
WIDTH = 16          # bytes along K of an operand that a lane holds together: one ds_read_b128


def _powers(extent: int) -> list[int]:
    return [1 << bit for bit in range(extent.bit_length() - 1)]


@triton.constexpr_function
def of_rows(rows, line, side):
    """A tile of `rows` rows of `line` bytes, for instructions of `side` rows."""
    far, inside = [bit for bit in _powers(rows) if bit not in NEAR], (COPIED // line).bit_length() - 1
    if side == 32:
        far = [*far[1:(BANKS // line).bit_length()], 16, *far[(BANKS // line).bit_length():]]
    bases = [*([0, bit] for bit in _powers(line)), *([bit, 0] for bit in (*far[:inside], *NEAR, *far[inside:]))]
    return tlx.padded_shared_layout_encoding.with_bases([[COPIED, GAPS[side]]], bases, [rows, line])


@triton.constexpr_function
def of_sums(warps, side, pairs):
    """Sums by instructions of `side` x `side`; with `pairs` a wave has two by two of them beside each other."""
    return tlx.amd_mfma_layout(4, [side, side, DEPTH[side]], True, warps, tiles_per_warp=[1 + pairs, 1 + pairs])


@triton.constexpr_function
def of_operand(index, sums):
    """Operand A (0) or B (1) of a product with such sums."""
    return tlx.dot_operand_layout(index, sums, WIDTH)


@triton.constexpr_function
def of_scales(index, rows, groups, warps, side, shuffled):
    """A tile of scales as it lies in LDS, (rows, groups) or (rows / 32, 32 groups), held by the lanes that multiply with them."""
    mine, other = warps[index], warps[1 - index]
    if shuffled:
        line = 32 * groups
        lanes, registers = ((64, 4), ), ((4, 1), (groups // 8, 256), (rows // 32 // mine, line * mine))
    else:
        line, beside = side * groups, 64 // side
        lanes = (side, groups), (beside, 1)
        registers = (groups // beside, beside), (rows // side // mine, line * mine)
    waves = ((other, 0), (mine, line)) if index == 0 else ((mine, line), (other, 0))
    modes = (*lanes, *waves), registers
    extents, strides = (tuple(tuple(one[place] for one in kind) for kind in modes) for place in (0, 1))
    return tlx.layout(extents, strides)


@triton.constexpr_function
def by_rows():
    """A tile of scales in LDS, row after row."""
    return tlx.swizzled_shared_layout_encoding.make_default(2)
