"""Ops of one CTA of a program that is several: what its rank says of the part that it has, and what it takes from the others.

Input: an op that is read, and how its operands lie in the CTAs (`cta_parts`). Output: ops of ours, with the value that they give:

    corner(here, split, 1)            (%rank & 1) * 64, where CTA 1 has the right half of 128 columns
    leads(here, 0b10)                 (%rank & 2) == 0: of CTAs with the same part one stores it
    exchanged(here, %part, a, b)      cluster_tile %part, then cluster_part, from parts by rows to parts by columns
"""

from __future__ import annotations

from collections.abc import Callable

from ...ir import I1, I32, Block, Op, Value, like
from .cta_parts import Bit, Split, split_in
from .layout_text import LayoutProblem
from .reading import Here

Made = tuple[list[Op], Value | None]


def split_of(here: Here, text: str) -> Split:
    """The place of a value of that type in the CTAs of the program."""
    try:
        return split_in(text, here.reader.rank_bits)
    except LayoutProblem as problem:
        raise here.unreadable(str(problem)) from None


def check_same(here: Here, *texts: str) -> None:
    """Refuse tiles and buffers of which a CTA has other parts: what one reads or writes would lie in another."""
    if here.reader.rank_bits and len({split_of(here, text).bits for text in texts}) > 1:
        raise here.unreadable(f"{here.name} between parts of a tile that lie in other CTAs is not read")


def meeting(here: Here) -> Op:
    """All CTAs meet. Warps of partitions come, too, where they wait for work: Triton lets them."""
    return here.op("cluster_barrier", results=(), **(_region(here) or {"all_warps": True}))


def _region(here: Here) -> dict[str, int]:
    """The attributes of an op for which CTAs meet where their warps have parted, in `ttg.warp_specialize`: those of the same
    region, by mbarriers that Triton makes for each."""
    region = here.reader.notes.get("region")
    return {} if region is None else {"task": region}


def masked_rank(here: Here, mask: int) -> tuple[list[Op], Value]:
    """The bits of this CTA's rank that a mask has."""
    const, wanted = here.number(mask, I32)
    found = here.value(I32)
    return [const, here.op("and", here.reader.rank, wanted, results=(found, ))], found


def leads(here: Here, mask: int) -> Made:
    """A predicate: none of the bits of a mask is in this CTA's rank. None if there are no bits."""
    if not mask:
        return [], None
    ops, bits = masked_rank(here, mask)
    zero, none = here.number(0, I32)
    found = here.value(I1)
    return [*ops, zero, here.op("icmpEQ", bits, none, results=(found, ))], found


def both(here: Here, one: Value | None, other: Value | None) -> Made:
    """A predicate that holds where two do; None is one that always holds."""
    if one is None or other is None:
        return [], one if other is None else other
    found = here.value(I1)
    return [here.op("and", one, other, results=(found, ))], found


def corner(here: Here, split: Split, axis: int) -> Made:
    """The first coordinate of this CTA's block along an axis; None for 0 in all."""
    ops, found = [], None
    for bit, place in split.places(axis):
        made, one = masked_rank(here, 1 << place)
        shift, distance = here.number(abs(bit - place), I32)
        moved = here.value(I32)
        ops += [*made, shift, here.op("shl" if bit > place else "lshr", one, distance, results=(moved, ))]
        if found is not None:
            summed = here.value(I32)
            ops.append(here.op("or", found, moved, results=(summed, )))
            moved = summed
        found = moved
    return ops, found


def moved_by(here: Here, value: Value, by: Value | None) -> tuple[list[Op], Value]:
    """A number that is so much higher; of a tile each."""
    if by is None:
        return [], value
    ops, found = [], here.value(value.type)
    if value.type != by.type:
        tile = here.value(like(value.type, I32))
        ops, by = [here.op("splat", tile.type, by, results=(tile, ))], tile
    return [*ops, here.op("add", value, by, results=(found, ))], found


def whole_along(here: Here, values: list[Value], split: Split, axis: int) -> tuple[list[Op], list[Value]]:
    """Tiles of which each CTA has all of an axis: the parts of others are fetched."""
    if not split.along(axis):
        return [], values
    return _fetched(here, values, split, tuple(bit if bit and bit[0] == axis else None for bit in split.bits))


def exchanged(here: Here, value: Value, split: Split, wanted: Split) -> tuple[list[Op], Value]:
    """The part of a tile that lies as `wanted`, of one that lies as `split`: fetched where another CTA has it."""
    missing = tuple(bit if bit and bit != want else None for bit, want in zip(split.bits, wanted.bits))
    ops, (found, ) = _fetched(here, [value], split, missing) if any(missing) else ([], [value])
    more = tuple(want if want and want != bit else None for bit, want in zip(split.bits, wanted.bits))
    if any(more):
        kept = Split(split.shape, tuple(want if want == bit else None for bit, want in zip(split.bits, wanted.bits)))
        part = _picked(here, found, kept, more, wanted)
        ops, found = [*ops, part], part.results[0]
    return ops, found


def ranks_beside(here: Here, masks: set[int]) -> tuple[list[Op], tuple[Value, ...]]:
    """The ranks that differ from this CTA's in all bits of one of the masks."""
    ops, ranks = [], []
    for mask in sorted(masks):
        made, bits = here.number(mask, I32)
        ranks.append(here.value(I32))
        ops += [made, here.op("xor", here.reader.rank, bits, results=(ranks[-1], ))]
    return ops, tuple(ranks)


def within(mask: int) -> set[int]:
    """The numbers that have some bits of a mask and no others."""
    return {number & mask for number in range(mask + 1)}


def by_first(here: Here, make: Callable[[tuple[Value, ...]], Op], mask: int) -> tuple[list[Op], bool]:
    """The op that `make` gives with a result or none, by the first of the CTAs that differ in the bits of a mask, whose result all
    of them get, if anybody asks. True if they meet for that."""
    if not mask or not here.node.results:
        ops, first = leads(here, mask)
        op = make(here.results)
        return [*ops, op if first is None else here.only_if(first, op)], False
    ((number, _), ), (type_, ) = here.node.results, here.types
    ops, first = leads(here, mask)
    found, old, zero, none = here.value(type_), here.value(type_), *here.number(0, type_)
    ops.append(here.op("if", first, (type_, ), results=(old, ), blocks=(
        Block((), (make((found, )), here.op("yield", (found, ), results=()))),
        Block((), (zero, here.op("yield", (none, ), results=()))))))
    if not here.reader.notes["uses"][number]:
        here.stands_for(old)
        return ops, False
    bits = tuple(() if mask >> place & 1 else None for place in range(here.reader.rank_bits))
    return [*ops, here.op("cluster_tile", (old, ), bits=bits, **_region(here))], True


def _fetched(here: Here, values: list[Value], split: Split, missing: tuple[Bit | None, ...]) -> tuple[list[Op], list[Value]]:
    bits, results = split.local(missing), []
    for value in values:
        shape = list(value.type.shape)
        for axis, _ in filter(None, bits):
            shape[axis] *= 2
        results.append(here.value(type(value.type)(value.type.element, tuple(shape))))
    return [here.op("cluster_tile", tuple(values), results=tuple(results), bits=bits, **_region(here))], results


def _picked(here: Here, value: Value, kept: Split, more: tuple[Bit | None, ...], wanted: Split) -> Op:
    part = here.value(type(value.type)(value.type.element, wanted.part))
    return here.op("cluster_part", (value, ), results=(part, ), bits=kept.local(more))
