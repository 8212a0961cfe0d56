"""Limits of AMD's tensor data mover (TDM): the tensors that it describes, the buffers that it fills, the warps that share a copy.

Input: the numbers of a descriptor, a shared layout, or a mask of warps. Output: None or "", or what is wrong:

    layout_problem(SwizzledShared(8, 1, 8, (1, 0)), 16, (64, 64))      "it writes no swizzle"
    warps_problem(0b0110, 4)                                           "bits of 0x6 are no ..."

From the fields of a descriptor as Triton's AMD backend fills them (its driver.c, `encodeTDMDescriptor`: 48 bits for a stride, 3 for
the logarithm of the padding's interval, 7 for its amount, in words of 4 bytes), and from what Triton 3.9 refuses. What it does not
refuse, an interval that is too long, ends the process.
"""

from __future__ import annotations

from collections.abc import Sequence

from .layouts import PaddedShared, SharedLayout, SwizzledShared

RANKS = (1, 5)
_STRIDE_END = 1 << 48               # elements
_INTERVALS, _AMOUNTS = (2, 256), (1, 128)    # words of 4 bytes


def tensor_problem(shape: Sequence[int], strides: Sequence[int], rank: int) -> tuple[str, str] | None:
    """The reason for which a descriptor cannot be, and the mend; `strides` count elements, `rank` is that of the block."""
    if not len(shape) == len(strides) == rank:
        return f"it has {len(shape)} extents, {len(strides)} strides and a block of {rank}", "give one of each for every dimension"
    if strides[-1] != 1:
        return (f"its last dimension has stride {strides[-1]}, and the data mover takes rows of neighbours only, stride 1",
                "make the tensor contiguous along its last dimension")
    if not all(0 <= stride < _STRIDE_END for stride in strides):
        return f"its strides are {tuple(strides)}, and those are 0 to 2^48 - 1 elements", "describe a tensor whose strides ascend"
    return None


def layout_problem(layout: SharedLayout, bits: int, block: Sequence[int], stores: bool = False) -> str:
    """The reason for which the data mover cannot fill a buffer of that layout, or with `stores` read it; "" if it can. `bits` are
    those of an element, `block` is the shape of the copies."""
    if isinstance(layout, SwizzledShared):
        if layout.max_phase != 1:
            return "it writes no swizzle"
        return "" if layout.order == tuple(reversed(range(layout.rank))) else "the last dimension must be the fastest"
    if not isinstance(layout, PaddedShared):
        return "it writes plain rows, with padding or without"
    if layout.shape != tuple(block):
        return f"its padding is that of a tile of shape {list(layout.shape)}, and the copies are blocks of {list(block)}"
    if len(layout.pairs) != 1 or layout.bases != _in_order(layout.shape):
        return "its padding comes after every so many elements of plain rows, one interval only"
    (interval, padding), = layout.pairs
    for elements, limits, what in ((interval, _INTERVALS, "after every"), (padding, _AMOUNTS, "by")):
        words, left = divmod(elements * bits, 32)
        if left or not limits[0] <= words <= limits[1]:
            return (f"it pads {what} {limits[0]} to {limits[1]} words of 4 bytes, and {elements} elements of {bits} bits are "
                    f"{elements * bits / 32:g}")
    return f"it stores rows with padding behind each, every {block[-1]} elements" if stores and interval != block[-1] else ""


def _in_order(block: Sequence[int]) -> tuple[tuple[int, ...], ...]:
    """The coordinate of each bit of an offset in row-major order."""
    bases = []
    for dim in reversed(range(len(block))):
        bases += [tuple(1 << bit if axis == dim else 0 for axis in range(len(block))) for bit in range(block[dim].bit_length() - 1)]
    return tuple(bases)


def warps_problem(mask: int, num_warps: int | None = None) -> str:
    """The reason for which the warps of a mask cannot share a copy, "" if they can: Triton takes masks of 1, 2, 4, .. warps whose
    numbers differ in as many bits as that needs."""
    if mask <= 0:
        return "no warp is in it"
    warps = [warp for warp in range(mask.bit_length()) if mask >> warp & 1]
    differ = 0
    for warp in warps:
        differ |= warp ^ warps[0]
    if len(warps) != 1 << differ.bit_count():
        return f"the numbers of its warps, {', '.join(map(str, warps))}, are not all those that differ in some bits"
    if num_warps is not None and warps[-1] >= num_warps:
        return f"it has warp {warps[-1]}, and the task has {num_warps}"
    return ""
