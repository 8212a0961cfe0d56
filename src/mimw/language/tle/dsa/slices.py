"""Boxes of tensors: `extract_slice`, `insert_slice`, `extract_element`, as functions and as methods of tensors.

Input: a tensor of a kernel's call and a box of it. Output: the ops `dsa_extract_slice`, `dsa_insert_slice`, `dsa_extract_element`:

    h = tle.dsa.extract_slice(x, [at], [32], [2])       x[at + 2 * j] for j in 0..31
    x = tle.dsa.insert_slice(x, h, [at], [32], [2])     x with these elements replaced
    e = tle.dsa.extract_element(x, (at, ))              the scalar x[at]
"""

from __future__ import annotations

import triton.language.core as tl

from ...core import word
from ...refuse import refuse
from .boxes import box_of, exact_shapes, indices_of


def _block(name: str, parameter: str, value) -> tuple[int, ...]:
    if not isinstance(value, tl.tensor) or not value.type.is_block():
        refuse(ValueError, f"tle.dsa.{name}: `{parameter}` must be a block tensor, got "
                           f"{value.type if isinstance(value, tl.tensor) else value}")
    return tuple(value.type.shape)


@word
def extract_slice(full, offsets, sizes, strides, _semantic=None) -> tl.tensor:
    """A box of a tensor, as a value: element j is full[offsets + j * strides].

    args:      full    - block tensor
               offsets - one a dimension: an int or an integer scalar. Out of the tensor at run time is undefined
               sizes, strides - one a dimension: positive compile-time ints
    returns:   tensor of the shape `sizes`
    errors:    ValueError; on a GPU also for sizes that are no powers of two
    lowers to: on a GPU tt.gather
    """
    offsets, sizes, strides = box_of("extract_slice", _block("extract_slice", "full", full), offsets, sizes, strides, _semantic)
    exact_shapes("extract_slice", sizes, _semantic)
    handle = _semantic.builder.record("dsa_extract_slice", full.handle, offsets, sizes, strides).results[0]
    return tl.tensor(handle, tl.block_type(full.dtype, list(sizes)))


@word
def insert_slice(full, sub, offsets, sizes=None, strides=None, _semantic=None) -> tl.tensor:
    """`full` with a box of it replaced: element offsets + j * strides is sub[j].

    args:      full    - block tensor, which stays as it is
               sub     - block tensor of the shape `sizes` and of the same element type
               offsets, sizes, strides - as of `extract_slice`; by default `sub`'s shape, and ones
    returns:   tensor like `full`
    errors:    ValueError
    lowers to: on a GPU tt.gather and arith.select
    """
    shape, part = _block("insert_slice", "full", full), _block("insert_slice", "sub", sub)
    sizes = part if sizes is None else sizes
    strides = (1, ) * len(shape) if strides is None else strides
    offsets, sizes, strides = box_of("insert_slice", shape, offsets, sizes, strides, _semantic)
    if part != sizes:
        refuse(ValueError, f"tle.dsa.insert_slice: `sub` has the shape {list(part)}, and `sizes` says {list(sizes)}")
    if sub.dtype != full.dtype:
        refuse(ValueError, f"tle.dsa.insert_slice: `sub` holds {sub.dtype}, `full` {full.dtype}",
               mend="convert first: sub.to(full.dtype)")
    handle = _semantic.builder.record("dsa_insert_slice", full.handle, sub.handle, offsets, sizes, strides).results[0]
    return tl.tensor(handle, full.type)


@word
def extract_element(src, indice, _semantic=None) -> tl.tensor:
    """One element of a tensor, as a scalar.

    args:      src    - block tensor
               indice - one a dimension: an int or an integer scalar. Out of the tensor at run time is undefined
    returns:   scalar of the tensor's element type
    errors:    ValueError
    lowers to: on a GPU tt.gather and tt.unsplat
    """
    shape = _block("extract_element", "src", src)
    where = indices_of("extract_element", "indice", indice, shape, _semantic)
    handle = _semantic.builder.record("dsa_extract_element", src.handle, where).results[0]
    return tl.tensor(handle, src.dtype)


tl.tensor.extract_slice = extract_slice
tl.tensor.insert_slice = insert_slice
