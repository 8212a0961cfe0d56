r"""Readers of assembly on picked elements of other CTAs' shared memory: loads, stores and atomics.

Input: `ttg.inline_asm` whose text is that of `lowering/hopper/remote_elements.py`. Output: ours. For example:

    mad.lo.u32 to, $3, 4, $0; mapa.shared::cluster.u32 to, to, $5; st.shared::cluster.b32 [to], $7;     remote_scatter

Operands: the buffer, the numbers of elements, the rank of each, tiles of values, and what says which are meant. Of neighbours that
go in one access only the first one's number, rank and mask are looked at by the text, and so by what is read.
"""

from __future__ import annotations

import re

from ...ir import I1, I32, Op, Value, like
from .assembly import form
from .element_registers import elements, registers
from .layout_text import LayoutProblem, read_layout
from .memory import ORDERS
from .reading import Here
from .types import layout_in

_PLACE = r"mad\.lo\.u32 to, \$(\d+), (\d+), \$(\d+); mapa\.shared::cluster\.u32 to, to, \$(\d+); "
_ADDRESS = re.compile(_PLACE)
_HEAD = r"\{ \.reg \.pred on; \.reg \.b32 to; (?:\.reg \.pred mine; setp\.lt\.u32 mine, \$\d+, \d+; )?"
_ATOMIC = re.compile(r"atom\.(\w+)\.(\w+)\.shared::cluster\.(\w+)(?:\.noftz)?\.([a-z]+?)\d+ ")
_STEP = re.compile(r"(add|max|min|and|or|xor)\.([a-z])64 next, ")
_KINDS = {"add.u": "ADD", "add.f": "FADD", "add.bf": "FADD", "max.s": "MAX", "min.s": "MIN", "max.u": "UMAX", "min.u": "UMIN",
          "and.b": "AND", "or.b": "OR", "xor.b": "XOR", "exch.b": "XCHG"}
_SCOPES = {"cluster": "CTA", "gpu": "GPU", "sys": "SYSTEM"}


@form(_HEAD + r"(?!\.reg \.b32 me, at;).*ld\.shared::cluster.*\}")
def loaded(here: Here, found):
    buffer, position, rank, *rest = here.operands
    ops, (position, rank, *flags), each = _places(here, found[0], [position, rank, *rest[:1]])
    made, mask = _true(here, flags[0]) if flags else ([], None)
    ops, other = ops + made, None
    if len(rest) > 1:
        made, other = elements(here, rest[1], buffer.type.element)
        ops += made
    (type_, ) = here.types
    tile = here.value(like(type_, buffer.type.element))
    ops.append(here.op("remote_load", buffer, position, rank, mask, other, run=each, results=(tile, )))
    return [*ops, *registers(here, tile, type_)]


@form(_HEAD + r"mad[^;]*; mapa.*st\.shared::cluster.*\}")
def scattered(here: Here, found):
    buffer, position, rank, value, *rest = _meant(here, found[0])
    ops, (position, rank, *flags), each = _places(here, found[0], [position, rank, *rest])
    made, tile = elements(here, value, buffer.type.element)
    more, mask = _true(here, flags[0]) if flags else ([], None)
    return [*ops, *made, *more, here.op("remote_scatter", buffer, position, rank, tile, mask, run=each)]


