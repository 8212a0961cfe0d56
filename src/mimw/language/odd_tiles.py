"""Words of Triton's standard library that cut a tile in halves again and again, for tiles whose extents are no powers of two.

Input: a word, and what it is called with. Output: the same, or a function that does it with gathers. For example, of 24 elements:

    instead(tl.flip, [x])       a function: element i is element 23 - i of x
    instead(tl.sort, [x])       a function: the 24 first of 32 that are sorted, of which 8 are infinite
"""

from __future__ import annotations

import triton
import triton.language as tl

from ..ir.extents import is_odd, padded


def instead(word, args: list):
    """(function, arguments) of a call of `word`, which may be a method: those of the call, but for a tile with odd extents."""
    function = getattr(word, "__func__", word)
    given = args if function is word else [word.__self__, *args]
    ours = next((ours for theirs, ours in _OURS if theirs is function), None)
    if ours is None or not given:
        return word, args
    shape = getattr(given[0].type, "shape", ())
    return (ours, given) if is_odd(shape) else (word, args)


@triton.constexpr_function
def _axis(dim, shape):
    dim = len(shape) - 1 if dim is None else dim
    axis = dim + len(shape) if dim < 0 else dim
    if not 0 <= axis < len(shape):
        raise ValueError(f"dim must be None or in [-{len(shape)}, {len(shape)}), got {dim}")
    return axis


@triton.constexpr_function
def _with(shape, axis, extent):
    return [extent if number == axis else one for number, one in enumerate(shape)]


@triton.constexpr_function
def _power(extent):
    return padded((extent, ))[0]


@triton.constexpr_function
def _last(dtype, descending):
    """The number that sorts behind all others."""
    if dtype.is_floating():
        return float("-inf") if descending else float("inf")
    bits, signed = dtype.primitive_bitwidth, dtype.is_int_signed()
    if descending:
        return -(1 << bits - 1) if signed else 0
    return (1 << bits - signed) - 1


@triton.jit
def _places(shape: tl.constexpr, axis: tl.constexpr):
    """The number of each element along an axis."""
    line = tl.arange(0, shape[axis])
    for other in tl.static_range(len(shape)):
        if other != axis:
            line = tl.expand_dims(line, other)
    return tl.broadcast_to(line, shape)


@triton.jit
def _fitted(x, axis: tl.constexpr, extent: tl.constexpr):
    """The first elements along an axis, or all and copies of the last one."""
    shape: tl.constexpr = _with(x.shape, axis, extent)
    return tl.gather(x, tl.minimum(_places(shape, axis), x.shape[axis] - 1), axis)


@triton.jit
def flip(x, dim: tl.constexpr = None):
    axis: tl.constexpr = _axis(dim, x.shape)
    return tl.gather(x, x.shape[axis] - 1 - _places(x.shape, axis), axis)


@triton.jit
def cat(input, other, can_reorder: tl.constexpr = False, dim: tl.constexpr = 0):
    axis: tl.constexpr = _axis(dim, input.shape)
    half: tl.constexpr = input.shape[axis]
    shape: tl.constexpr = _with(input.shape, axis, 2 * half)
    at = _places(shape, axis)
    return tl.where(at < half, tl.gather(input, tl.minimum(at, half - 1), axis), tl.gather(other, tl.maximum(at - half, 0), axis))


@triton.jit
def sort(x, dim: tl.constexpr = None, descending: tl.constexpr = False):
    axis: tl.constexpr = _axis(dim, x.shape)
    tl.static_assert(axis == len(x.shape) - 1, "only minor dimension is currently supported")
    whole = x
    for one in tl.static_range(len(x.shape)):
        whole = _fitted(whole, one, _power(x.shape[one]))
    whole = tl.where(_places(whole.shape, axis) < x.shape[axis], whole, _last(x.dtype, descending)).to(x.dtype)
    whole = tl.sort(whole, axis, descending)
    for one in tl.static_range(len(x.shape)):
        whole = _fitted(whole, one, x.shape[one])
    return whole


@triton.jit
def topk(x, k: tl.constexpr, dim: tl.constexpr = None, descending: tl.constexpr = True):
    tl.static_assert(0 < k and k <= x.shape[len(x.shape) - 1], "topk: k must be between 1 and the size of the selected dimension")
    return _fitted(sort(x, dim, descending), len(x.shape) - 1, k)


_OURS = ((tl.flip, flip), (tl.cat, cat), (tl.sort, sort), (tl.topk, topk))
