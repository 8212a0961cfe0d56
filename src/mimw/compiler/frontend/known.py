"""Numbers and texts that a value of ours says of itself, as literals are.

Input: what an attribute or an element is. Output: a constant of Triton's, also in tuples; anything else as it is. For example:

    tl.static_range(mesh.size)          known(6) is tl.constexpr(6)
    mesh.shape == (2, 2)                known((2, 2)) is a tuple of two constants
"""

from __future__ import annotations

from ..triton_port.codegen import constexpr, triton_tuple


def known(value):
    """The constant."""
    if type(value) in (bool, int, float, str):
        return constexpr(value)
    if type(value) is tuple:
        items = [known(item) for item in value]
        if all(isinstance(item, (constexpr, triton_tuple)) for item in items):
            return triton_tuple(items)
    return value
