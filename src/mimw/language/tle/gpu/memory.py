"""`memory_space` and `alloc`: where tiles are to live, and arrays in shared memory.

Input: the arguments of a kernel's call. Output: `local_alloc` of the padded extents for `alloc`, no op for
`memory_space`:

    tiles = tle.gpu.alloc([3, 48], tl.float16)              %tiles = local_alloc buffer<fp16[3, 64]>
    t = tle.gpu.memory_space(t, "shared_memory")            t itself
"""

from __future__ import annotations

import triton.language.core as tl

from ...core import word
from ...described import element_type
from ...refuse import refuse
from ...tlx.arguments import is_int
from ...tlx.layouts import shared_layout_encoding
from .types import buffered_tensor_type, scope, smem, tmem


@word
def memory_space(input, space: tl.constexpr, _semantic=None):
    """A wish for where a tile should live. The tile itself comes back; this release leaves the choice to the compiler.

    args:      input - a tile or scalar
               space - "shared_memory", "tensor_memory", "register", or a name that another target knows
    errors:    ValueError if `input` is no tensor or `space` no string
    example:   x = tle.gpu.memory_space(x, "shared_memory")
    """
    if not isinstance(input, tl.tensor):
        refuse(ValueError, f"tle.gpu.memory_space: `input` must be a tensor, got {input}")
    if not isinstance(space, str):
        refuse(ValueError, f"tle.gpu.memory_space: `space` must be a compile-time string, got {space!r}")
    return input


@word
def alloc(shape, dtype, layout=None, scope=smem, init_value=None, nv_mma_shared_layout: tl.constexpr = True, _semantic=None):
    """Reserve an array in shared memory.

    args:      shape  - extents, positive compile-time ints; any rank, also 0
               dtype  - element type; bool takes a byte
               layout - (opt) a shared layout, then fixed; by default the solver picks it to suit the uses
               scope  - tle.gpu.smem
               init_value - (opt) tensor of this shape and dtype that the array starts as
               nv_mma_shared_layout - a hint: False prefers plain rows, unless TMA or the tensor cores read the array
    returns:   buffered_tensor; what indices mean is the same under every layout
    not:       zeroed. Extents that are no powers of two are padded in memory.
    errors:    ValueError for anything else
    lowers to: ttg.local_alloc
    example:   tile = tle.gpu.alloc([64, 64], tl.float16)
    """
    shape = _checked_shape(shape)
    if not isinstance(dtype, tl.dtype) or dtype.is_block() or dtype.is_ptr() or dtype == tl.void:
        refuse(ValueError, f"tle.gpu.alloc: dtype must be a scalar tl.dtype such as tl.float16, got {dtype}",
               mend=element_type(dtype))
    _check_scope(scope, _semantic)
    if layout is not None and not isinstance(layout, shared_layout_encoding):
        refuse(ValueError, f"tle.gpu.alloc: layout must be a shared layout or None, got {layout}")
    if not isinstance(nv_mma_shared_layout, bool):
        refuse(ValueError, f"tle.gpu.alloc: nv_mma_shared_layout must be a bool, got {nv_mma_shared_layout!r}")
    if init_value is not None:
        _check_init(init_value, shape, dtype)
    type_, builder = buffered_tensor_type(dtype, shape, layout), _semantic.builder
    stored = type_.to_ir(builder)
    pinned = None if layout is None else layout.to_ir(stored.shape, stored.element.bits)
    if layout is not None and stored.shape[0] & (stored.shape[0] - 1):
        refuse(ValueError, f"tle.gpu.alloc: with a layout, the first extent must be a power of two, got {stored.shape[0]}")
    if layout is not None and pinned is None:
        refuse(ValueError, f"tle.gpu.alloc: this release offers no layout {layout}")
    attrs = {} if nv_mma_shared_layout else {"plain": True}
    buffer = type_.value(builder.record("local_alloc", stored, None, layout=pinned, **attrs).results[0])
    if init_value is not None:
        from .pointers import local_ptr
        pointers = local_ptr(buffer, _semantic=_semantic)
        tl.store(pointers, init_value, _semantic=_semantic)
    return buffer


def _checked_shape(shape) -> tuple[int, ...]:
    if not isinstance(shape, (tuple, list)):
        refuse(ValueError, f"tle.gpu.alloc: shape must be a list or tuple, got {shape!r}")
    for extent in shape:
        if not is_int(extent) or extent <= 0:
            refuse(ValueError, f"tle.gpu.alloc: every extent must be a positive compile-time int, got {extent}")
    return tuple(shape)


def _check_scope(where, semantic) -> None:
    if not isinstance(where, scope):
        refuse(ValueError, f"tle.gpu.alloc: scope must be a tle.gpu.scope such as tle.gpu.smem, got {where!r}")
    if where is tmem:
        refuse(ValueError, "tle.gpu.alloc: tensor memory not supported on this target "
                           f"({semantic.builder.options.arch}); use tle.gpu.smem")


def _check_init(value, shape: tuple[int, ...], dtype) -> None:
    if not isinstance(value, tl.tensor):
        refuse(ValueError, f"tle.gpu.alloc: init_value must be a tensor, got {value}")
    have = tuple(value.type.shape) if value.type.is_block() else ()
    if have != shape or value.dtype != dtype:
        refuse(ValueError, f"tle.gpu.alloc: init_value must be a {dtype} tensor of the shape {list(shape)}, got {value.dtype} of "
                           f"the shape {list(have)}")
