"""What a TMA descriptor can describe: the limits of the driver's encoder, told before it is asked.

Input: the numbers of a descriptor. Output: None, or (what is wrong, how to mend it):

    block_problem((16, 4), 2)      ("a row of its block is 4 elements x 2 bytes = 8 bytes, and ...", "make the block's ...")

The limits are those of `cuTensorMapEncodeTiled` (CUDA Driver API, "Tensor Map Object Management") with what Triton asks of it:
no interleave, element strides of 1, boxes as wide as the swizzle at most. A block of more than 256 along a dimension is no
problem: Triton gives the encoder a box of 256 and copies as often as needed. Extents end at 2^31 - 1 where the encoder's end
at 2^32, since kernels get them as i32.
"""

from __future__ import annotations

from collections.abc import Sequence

Problem = tuple[str, str] | None

RANKS = (1, 5)
ROW_BYTES = 16          # of a box, and what addresses and strides are multiples of
STRIDE_BITS = 40        # strides are below 2 ** 40 bytes
_STRIDE_END = 1 << STRIDE_BITS
MOST = (1 << 31) - 1    # of an extent


def block_problem(block: Sequence[int], element_bytes: int) -> Problem:
    """What TMA cannot copy as a block of elements of so many bytes."""
    if not RANKS[0] <= len(block) <= RANKS[1]:
        return _rank(len(block))
    row = block[-1] * element_bytes
    if row % ROW_BYTES:
        return (f"a row of its block is {block[-1]} elements x {element_bytes} bytes = {row} bytes, and TMA copies rows of "
                f"at least {ROW_BYTES} bytes, in multiples of {ROW_BYTES}",
                f"make the block's last extent {ROW_BYTES // element_bytes} or more")
    return None


def tensor_problem(address: int, shape: Sequence[int], strides: Sequence[int], rank: int, element_bytes: int) -> Problem:
    """What TMA cannot describe of a tensor; `strides` count elements, `rank` is that of the block."""
    if not len(shape) == len(strides) == rank:
        return (f"it has {len(shape)} extents, {len(strides)} strides and a block of {rank}",
                "give one of each for every dimension")
    if not RANKS[0] <= rank <= RANKS[1]:
        return _rank(rank)
    if address % ROW_BYTES:
        return (f"it starts at address {address:#x}, {address % ROW_BYTES} bytes behind a multiple of {ROW_BYTES}",
                "copy the slice into a tensor of its own, or describe the whole tensor and add to the offsets")
    if strides[-1] != 1:
        return (f"its last dimension has stride {strides[-1]}, and TMA takes rows of neighbours only, stride 1",
                "make the tensor contiguous along its last dimension")
    if min(shape) < 1 or max(shape) > MOST:
        return next(filter(None, map(extent_problem, range(rank), shape)))
    for dim in range(rank - 1):
        size = strides[dim] * element_bytes
        if size % ROW_BYTES or not 0 <= size < _STRIDE_END:
            return stride_problem(dim, strides[dim], element_bytes)
    return None


def extent_problem(dim: int, extent: int) -> Problem:
    """What is wrong with the extent of a dimension."""
    if 1 <= extent <= MOST:
        return None
    return f"its dimension {dim} has extent {extent}, and extents are 1 to {MOST}", "describe a part that has these extents"


def stride_problem(dim: int, stride: int, element_bytes: int) -> Problem:
    """What is wrong with the stride, in elements, of any dimension but the last."""
    size = stride * element_bytes
    facts = f"the stride of its dimension {dim} is {stride} elements x {element_bytes} bytes = {size} bytes"
    if size % ROW_BYTES:
        return (f"{facts}, and strides are multiples of {ROW_BYTES} bytes",
                f"pad the rows to a multiple of {ROW_BYTES // element_bytes} elements")
    if not 0 <= size < _STRIDE_END:
        return (f"{facts}, and strides are 0 to 2^{STRIDE_BITS} - 1 bytes",
                "describe a smaller part of the tensor, with strides that ascend")
    return None


def begin_problem(coordinate: int, element_bytes: int) -> Problem:
    """What is wrong with the last coordinate of a copy. No manual says so: an H200 calls a copy that begins elsewhere in a row an
    illegal instruction, of whole blocks as of picked rows."""
    begin = coordinate * element_bytes
    if begin % ROW_BYTES == 0:
        return None
    return (f"it begins at element {coordinate} of a row: {coordinate} elements x {element_bytes} bytes = {begin} bytes, and TMA "
            f"copies from multiples of {ROW_BYTES} bytes on", f"begin at a multiple of {ROW_BYTES // element_bytes} elements")


def _rank(rank: int) -> Problem:
    return f"it has {rank} dimensions, and TMA has {RANKS[0]} to {RANKS[1]}", "merge dimensions that lie one behind the other"
