"""A tile cut into tiles side by side, and put together again: what epilogues do to store an accumulator piece by piece.

Input: the arguments of a kernel's call. Output: values of the kernel; the ops are those of `tl`. For example:

    left, right = _split_n_2D(acc, 2)      acc of (128, 256): two tiles of (128, 128)
    _join_n_2D((left, right))              acc again
"""

import triton
import triton.language as tl

__all__ = ["_join_n_2D", "_split_n_2D"]


@triton.jit
def _split_n_2D(x, SPLIT_FACTOR: tl.constexpr):
    """A 2-D tile as a tuple of `SPLIT_FACTOR` tiles of equal width, from left to right; a power of two, 1 gives `(x, )`."""
    tl.static_assert(SPLIT_FACTOR > 0 and SPLIT_FACTOR & (SPLIT_FACTOR - 1) == 0,
                     "_split_n_2D: SPLIT_FACTOR must be a power of two")
    tl.static_assert(len(x.shape) == 2, "_split_n_2D takes a 2-D tile")
    tl.static_assert(x.shape[1] >= SPLIT_FACTOR, "_split_n_2D: the tile has fewer columns than SPLIT_FACTOR")
    if SPLIT_FACTOR == 1:
        return (x, )
    else:
        left, right = x.reshape([x.shape[0], 2, x.shape[1] // 2]).permute(0, 2, 1).split()
        return _split_n_2D(left, SPLIT_FACTOR // 2) + _split_n_2D(right, SPLIT_FACTOR // 2)


@triton.jit
def _join_n_2D(xs):
    """The tile that `_split_n_2D` made the tiles `xs` of: side by side, from left to right; as many as a power of two."""
    if len(xs) == 1:
        return xs[0]
    else:
        HALF: tl.constexpr = len(xs) // 2
        tl.static_assert(2 * HALF == len(xs), "_join_n_2D takes as many tiles as a power of two")
        left = _join_n_2D(xs[:HALF])
        right = _join_n_2D(xs[HALF:])
        return tl.join(left, right).permute(0, 2, 1).reshape([left.shape[0], 2 * left.shape[1]])