@form(_HEAD + r"(?:\.reg [^;]*; )*mov\.b\d+ \$0, 0; mad[^;]*; mapa.*atom\..*\}")
def updated(here: Here, found):
    """The old values come back as integers of one register each."""
    order, scope, name, kind = _ATOMIC.search(found[0]).groups()
    if name == "cas" and (step := _STEP.search(found[0])):      # tried until no other thread came between
        (name, kind), order, scope = step.groups(), *_ATOMIC.search(found[0]).groups()[:2]
    buffer, position, rank, *rest = _meant(here, found[0])
    count = 2 if name == "cas" else 1
    ops, (position, rank, *flags), _ = _places(here, found[0], [position, rank, *rest[count:]], each=1)
    tiles = []
    for value in rest[:count]:
        made, tile = elements(here, value, buffer.type.element)
        ops += made
        tiles.append(tile)
    (type_, ) = here.types
    old = here.value(tiles[0].type)
    how = (ORDERS[order], _SCOPES[scope])
    if name == "cas":
        ops.append(here.op("remote_cas", buffer, position, rank, *tiles, *how, run=1, used=True, results=(old, )))
    else:
        more, mask = _true(here, flags[0]) if flags else ([], None)
        ops += [*more, here.op("remote_rmw", _KINDS[f"{name}.{kind}"], buffer, position, rank, *tiles, mask, *how, run=1, used=True,
                               results=(old, ))]
    return [*ops, *registers(here, old, type_)]


_OWN = (r"\{ \.reg \.pred on; \.reg \.b32 to; \.reg \.b32 me, at; mov\.u32 me, %cluster_ctarank; and\.b32 at, \$\d+, \d+; "
        r"mul\.lo\.u32 at, at, \d+; mad\.lo\.u32 to, at, \d+, \$\d+; mapa\.shared::cluster\.u32 to, to, me; ")


@form(_OWN + r"setp\.lt\.u32 on, \$\d+, \d+; (?:@on st\.shared::cluster\.b\d+ \[to\+\d+\], \$\d+; )+\}")
def handed_over(here: Here, found):
    """The threads that have made an atomic leave its old value in this CTA's memory."""
    buffer, _, _, value = here.operands
    return here.op("local_store", buffer, value)


@form(_OWN + r"(?:ld\.shared::cluster\.b\d+ \$\d+, \[to\+\d+\]; )+\}")
def taken_over(here: Here, found):
    return here.op("local_load", here.operands[0])


def _meant(here: Here, text: str) -> list[Value]:
    """The operands without the number of each thread, which says who makes an access of an element that several threads hold."""
    return here.operands[:-1] if ".pred mine" in text else here.operands


def _places(here: Here, text: str, tiles: list[Value], each: int = 0) -> tuple[list[Op], list[Value], int]:
    """Numbers, ranks and flags of elements, of neighbours in one access those of the first one. How many neighbours that are."""
    position = tiles[0]
    (extent, ) = position.type.shape
    try:
        (held, ) = read_layout(layout_in(here.operand_texts[1]))["sizePerThread"]
    except (LayoutProblem, ValueError):
        raise here.unreadable("elements of other CTAs by a tile in another layout than mimw's lowering has") from None
    each = min(each or held, extent)
    found = _ADDRESS.findall(text)
    numbers, ranks = ([int(one[place]) for one in found] for place in (0, 3))
    size = here.operands[0].type.element.bytes
    if any(int(one[1]) != size for one in found) or any(
            [one - some[0] for one in some] != list(range(0, each * len(some), each)) for some in (numbers, ranks)):
        raise here.unreadable("elements of other CTAs whose registers are not one access each")
    if each == 1:
        return [], tiles, 1
    index, first, inside = (here.value(like(position.type, I32)) for _ in range(3))
    (low, mask), (high, back) = here.number(each - 1, index.type), here.number(-each, index.type)
    ops = [here.op("make_range", index.type, 0, extent, results=(index, )), low, high,
           here.op("and", index, mask, results=(inside, )), here.op("and", index, back, results=(first, ))]
    taken = []
    for tile in tiles:
        taken.append(here.value(tile.type))
        ops.append(here.op("gather", tile, first, 0, results=(taken[-1], )))
    number = here.value(position.type)
    ops.append(here.op("add", taken[0], inside, results=(number, )))
    return ops, [number, *taken[1:]], each


def _true(here: Here, flags: Value) -> tuple[list[Op], Value]:
    """A mask of the numbers of a tile that are not 0."""
    zero, none = here.number(0, flags.type)
    mask = here.value(like(flags.type, I1))
    return [zero, here.op("icmpNE", flags, none, results=(mask, ))], mask

