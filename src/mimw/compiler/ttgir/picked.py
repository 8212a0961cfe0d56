r"""Readers of assembly that reaches picked elements of shared memory by computed addresses: masked stores, compare-and-swap.

Input: `ttg.inline_asm` whose text is that of `lowering/nvidia/per_thread.py`. Output: ours on flat buffers. For example:

    "{ .. add.u32 at, $1, $2; .. @on st.shared.b16 [at], $3; }"                         local_masked_scatter of the elements there

Assembly counts in bytes of memory. The layout of the buffer says which element lies there: the number of an element and its place
are XOR-linear maps of each other, so that the number is made of the place by shifts.
"""

from __future__ import annotations

import re

from ...ir import I1, Op, Tensor, Value, like
from ...ir.byte_maps import inverse
from .assembly import form
from .element_registers import elements, registers
from .layout_memory import buffer_map
from .layout_text import LayoutProblem, read_layout
from .reading import Here
from .types import layout_in

_BEGIN = (r"\{{ \.reg \.pred on, mine; \.reg \.b32 at; \.reg \.b16 h0, h1, h2; setp\.lt\.u32 mine, \$(\d+), (\d+); "
          r"((?:{step})+)\}}")
_ADDRESS = r"add\.u32 at, \$\d+, \$\d+; "
_SCATTER = _ADDRESS + r"setp\.ne\.s32 on, \$\d+, 0; and\.pred on, on, mine; @on st\.shared\.b\d+ \[at\], \$\d+; "
_SWAP = _ADDRESS + (r"(?:mov\.b\d+ \$\d+, 0; @mine atom\.relaxed\.cta\.shared\.cas\.b\d+ \$\d+, \[at\], \$\d+, \$\d+; |"
                    r"cvt\.u16\.u32 h0, \$\d+; cvt\.u16\.u32 h1, \$\d+; mov\.b16 h2, 0; @mine atom\.relaxed\.cta\.shared\.cas\.b16 "
                    r"h2, \[at\], h0, h1; cvt\.u32\.u16 \$\d+, h2; )")


@form(_BEGIN.format(step=_SCATTER))
def scattered(here: Here, found):
    _, buffer, offsets, value, flags = _operands(here)
    count = int(found[2])
    _checked(here, found[3], 0, offsets.type.shape[0], count)
    ops, flat, numbers = _flat(here, buffer, offsets)
    more, tile = elements(here, value, flat.type.element)
    zero, nothing = here.number(0, flags.type)
    mask = here.value(like(flags.type, I1))
    return [*ops, *more, zero, here.op("icmpNE", flags, nothing, results=(mask, )),
            here.op("local_masked_scatter", flat, tile, numbers, mask)]


@form(_BEGIN.format(step=_SWAP))
def swapped(here: Here, found):
    """The result has an element for each thread: those behind the first ones are copies here."""
    _, buffer, offsets, compare, value = _operands(here)
    (extent, ) = offsets.type.shape
    (type_, ) = here.types
    _checked(here, found[3], 1, extent, int(found[2]))
    ops, flat, numbers = _flat(here, buffer, offsets)
    first, old = elements(here, compare, flat.type.element)
    second, new = elements(here, value, flat.type.element)
    result = here.value(Tensor(flat.type.element, (extent, )))
    ops += [*first, *second, here.op("local_atomic_cas", flat, old, new, numbers, results=(result, ))]
    more, result = _repeated(here, result, type_.shape[0])
    return [*ops, *more, *registers(here, result, type_)]


def _repeated(here: Here, tile: Value, extent: int) -> tuple[list[Op], Value]:
    """A tile again and again, until it has so many elements."""
    (short, ) = tile.type.shape
    if short == extent:
        return [], tile
    row, rows, long = (here.value(Tensor(tile.type.element, shape)) for shape in ((1, short), (extent // short, short), (extent, )))
    return [here.op("expand_dims", tile, 0, results=(row, )), here.op("broadcast", row, rows.type, results=(rows, )),
            here.op("reshape", rows, (extent, ), False, results=(long, ))], long


def _operands(here: Here) -> list[Value]:
    if len(here.operands) != 5:
        raise here.unreadable("picked elements of other operands than mimw's lowering has")
    return here.operands


def _checked(here: Here, steps: str, results: int, extent: int, count: int) -> None:
    """Refuse a text whose registers are not one step each: offsets, then tiles, all by the same number."""
    held = steps.count("add.u32 at")
    outputs = held * results
    for number, step in enumerate(re.split(r"(?=add\.u32 at)", steps)[1:]):
        wanted = [outputs + 1] + [outputs + 2 + tile * held + number for tile in range(3)] + [number] * results
        if set(map(int, re.findall(r"\$(\d+)", step))) != set(wanted) or count != extent:
            raise here.unreadable("picked elements whose registers are not one step each")


def _flat(here: Here, buffer: Value, offsets: Value) -> tuple[list[Op], Value, Value]:
    """The ops that see the buffer as flat and make numbers of elements of bytes; the flat buffer; the numbers."""
    size, shape = buffer.type.element.bytes, buffer.type.shape
    try:
        layout = buffer_map(layout_in(here.operand_texts[1]), shape[-_rank(here):], 8 * size)
    except LayoutProblem as problem:
        raise here.unreadable(f"picked elements of memory whose layout is not followed: {problem}") from None
    if layout.gaps:
        raise here.unreadable("picked elements of padded memory")
    images = [step for along in reversed(layout.steps) for step in along]
    tile = size
    for extent in layout.shape:
        tile *= extent
    slots = 1
    for extent in shape[:-len(layout.shape)]:
        slots *= extent
    images += [tile << bit for bit in range((slots - 1).bit_length())]
    back = inverse([image // size for image in images])
    flat = here.value(type(buffer.type)(buffer.type.element, (1 << len(images), )))
    ops = [here.op("buffer_reinterpret", buffer, flat.type, results=(flat, ))]
    numbers = None
    for bit, image in enumerate(back):
        for place in range(image.bit_length()):
            if image >> place & 1:
                made, one = _moved(here, offsets, bit + size.bit_length() - 1, place)
                ops += made
                if numbers is not None:
                    both = here.value(offsets.type)
                    ops.append(here.op("xor", numbers, one, results=(both, )))
                    one = both
                numbers = one
    return ops, flat, numbers


def _rank(here: Here) -> int:
    layout = read_layout(layout_in(here.operand_texts[1]))
    return len(layout.get("order", ())) or layout.get("rank", 0) or len(here.operands[1].type.shape)


def _moved(here: Here, tile: Value, bit: int, place: int) -> tuple[list[Op], Value]:
    """One bit of each element, at another place."""
    taken, moved = here.value(tile.type), here.value(tile.type)
    chosen, mask = here.number(1 << bit, tile.type)
    by, steps = here.number(abs(bit - place), tile.type)
    return [chosen, by, here.op("and", tile, mask, results=(taken, )),
            here.op("lshr" if bit >= place else "shl", taken, steps, results=(moved, ))], moved

