"""Limits of TMA: the tensors that a descriptor can describe, and the copies that TMA and the bulk copy engine can do. The
functions report a fault before the driver's encoder or the instruction does: the compiler checks the numbers that it knows,
the simulator each copy of a run.

Input: the numbers of a descriptor or of a copy. Output: None, or (what is wrong, how to mend it):

    block_problem((16, 4), 2)      ("a row of its block is 4 elements x 2 bytes = 8 bytes, and ...", "make the block's ...")
    corner_problem((-8, 0), (64, 64), 2, writes=True)      ("its block at (-8, 0) of a tensor of shape (64, 64) begins at ...", ...)

The limits are those of `cuTensorMapEncodeTiled` (CUDA Driver API, "Tensor Map Object Management") with what Triton asks of it:
no interleave, element strides of 1, boxes as wide as the swizzle at most. A block of more than 256 along a dimension is no
problem: Triton gives the encoder a box of 256 and copies as often as needed. Extents end at 2^31 - 1 where the encoder's end
at 2^32, since kernels get them as i32.
"""

from __future__ import annotations

from collections.abc import Sequence

Problem = tuple[str, str] | None
Numbers = Sequence[int | None]      # None where a number is not known

RANKS = (1, 5)
ROW_BYTES = 16          # of a box, and what addresses and strides are multiples of
STRIDE_BITS = 40        # strides are below 2 ** 40 bytes
_STRIDE_END = 1 << STRIDE_BITS
MOST = (1 << 31) - 1    # of an extent
ILLEGAL = 'the GPU ends such a launch with "an illegal instruction"'


def block_problem(block: Sequence[int], element_bytes: int) -> Problem:
    """The reason for which TMA cannot copy a block of elements of `element_bytes` bytes; None if it can."""
    if not RANKS[0] <= len(block) <= RANKS[1]:
        return _rank(len(block))
    row = block[-1] * element_bytes
    if row % ROW_BYTES:
        return (f"a row of its block is {block[-1]} elements x {element_bytes} bytes = {row} bytes, and TMA copies rows of "
                f"at least {ROW_BYTES} bytes, in multiples of {ROW_BYTES}",
                f"make the block's last extent {ROW_BYTES // element_bytes} or more")
    return None


def tensor_problem(address: int, shape: Sequence[int], strides: Sequence[int], rank: int, element_bytes: int) -> Problem:
    """The reason for which TMA cannot describe a tensor; `strides` count elements, `rank` is that of the block. None if it
    can."""
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
    """The fault in the extent of a dimension; None if there is none."""
    if 1 <= extent <= MOST:
        return None
    return f"its dimension {dim} has extent {extent}, and extents are 1 to {MOST}", "describe a part that has these extents"


def stride_problem(dim: int, stride: int, element_bytes: int) -> Problem:
    """The fault in the stride, in elements, of any dimension but the last; None if there is none."""
    size = stride * element_bytes
    facts = f"the stride of its dimension {dim} is {stride} elements x {element_bytes} bytes = {size} bytes"
    if size % ROW_BYTES:
        return (f"{facts}, and strides are multiples of {ROW_BYTES} bytes",
                f"pad the rows to a multiple of {ROW_BYTES // element_bytes} elements")
    if not 0 <= size < _STRIDE_END:
        return (f"{facts}, and strides are 0 to 2^{STRIDE_BITS} - 1 bytes",
                "describe a smaller part of the tensor, with strides that ascend")
    return None


def corner_problem(corner: Numbers, shape: Numbers | None, element_bytes: int, *, writes: bool) -> Problem:
    """The fault in the start of a block's copy; None if there is none. `corner` is in elements of a tensor of that `shape`;
    None stands for a number that is not known.

    CUDA Programming Guide, "Asynchronous Data Copies using the Tensor Memory Accelerator": a block that is read may reach over each
    edge of the tensor, also begin in front of it; one that is written, or combined with what is there, may reach over the far edges
    only, its corner is not negative. No manual speaks of where in a row a block begins. An H200 calls both an illegal instruction.
    """
    for dim, extent in enumerate(shape or ()):
        if extent is not None and (problem := extent_problem(dim, extent)):
            return f"its descriptor is invalid: {problem[0]}", problem[1]
    begin = begin_problem(corner[-1], element_bytes) if corner[-1] is not None else None
    negative = next((dim for dim, at in enumerate(corner) if at is not None and at < 0), None) if writes else None
    if begin is None and negative is None:
        return None
    where = f"its block at {_numbers(corner)}" + (f" of a tensor of shape {_numbers(shape)}" if shape is not None else "")
    if begin is not None:
        return f"{where} {begin[0]}", begin[1]
    return (f"{where} begins at {corner[negative]} along dimension {negative}, and TMA writes no block whose corner is negative, "
            f"though it reads such blocks; {ILLEGAL}",
            "begin at 0, with a block that is shifted or cut, or write the part that is inside by tl.store under a mask")


def rows_problem(column: int | None, row: int | None, shape: Numbers | None, element_bytes: int, *, writes: bool) -> Problem:
    """The same as `corner_problem`, for picked rows: `column` is the start of the copy in each row, `row` the lowest of the
    rows' numbers. The rows are copied by blocks of one row."""
    problem = corner_problem((row, column), shape, element_bytes, writes=writes)
    if problem is None or row is None or row >= 0 or column is not None and column * element_bytes % ROW_BYTES:
        return problem
    return problem[0], "give rows that are not needed the number of rows of the tensor, or more: TMA leaves such rows out"


def begin_problem(coordinate: int, element_bytes: int) -> Problem:
    """The fault in the last coordinate of a copy, the verb first: the same for whole blocks and for picked rows."""
    begin = coordinate * element_bytes
    if begin % ROW_BYTES == 0:
        return None
    return (f"begins at element {coordinate} of a row: {coordinate} elements x {element_bytes} bytes = {begin} bytes, and TMA "
            f"copies from multiples of {ROW_BYTES} bytes on; {ILLEGAL}",
            f"begin at a multiple of {ROW_BYTES // element_bytes} elements, or copy by pointers (tl.load, tl.store)")


def bulk_problem(size: int | None, address: int | None = None, place: int | None = None, what: str = "a bulk copy") -> Problem:
    """The fault in a copy of `size` consecutive bytes between the global `address` and the `place` in shared memory; None if
    there is none. PTX ISA, "cp.async.bulk": all three are multiples of 16."""
    if size is not None and (size <= 0 or size % ROW_BYTES):
        return f"{what} of {size} bytes, and such copies move multiples of {ROW_BYTES}", "copy a multiple of 16 bytes"
    for where, kind in ((address, "global address"), (place, "place in shared memory")):
        if where is not None and where % ROW_BYTES:
            return (f"{what} at {kind} {where:#x}, which is not a multiple of {ROW_BYTES}; the GPU ends such a launch with "
                    '"misaligned address"', "begin at a multiple of 16 bytes, or copy by pointers (tl.load, tl.store)")
    return None


def _numbers(values: Numbers) -> str:
    return f"({', '.join('?' if value is None else str(value) for value in values)}{',' if len(values) == 1 else ''})"


def _rank(rank: int) -> Problem:
    return f"it has {rank} dimensions, and TMA has {RANKS[0]} to {RANKS[1]}", "merge dimensions that lie one behind the other"
