"""`tle.load`: `tl.load` with a hint.

Input: the arguments of a kernel's call. Output: the op of `tl.load`; the hint `is_async` is checked and changes
nothing:

    v = tle.load(x + at, is_async=True)         %v = load %0, ['cache', 'none', 'evict_normal'], is_volatile=False
"""

from __future__ import annotations

import triton.language.core as tl

from ..core import word
from ..refuse import refuse


@word
def load(pointer=None, mask=None, other=None, is_async: tl.constexpr = False, *, boundary_check: tl.constexpr = (),
         padding_option: tl.constexpr = "", cache_modifier: tl.constexpr = "", eviction_policy: tl.constexpr = "",
         volatile: tl.constexpr = False, ptr=None, _semantic=None):
    """`tl.load`, which may be issued asynchronously.

    args:      pointer  - (also called `ptr`) a pointer or a block of pointers
               mask, other, cache_modifier, eviction_policy, volatile - as in `tl.load`
               boundary_check, padding_option - only the defaults: they belong to block pointers, which Triton 3.9 has not
               is_async - a hint; the result is the same with and without
    errors:    those of `tl.load`; TypeError unless the pointer is given once; ValueError if `is_async` is not a compile-time bool
    lowers to: tt.load
    example:   x = tle.load(x_ptr + at, mask=at < n, is_async=True)
    """
    if (pointer is None) == (ptr is None):
        refuse(TypeError, "tle.load: give the pointer once, as `pointer` or as `ptr`")
    if not isinstance(is_async, bool):
        refuse(ValueError, f"tle.load: is_async must be a compile-time bool, got {is_async!r}")
    if tuple(boundary_check) or padding_option:
        refuse(ValueError, "tle.load: boundary_check and padding_option are for block pointers, which Triton 3.9 no longer has; "
                           "use a mask, or a tensor descriptor")
    return tl.load(ptr if pointer is None else pointer, mask, other, cache_modifier=cache_modifier, eviction_policy=eviction_policy,
                   volatile=volatile, _semantic=_semantic)
