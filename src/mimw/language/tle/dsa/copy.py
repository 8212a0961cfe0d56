"""`tle.dsa.copy`: the leading box of a buffer from or to global memory.

Input: the arguments of a kernel's call. Output: the op `dsa_load` or `dsa_store`. For example:

    tle.dsa.copy(x + at, a, [n])        dsa_load %7, %a, [%n]: a[0:n] = x[at[0:n]]
    tle.dsa.copy(a, y + at, [n])        dsa_store %9, %a, [%n]

Only the leading box moves, so the last block of a ragged array needs no mask.
"""

from __future__ import annotations

import triton.language.core as tl

from ...core import word
from ...numbers import is_int
from ...refuse import refuse
from .boxes import number_handle
from .buffers import buffer, stored_type
from .hint import hinted


@word
def copy(src, dst, shape, inter_no_alias: tl.constexpr = None, _semantic=None) -> None:
    """Copy the box [0:shape] between global memory and a buffer; which way, the operands say.

    args:      src, dst - one is a buffer; the other a block of pointers to global memory, of the buffer's rank and element type,
                          with extents of at least `shape`
               shape    - one extent a dimension: an int, or an integer scalar known at run time (the size of a tail), at most the
                          buffer's. Of 0 or less nothing moves
               inter_no_alias - (opt) a promise that iterations of the loop around do not alias: what one stores, no other loads. It
                          changes no value, and lets `tle.dsa.pipeline` load ahead of stores. By default what an enclosing
                          `tle.dsa.hint` says, else False
    orders:    as if done at the call; elements of the destination outside of the box stay as they are
    errors:    ValueError
    lowers to: on a GPU tt.load or tt.store under a mask; ttg.async_copy_global_to_local in a loop that is pipelined
    """
    loads = _checked(src, dst)
    local, pointers = (dst, src) if loads else (src, dst)
    extents = _extents(shape, local, _semantic)
    pointers = _pointers(pointers, local, extents, _semantic)
    promised = hinted(_semantic, "inter_no_alias", False) if inter_no_alias is None else inter_no_alias
    if not isinstance(promised, bool):
        refuse(ValueError, f"tle.dsa.copy: `inter_no_alias` must be a compile-time bool, got {promised!r}")
    attrs = {"inter_no_alias": True} if promised else {}
    _semantic.builder.record("dsa_load" if loads else "dsa_store", pointers.handle, local.handle, extents, **attrs)


def _checked(src, dst) -> bool:
    """True if the copy loads."""
    local = [isinstance(one, buffer) for one in (src, dst)]
    if all(local):
        refuse(ValueError, f"tle.dsa.copy: both operands are buffers, {src} and {dst}",
               mend="between local memories: tle.dsa.to_buffer(tle.dsa.to_tensor(src), space)")
    if not any(local):
        refuse(ValueError, f"tle.dsa.copy: one operand must be a buffer of tle.dsa, got {_named(src)} and {_named(dst)}",
               mend="tle.dsa.alloc makes one")
    other = src if local[1] else dst
    if not isinstance(other, tl.tensor) or not other.dtype.is_ptr():
        refuse(ValueError, f"tle.dsa.copy: the operand besides the buffer must be pointers to global memory, got {_named(other)}")
    if other.dtype.address_space == "shared":
        refuse(ValueError, "tle.dsa.copy: the pointers must point to global memory, these come from local_ptr")
    return local[1]


def _named(operand) -> str:
    return str(operand.type) if isinstance(operand, tl.tensor) else str(operand)


def _extents(shape, local: buffer, semantic) -> tuple:
    if not isinstance(shape, (tuple, list)) or not shape:
        refuse(ValueError, f"tle.dsa.copy: `shape` must be a list or tuple of at least one extent, got {shape!r}")
    if len(shape) != len(local.shape):
        refuse(ValueError, f"tle.dsa.copy: `shape` has {len(shape)} extents, the buffer {list(local.shape)} has rank "
                           f"{len(local.shape)}")
    for extent, room in zip(shape, local.shape):
        if is_int(extent) and not 0 <= extent <= room:
            refuse(ValueError, f"tle.dsa.copy: extent {extent} of `shape` does not fit into the {room} elements of that axis of "
                               f"the buffer {list(local.shape)}")
    return tuple(number_handle("copy", "shape", extent, semantic) for extent in shape)


def _pointers(pointers, local: buffer, extents: tuple, semantic):
    """The pointers, of the buffer's rank, to elements as they lie in memory."""
    if pointers.dtype.element_ty != local.dtype:
        refuse(ValueError, f"tle.dsa.copy: the pointers are to {pointers.dtype.element_ty}, the buffer is of {local.dtype}")
    have = tuple(pointers.type.shape) if pointers.type.is_block() else (1, ) * len(local.shape)
    if len(have) != len(local.shape):
        refuse(ValueError, f"tle.dsa.copy: pointers of the shape {list(have)} for a buffer of rank {len(local.shape)}, "
                           f"{list(local.shape)}")
    for extent, room in zip(extents, have):
        if is_int(extent) and extent > room:
            refuse(ValueError, f"tle.dsa.copy: extent {extent} of `shape` is more than the {room} pointers along that axis of "
                               f"{list(have)}")
    if not pointers.type.is_block():
        pointers = semantic.splat(pointers, list(have))
    return semantic.cast(pointers, tl.pointer_type(stored_type(tl.int1))) if local.dtype == tl.int1 else pointers
