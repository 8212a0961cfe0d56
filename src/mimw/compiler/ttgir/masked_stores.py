r"""Reader of assembly that stores a tile of registers into a buffer under a mask, proved register by register.

Input: `ttg.inline_asm` whose text is that of `lowering/nvidia/masked_store.py`. Output: `local_store buffer, value, mask`:

    xor.b32 at, home, 256; add.u32 at, at, $1; setp.ne.u32 on, $40, 0; @on st.shared.v2.b32 [at], {$4, $5};

The text says at which byte each register of each thread goes. That has to be the byte at which the buffer's layout has the element
that the tile's layout has in that register; if one of them is another, the text is refused.
"""

from __future__ import annotations

import re
from math import prod

import numpy as np

from ...ir import I1, Value, like
from .assembly import form
from .element_registers import elements
from .layout_memory import buffer_map
from .layout_text import LayoutProblem
from .layouts import tile_map
from .reading import Here
from .types import layout_in

_PART = re.compile(r"and\.b32 part, \$0, (\d+); (?:(shl|shr)\.b32 part, part, (\d+); )?xor\.b32 home, home, part;")
_PACKED = re.compile(r"prmt\.b32 (\w+), (\$?\w+), (\$?\w+), (0x0040|0x5410);")
_STORE = re.compile(r"xor\.b32 at, home, (\d+); add\.u32 at, at, \$1; setp\.ne\.u32 on, \$(\d+), 0; "
                    r"@on st\.shared(?:\.v\d)?\.b(\d+) \[at\], \{?([^};]*)\}?;")


@form(r"\{ \.reg \.pred on; \.reg \.b32 at, home, part; mov\.b32 home, 0; .*@on st\.shared.* \}")
def stored(here: Here, found):
    _, buffer, value, flags = here.operands
    element = buffer.type.element
    try:
        run = _proved(here, found[0], buffer, value)
    except LayoutProblem as problem:
        raise here.unreadable(f"a masked store into a layout that is not followed: {problem}") from None
    ops, tile = elements(here, value, element)
    mask = here.value(like(value.type, I1))
    zero, nothing = here.number(0, flags.type)
    ops += [zero, here.op("icmpNE", flags, nothing, results=(mask, ))]
    return [*ops, here.op("local_store", buffer, tile, mask, run=run)]


def _proved(here: Here, text: str, buffer: Value, value: Value) -> int:
    """The number of neighbours that go in one store, under the flag of the first. Raises LayoutProblem, or refuses, where the text
    does not store the whole tile to where the buffer has it."""
    size, shape = buffer.type.element.bytes, buffer.type.shape
    held = tile_map(layout_in(here.operand_texts[2]), shape).elements().reshape(-1, _registers(text))
    places = buffer_map(layout_in(here.operand_texts[1]), shape, 8 * size).offsets().reshape(-1)
    threads = np.arange(len(held))
    home = np.zeros_like(threads)
    for bits, way, by in _PART.findall(text):
        part = threads & int(bits)
        home ^= part << int(by) if way == "shl" else part >> int(by) if way else part
    packed, seen, run = {}, np.zeros(prod(shape), bool), 1
    for name, low, high, _ in _PACKED.findall(text):
        packed[name] = [*_of(low, packed), *_of(high, packed)]
    for offset, flag, width, words in _STORE.findall(text):
        registers = [one for word in words.split(", ") for one in _of(word, packed)]
        run = max(run, len(registers))
        if len(registers) * size != int(width) // 8 * len(words.split(", ")) or int(flag) != registers[0] + 2 + held.shape[1]:
            raise here.unreadable("a masked store of other registers than its flags")
        for number, register in enumerate(registers):
            elements = held[:, register]
            if (places[elements] != (home ^ int(offset)) + number * size).any():
                raise here.unreadable(f"a masked store puts register {register} where the buffer has another element")
            seen[elements] = True
    if not seen.all():
        raise here.unreadable("a masked store leaves elements out")
    return run


def _registers(text: str) -> int:
    """The registers that a thread holds of the tile: flags follow values, whose first is $2."""
    first, *_ = (int(flag) for _, flag, _, _ in _STORE.findall(text))
    return first - 2


def _of(name: str, packed: dict[str, list[int]]) -> list[int]:
    """The registers of the tile that a name holds, from the lowest byte on."""
    return [int(name[1:]) - 2] if name.startswith("$") else packed[name]
