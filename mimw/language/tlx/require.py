"""Words that fix or compare the layout of a tile. Not offered yet: each checks its arguments, then says so."""

from __future__ import annotations

import triton.language.core as tl

from ..core import not_yet, word
from .layouts import layout_encoding


@word
def require_layout(x, layout: tl.constexpr, pin: tl.constexpr = True, late_address_compute: tl.constexpr = False,
                   _semantic=None) -> tl.tensor:
    """`x` in that register layout; not offered yet."""
    for name, flag in (("pin", pin), ("late_address_compute", late_address_compute)):
        assert isinstance(flag, bool), f"require_layout: {name} must be a bool, got {flag!r}"
    raise not_yet(_semantic, "require_layout")


@word
def assert_same_layout(lhs, rhs, _semantic=None) -> None:
    """Refuse to compile unless both have one layout; not offered yet."""
    if not isinstance(rhs, (tl.tensor, layout_encoding)):
        raise TypeError(f"assert_same_layout: rhs must be a tensor or a layout, got {type(rhs).__name__}")
    raise not_yet(_semantic, "assert_same_layout")
