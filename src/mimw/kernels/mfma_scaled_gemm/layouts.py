"""Where bytes lie in LDS and in registers, so that each wave reads by wide instructions and without bank conflicts.

Input: constants of a launch. Output: layouts of TLX. For example:

    of_rows(256, 128, 16)               of a tile of 256 rows of 128 bytes in LDS, for instructions of 16 rows
    of_sums((2, 4), 16, True)           of sums: 16 x 16 by each of 2 x 4 waves, two by two beside each other
    of_scales(0, 128, 8, ...)           of the scales of operand A, one register for four of them

Numbers lie as bytes do in `mfma_gemm.layouts`. Scales that are shuffled lie as `mimw.kernels.mfma_scaled_gemm.shuffled` says: a
lane's four, of rows r and r + 16 and groups g and g + 4, are one word.
"""

import triton

import mimw.tlx as tlx

from ..mfma_gemm.layouts import DEPTHS, LANE_BYTES, VERSIONS, in_lds

CHIP = "gfx950"


@triton.constexpr_function
def of_rows(rows, line, side):
    """A tile of `rows` rows of `line` bytes, for instructions of `side` rows."""
    return in_lds(CHIP, rows, line, 1, 1, side)


@triton.constexpr_function
def of_sums(warps, side, pairs):
    """Sums by instructions of `side` x `side`; with `pairs` a wave has two by two of them beside each other."""
    shape = [side, side, DEPTHS[CHIP][1][side]]
    return tlx.amd_mfma_layout(VERSIONS[CHIP], shape, True, warps, tiles_per_warp=[1 + pairs, 1 + pairs])


@triton.constexpr_function
def of_operand(index, sums):
    """Operand A (0) or B (1) of a product with such sums."""
    return tlx.dot_operand_layout(index, sums, LANE_BYTES)


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
