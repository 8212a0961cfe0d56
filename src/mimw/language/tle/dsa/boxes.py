"""Boxes of buffers and tensors in the arguments of words: extents, offsets, sizes and steps, checked once for all words.

Input: what the author wrote, and the shape that it is about. Output: tuples of ints and i32 handles, or the word's error:

    checked_extents("alloc", "shape", [50, 3])                       (50, 3)
    box_of("subview", (50, ), [at], [10], [2], semantic)             ((%at, ), (10, ), (2, ))
"""

from __future__ import annotations

import triton.language.core as tl

from ...numbers import is_int
from ...refuse import refuse


def checked_extents(name: str, parameter: str, shape, kind: type[Exception] = ValueError) -> tuple[int, ...]:
    """A non-empty list or tuple of positive ints; `kind` is raised for an entry that is known at run time only."""
    if not isinstance(shape, (tuple, list)) or not shape:
        refuse(ValueError, f"tle.dsa.{name}: `{parameter}` must be a list or tuple of at least one int, got {shape!r}")
    for extent in shape:
        if isinstance(extent, tl.base_value):
            refuse(kind, f"tle.dsa.{name}: every entry of `{parameter}` must be a compile-time int, got the run-time value "
                         f"{extent}")
        if not is_int(extent) or extent <= 0:
            refuse(ValueError, f"tle.dsa.{name}: every entry of `{parameter}` must be a positive compile-time int, got {extent!r}")
    return tuple(shape)


def number_handle(name: str, parameter: str, number, semantic):
    """An int as it is, an integer scalar as an i32 handle."""
    if is_int(number):
        return number
    if not isinstance(number, tl.tensor) or number.type.is_block() or not number.dtype.is_int():
        given = number.type if isinstance(number, tl.tensor) else repr(number)
        refuse(ValueError, f"tle.dsa.{name}: every entry of `{parameter}` must be an int or an integer scalar, got {given}")
    return semantic.cast(number, tl.int32).handle


def indices_of(name: str, parameter: str, numbers, shape: tuple[int, ...], semantic) -> tuple:
    """One number a dimension of `shape`, ints within it."""
    if not isinstance(numbers, (tuple, list)):
        refuse(ValueError, f"tle.dsa.{name}: `{parameter}` must be a list or tuple, got {numbers!r}")
    if len(numbers) != len(shape):
        refuse(ValueError, f"tle.dsa.{name}: `{parameter}` has {len(numbers)} entries for the shape {list(shape)} of rank "
                           f"{len(shape)}")
    for number, extent in zip(numbers, shape):
        if is_int(number) and not 0 <= number < extent:
            refuse(ValueError, f"tle.dsa.{name}: {number} in `{parameter}` is outside the {extent} elements of that axis of "
                               f"{list(shape)}")
    return tuple(number_handle(name, parameter, number, semantic) for number in numbers)


def box_of(name: str, shape: tuple[int, ...], offsets, sizes, strides, semantic, run_time: type[Exception] = ValueError) -> tuple:
    """Offsets, sizes and steps of a box in `shape`: each of one rank, and inside where that is known."""
    if not shape:
        refuse(ValueError, f"tle.dsa.{name}: a source of rank 0 has no box")
    sizes = checked_extents(name, "sizes", sizes, run_time)
    strides = checked_extents(name, "strides", strides, run_time)
    for parameter, given in (("sizes", sizes), ("strides", strides)):
        if len(given) != len(shape):
            refuse(ValueError, f"tle.dsa.{name}: `{parameter}` has {len(given)} entries for the shape {list(shape)} of rank "
                               f"{len(shape)}")
    offsets = indices_of(name, "offsets", offsets, shape, semantic)
    for axis, (offset, size, stride, extent) in enumerate(zip(offsets, sizes, strides, shape)):
        last = (offset if is_int(offset) else 0) + (size - 1) * stride
        if last >= extent:
            refuse(ValueError, f"tle.dsa.{name}: along axis {axis} the box ends at element {last} of {extent}: offset "
                               f"{offset if is_int(offset) else 'at least 0'}, size {size}, stride {stride}")
    return offsets, sizes, strides


def exact_shapes(name: str, shape: tuple[int, ...], semantic) -> None:
    """ValueError for a tensor that the target cannot have: on GPUs extents are powers of two."""
    if any(extent & (extent - 1) for extent in shape) and not has_exact_shapes(semantic):
        refuse(ValueError, f"tle.dsa.{name}: a tensor of the shape {list(shape)} cannot be on {semantic.builder.options.arch}: the "
                           "extents of tensors on GPUs are powers of two",
               mend="work on the buffers (tle.dsa.add, tle.dsa.copy with a tail, tle.dsa.local_ptr), which may have any extents; "
                    'or simulate for target="ascend_910b", where tensors may have any, too')


def has_exact_shapes(semantic) -> bool:
    """True of the targets on which a tensor may have any extents."""
    return str(semantic.builder.options.arch).startswith("ascend")
