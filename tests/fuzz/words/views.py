"""Views of buffers: slices, transposes, reshapes, the same bytes as another type; read and written through."""

from __future__ import annotations

from ..elements import ELEMENTS
from ..maker import Maker
from ..tree import Value
from . import word
from .shared import HOLDS, held, new_buffer, of_rank, slot_index


def through(make: Maker, buffer, kernel: str, reading: str, shape, element=None, bound=HOLDS) -> None:
    """Read a view, or write it and leave the rest."""
    element = element or buffer.element
    if make.draws.chance(40) and element == buffer.element:
        value = held(make.operand(shape=shape), element)
        make.step(
            [f"tlx.local_store({kernel}, {value.kernel})"],
            [f"{reading}[...] = {value.reading}"],
            value.uses,
            (*value.states, buffer.state),
        )
    else:
        make.let(
            Value(
                f"tlx.local_load({kernel})",
                f"{reading}.copy()",
                element,
                shape,
                bound,
                states=frozenset({buffer.state}),
            )
        )


@word("views", 2)
def slices(make: Maker):
    buffer = of_rank(make, 2, tlx=True)
    if buffer is None or buffer.swizzled:
        return False
    index = slot_index(make, buffer)
    rows, columns = buffer.shape
    small = (rows // make.draws.pick([1, 2]), columns // make.draws.pick([1, 2]))
    if small[0] < 8 or small[1] < 8:
        return False
    corner = (
        make.draws.integer(0, rows // small[0] - 1) * small[0],
        make.draws.integer(0, columns // small[1] - 1) * small[1],
    )
    through(
        make,
        buffer,
        f"tlx.local_slice({buffer.slot(index)}, {list(corner)}, {list(small)})",
        f"{buffer.reading(index)}[{corner[0]}:{corner[0] + small[0]}, {corner[1]}:{corner[1] + small[1]}]",
        small,
    )


@word("views", 2)
def transposed(make: Maker):
    buffer = of_rank(make, 2, tlx=True)
    if buffer is None or buffer.swizzled:
        return False
    index = slot_index(make, buffer)
    view = make.draws.pick(
        [f"tlx.local_trans({buffer.slot(index)})", f"tlx.local_trans(tlx.local_view({buffer.name}, {index}), (1, 0))"]
    )
    through(make, buffer, view, f"{buffer.reading(index)}.T", buffer.shape[::-1])


@word("views", 1)
def reshaped(make: Maker):
    buffer = new_buffer(make, shape=make.draws.pick([(64,), (128,), (256,)]), tlx=True, layout=False)
    if buffer is None:
        return False
    index = slot_index(make, buffer)
    shape = (buffer.shape[0] // 16, 16)
    through(
        make,
        buffer,
        f"tlx.local_reshape({buffer.slot(index)}, {shape})",
        f"{buffer.reading(index)}.reshape({shape})",
        shape,
    )


@word("views", 1)
def reinterpreted(make: Maker):
    """The same bytes as another type of the size."""
    element, other = make.draws.pick([("f32", "i32"), ("i32", "f32"), ("i16", "f16"), ("f16", "i16"), ("u8", "i8")])
    buffer = new_buffer(make, shape=make.shape(1), element=element, tlx=True, layout=False)
    if buffer is None:
        return False
    index, tl_name = slot_index(make, buffer), ELEMENTS[other].tl
    view = make.draws.pick(
        [
            f"tlx.local_reinterpret({buffer.slot(index)}, {tl_name})",
            f"tlx.local_reinterpret({buffer.name}, {tl_name})[{index}]",
        ]
    )
    bits = Value(
        f"tlx.local_load({view})",
        f"{buffer.reading(index)}.view({ELEMENTS[other].reading}).copy()",
        other,
        buffer.shape,
        ELEMENTS[other].exact,
        states=frozenset({buffer.state}),
    )
    if (
        ELEMENTS[other].kind == "float"
    ):  # the bits of small integers are no numbers to count with: look at the bits again
        back = {"f32": "i32", "f16": "i16"}[other]
        bits = Value(
            f"({bits.kernel}).to({ELEMENTS[back].tl}, bitcast=True)",
            f"({bits.reading}).view({ELEMENTS[back].reading})",
            back,
            buffer.shape,
            ELEMENTS[back].exact,
            states=bits.states,
        )
    make.let(bits)
