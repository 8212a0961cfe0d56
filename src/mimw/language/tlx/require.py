"""Words that fix, free, compare or show the layout of a tile.

Input: the arguments of a kernel's call. Output: ops of `ir/ops/layouts.py`. For example:

    y = tlx.require_layout(x, tlx.layout(shape, stride))      %y = require_layout %x, layout=ThreadValue(..), pin=True
    z = tlx.release_layout(y)                                 %z = release_layout %y : fp32[256]
    tlx.dump_layout(y)                                        dump_layout %y
"""

from __future__ import annotations

import triton.language.core as tl

from ...errors import KernelError
from ..core import not_yet, word
from ..refuse import refuse
from .layouts import layout_encoding
from .register_layouts import amd_mfma_layout, dot_operand_layout
from .register_layouts import layout as thread_value_layout
from .types import buffered_tensor

__all__ = ["assert_same_layout", "dump_layout", "release_layout", "require_layout"]


def register_layout(name: str, layout, semantic):
    """A register layout as the solver takes it; an error unless it is one of ours that this release offers."""
    if isinstance(layout, (thread_value_layout, amd_mfma_layout, dot_operand_layout)) and (known := layout.to_ir()) is not None:
        return known
    if isinstance(layout, layout_encoding):
        raise not_yet(semantic, f"{name}(layout={type(layout).__name__})", hint="write it as tlx.layout(shape, stride), or as "
                      "tlx.amd_mfma_layout of one CTA, or an operand of it")
    refuse(TypeError, f"{name}: `layout` must be a register layout such as tlx.layout(shape, stride), got {type(layout).__name__}")


@word
def require_layout(x, layout: tl.constexpr, pin: tl.constexpr = True, late_address_compute: tl.constexpr = False,
                   _semantic=None) -> tl.tensor:
    """`x` in that register layout, converted if it is in another.

    args:      x      - block tensor
               layout - a register layout for its shape and this task's threads
               pin    - a hard anchor: no pass moves it, and element-wise ops, reductions, loops and casts go on in it up to a
                        memory access, a dot or `release_layout`; elements of 8 bits and less, and on AMD of 16, are not held
                        against Triton's own passes. Without, a hint.
               late_address_compute - AMD scheduling hint, no effect elsewhere
    errors:    KernelError for an `x` that is no block tensor; TypeError for anything but a register layout, NotYet for
               one of several CTAs; TargetError and LayoutConflict for one that the chip, the task or the tile does not have;
               AssertionError for a `pin` that is no bool
    lowers to: ttg.convert_layout, and for `pin` an empty ttg.inline_asm
    example:   x = tlx.require_layout(x, tlx.layout(((32, 4), 4), ((4, 128), 1)))
    """
    for name, flag in (("pin", pin), ("late_address_compute", late_address_compute)):
        if not isinstance(flag, bool):
            refuse(AssertionError, f"require_layout: {name} must be a bool, got {flag!r}")
    x = _block("require_layout", x, _semantic)
    wanted = register_layout("require_layout", layout, _semantic)
    return tl.tensor(_semantic.builder.record("require_layout", x.handle, wanted, pin).results[0], x.type)


@word
def release_layout(x, _semantic=None) -> tl.tensor:
    """`x`, in whatever layout suits what follows.

    args:      x - block tensor in a layout that the author pinned; a compile error otherwise
    errors:    KernelError for an `x` that is no block tensor
    example:   x = tlx.release_layout(x)
    """
    x = _block("release_layout", x, _semantic)
    return tl.tensor(_semantic.builder.record("release_layout", x.handle).results[0], x.type)


def _block(name: str, x, semantic) -> tl.tensor:
    if not isinstance(x, tl.tensor) or not x.type.is_block():
        refuse(KernelError, f"{name}: `x` must be a block tensor, got {x}")
    return x


@word
def assert_same_layout(lhs, rhs, _semantic=None) -> None:
    """Refuse to compile (`layout assertion failed: LinearLayouts differ`) unless both lie in the same registers.

    args:      lhs - block tensor
               rhs - block tensor of the same shape, or a register layout; else TypeError
    errors:    KernelError for an `lhs` that is no block tensor, and for shapes that differ; TypeError for another
               `rhs`; NotYet for a register layout of several CTAs
    not:       a conversion, nor anything at run time
    example:   tlx.assert_same_layout(x, y)
    """
    if not isinstance(rhs, (tl.tensor, layout_encoding)):
        refuse(TypeError, f"assert_same_layout: rhs must be a tensor or a layout, got {type(rhs).__name__}")
    lhs = _block("assert_same_layout", lhs, _semantic)
    if isinstance(rhs, layout_encoding):
        other = register_layout("assert_same_layout", rhs, _semantic)
    else:
        other = _block("assert_same_layout", rhs, _semantic).handle
        if list(rhs.type.shape) != list(lhs.type.shape):
            refuse(KernelError, f"assert_same_layout: the shapes {list(lhs.type.shape)} and {list(rhs.type.shape)} differ")
    _semantic.builder.record("assert_same_layout", lhs.handle, other)


@word
def dump_layout(x, _semantic=None) -> None:
    """Print the layout of `x` to stderr while compiling: its line, its MLIR type, and threads and values as `shape:stride`.

    args:      x - block tensor or one buffer
    errors:    KernelError for anything else
    not:       anything at run time, or when the compiled kernel comes from a cache
    example:   tlx.dump_layout(x)
    """
    if isinstance(x, buffered_tensor):
        if x.num:
            refuse(KernelError, f"dump_layout: `x` must be one buffer, but it is an array of {x.num}", mend="index it: `x[0]`")
    else:
        x = _block("dump_layout", x, _semantic)
    _semantic.builder.record("dump_layout", x.handle)
