"""Layouts as `shape:stride`, for `dump_layout`: how threads and values, or offsets, step through a tile's row-major positions.

Input: a layout and a shape. Output: a text in CuTe's notation:

    register_text(Blocked((1, ), (32, ), (4, ), (0, )), (256, ))        ((_32,_4),_2):((_1,_32),_128)
"""

from __future__ import annotations

from math import prod

from ...ir.layouts import LinearShared, NvmmaShared, RegisterLayout, SharedLayout, SwizzledShared
from ...ir.linear import linear_of, positions
from ...ir.types import Type

Modes = list[tuple[int, int]]


def register_text(layout: RegisterLayout, shape: tuple[int, ...]) -> str:
    """`((lanes, warps), values):((strides), strides)`; lanes and warps are never one mode."""
    linear = linear_of(layout, shape)
    if linear is None:
        return str(layout)
    lanes, warps, values = (merged(positions(bases, shape)) for bases in (linear.lanes, linear.warps, linear.registers))
    return ":".join(f"({_group(lanes + warps, field)},{_group(values, field)})" for field in (0, 1))


def merged(steps: list[int]) -> Modes:
    """Bits as modes (extent, stride): a run of s, 2s, 4s is one, and so is a run of zeros."""
    modes: Modes = []
    for step in steps:
        if modes and step == modes[-1][1] * modes[-1][0]:
            modes[-1] = (2 * modes[-1][0], modes[-1][1])
        else:
            modes.append((2, step))
    return modes


def _group(modes: Modes, field: int) -> str:
    texts = [f"_{mode[field]}" for mode in modes] or [f"_{1 - field}"]
    return texts[0] if len(texts) == 1 else f"({','.join(texts)})"


def shared_text(layout: SharedLayout, shape: tuple[int, ...], element: Type) -> str:
    """`shape:stride` of the offsets where they are linear, `Swizzle<B,M,S> o shape:stride`, else the layout as it is."""
    match layout:
        case SwizzledShared(_, _, 1, order):
            return _linear_text(_rows(shape, order))
        case LinearShared(bases, _):
            return _linear_text(merged(positions(bases, shape)))
        case SwizzledShared(vector, per_phase, phases, order):
            across = shape[order[0]] * per_phase // vector
            return f"Swizzle<{_log2(phases)},{_log2(vector)},{_log2(across)}> o {_by_dimension(shape, order)}"
        case NvmmaShared(0, _, _, transposed):
            return _linear_text(_rows(shape, _order(len(shape), transposed)))
        case NvmmaShared(swizzle, bits, rank, transposed) if shape[_order(rank, transposed)[0]] * bits == 8 * swizzle:
            # 16-byte pieces of 8 rows of one swizzle width: cuTensorMapEncodeTiled, CU_TENSOR_MAP_SWIZZLE_*.
            return (f"Swizzle<{_log2(swizzle // 16)},{_log2(128 // bits)},3> o "
                    f"{_by_dimension(shape, _order(rank, transposed))}")
    return str(layout)


def _order(rank: int, transposed: bool) -> tuple[int, ...]:
    return tuple(range(rank)) if transposed else tuple(reversed(range(rank)))


def _rows(shape: tuple[int, ...], order: tuple[int, ...]) -> Modes:
    """The modes of offsets, the fastest dimension first."""
    row_major = [prod(shape[axis + 1:]) for axis in range(len(shape))]
    return merged([row_major[axis] << bit for axis in order for bit in range(_log2(shape[axis]))])


def _linear_text(modes: Modes) -> str:
    return f"{_group(modes, 0)}:{_group(modes, 1)}"


def _by_dimension(shape: tuple[int, ...], order: tuple[int, ...]) -> str:
    """`(extents):(strides)` by dimension, before swizzling."""
    strides, step = {}, 1
    for axis in order:
        strides[axis], step = step, step * shape[axis]
    return "({}):({})".format(*(",".join(f"_{number}" for number in numbers)
                                for numbers in (shape, [strides[axis] for axis in range(len(shape))])))


def _log2(number: int) -> int:
    return number.bit_length() - 1
