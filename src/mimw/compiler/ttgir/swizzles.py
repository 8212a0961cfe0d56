"""Whether all that touch one piece of shared memory agree how its bytes are swizzled.

Input: a copy by TMA, a view of a buffer, or a tensor map that a kernel makes. Output: nothing, or a `LayoutConflict`. For example:

    agree(here, descriptor, buffer)         the descriptor swizzles over 64 bytes, and the buffer is laid out for 128

Our buffers have no layouts: the simulator keeps elements where their indices say. On a chip a copy engine swizzles as its
descriptor says, and who reads the memory unswizzles as the type of the buffer says; where the two differ, elements are exchanged
in silence. So both are compared here, from the types of the module (PTX ISA, "Swizzling modes"; `swizzle_mode` numbers them as
`CUtensorMapSwizzle` of the CUDA driver API does).
"""

from __future__ import annotations

import re

from ...errors import LayoutConflict
from ...ir import Site
from .reading import Here
from .types import layout_in

_WIDTHS = {0: 0, 1: 32, 2: 64, 3: 128}      # bytes by the number of a mode
_FIELD = re.compile(r"(swizzlingByteWidth|transposed|elementBitWidth|fp4Padded) = (\w+)")
_PLAIN = {"transposed": "false", "fp4Padded": "false"}


def agree(here: Here, descriptor: int, buffer: int) -> None:
    """A copy by TMA: the layout of its descriptor's type is that of the buffer's, in all that says where bytes lie."""
    one, other = (_fields(here.reader.texts[number]) for number in (descriptor, buffer))
    if one is not None and other is not None and one != other:
        raise LayoutConflict(f"this copy's descriptor has {_said(one, other)}, and its buffer has {_said(other, one)}: what reads "
                             "the buffer finds elements of other places", here.site, _site_of(here, buffer),
                             hint="give both one layout")


def keep(here: Here) -> None:
    """A view of a buffer has the buffer's layout."""
    source, view = here.reader.texts[here.node.operands[0]], here.node.results[0][1]
    if layout_in(source) != layout_in(view):
        raise LayoutConflict(f"this view of a buffer has the layout {layout_in(view)}, and the buffer has {layout_in(source)}: "
                             "elements are looked for in other places", here.site, _site_of(here, here.node.operands[0]),
                             hint="give the view the buffer's layout; ttg.memdesc_reinterpret looks at memory as another one")


def mapped(here: Here, mode: int, made: Site) -> None:
    """A tensor map that a kernel makes is looked at as a descriptor of the same swizzle."""
    fields = _fields(here.node.results[0][1])
    if fields is not None and int(fields["swizzlingByteWidth"]) != _WIDTHS[mode]:
        raise LayoutConflict(f"the tensor map is made with swizzle_mode {mode}, which is {_WIDTHS[mode]} bytes, and the "
                             f"descriptor that it is looked at as has swizzlingByteWidth = {fields['swizzlingByteWidth']}: copies "
                             "put elements in other places than readers look", made, here.site,
                             hint="0, 1, 2, 3 are 0, 32, 64, 128 bytes")


def _fields(text: str) -> dict[str, str] | None:
    """What a type's layout says of places of bytes; None of a layout for other units than TMA."""
    layout = layout_in(text)
    return _PLAIN | dict(_FIELD.findall(layout)) if layout.startswith("#ttg.nvmma_shared") else None


def _said(one: dict[str, str], other: dict[str, str]) -> str:
    return ", ".join(f"{name} = {value}" for name, value in one.items() if value != other.get(name)) or "none of it"


def _site_of(here: Here, number: int) -> Site | None:
    """Where the memory of a value is made: what is captured by a partition is a value from outside."""
    values, made_by = here.reader.values, here.reader.made_by
    same = (other for other, value in values.items() if value is values[number] and other in made_by)
    return next((Here(here.reader, made_by[other]).site for other in same), None)
