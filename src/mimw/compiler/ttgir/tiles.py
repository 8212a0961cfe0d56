"""Readers of ops that change the shape of a tile, pick its elements, or combine them.

Input: ops of the dialect `tt` on tiles, and `ttg.convert_layout`. Output: ours that do the same. For example:

    %3 = tt.expand_dims %2 {axis = 1 : i32} : ..        expand_dims %2 1
    %5 = "tt.reduce"(%4) <{axis = 0 : i32}> ({ .. })    reduce (%4) 0, with the same region
"""

from __future__ import annotations

import re

from ...ir import I32, Tensor
from .cta_ops import exchanged, split_of, whole_along
from .cta_parts import in_all
from .reading import Here, reads

_SAME = {"tt.unsplat": "unsplat", "tt.join": "join", "tt.split": "split"}


@reads("ttg.convert_layout")
def moved(here: Here):
    """The same elements, in other threads; where other CTAs have them the CTAs of the program meet."""
    (value, ), (before, ), (after, ) = here.operands, here.operand_texts, here.result_texts
    ops, found = exchanged(here, value, split_of(here, before), split_of(here, after)) if here.reader.rank_bits else ([], value)
    here.stands_for(found)
    return ops


@reads(*_SAME)
def same(here: Here):
    return here.op(_SAME[here.name], *here.operands)


@reads("tt.splat")
def splat(here: Here):
    return here.op("splat", here.types[0], here.operands[0])


@reads("tt.broadcast")
def broadcast(here: Here):
    return here.op("broadcast", here.operands[0], here.types[0])


@reads("tt.expand_dims")
def expanded(here: Here):
    return here.op("expand_dims", here.operands[0], here.integer("axis"))


@reads("tt.reshape")
def reshaped(here: Here):
    if here.flag("allow_reorder") and not here.flag("efficient_layout"):
        raise here.unreadable("the order of tt.reshape with allow_reorder is that of a layout")
    if here.reader.rank_bits and split_of(here, here.operand_texts[0]).flat() != split_of(here, here.result_texts[0]).flat():
        raise here.unreadable("a tile of another shape, of which CTAs have other parts, though Triton 3.9 moves nothing for it")
    return here.op("reshape", here.operands[0], here.types[0].shape, False)


@reads("tt.trans")
def transposed(here: Here):
    return here.op("trans", here.operands[0], here.integers("order"))


@reads("tt.make_range")
def ranged(here: Here):
    """In one CTA of several the numbers of its part."""
    start, end, (type_, ) = here.integer("start"), here.integer("end"), here.types
    split = split_of(here, here.result_texts[0])
    if not split.along(0):
        return here.op("make_range", type_, start, end)
    whole = here.value(Tensor(type_.element, split.shape))
    ops, found = exchanged(here, whole, in_all(split), split)
    here.stands_for(found)
    return [here.op("make_range", whole.type, start, end, results=(whole, )), *ops]


@reads("tt.gather")
def gathered(here: Here):
    axis = here.integer("axis")
    if here.reader.rank_bits and split_of(here, here.operand_texts[0]).along(axis):
        raise here.unreadable("elements picked along a dimension that lies in several CTAs: Triton 3.9 looks for them in the CTA's "
                              "own shared memory, where the others' are not")
    return here.op("gather", *here.operands, here.integer("axis"))


@reads("tt.histogram")
def histogram(here: Here):
    """Counted over all CTAs of a program: each has the elements of all, and keeps its part of the bins."""
    if not here.reader.rank_bits:
        return here.op("histogram", here.operands[0], here.types[0].shape[0], *here.operands[1:])
    result = split_of(here, here.result_texts[0])
    ops, values = whole_along(here, here.operands, split_of(here, here.operand_texts[0]), 0)
    bins = here.value(Tensor(here.types[0].element, result.shape))
    more, found = exchanged(here, bins, in_all(result), result)
    here.stands_for(found)
    return [*ops, here.op("histogram", values[0], result.shape[0], *values[1:], results=(bins, )), *more]


@reads("tt.reduce")
def reduced(here: Here):
    """Along a dimension that lies in several CTAs, which meet for it."""
    axis, values, ops = here.integer("axis"), here.operands, []
    if here.reader.rank_bits and (split := split_of(here, here.operand_texts[0])).along(axis):
        ops, values = whole_along(here, values, split, axis)
    return [*ops, here.op("reduce", tuple(values), axis, blocks=(here.reader.block(here.node.regions[0]), ))]


@reads("tt.scan")
def scanned(here: Here):
    if here.reader.rank_bits and split_of(here, here.operand_texts[0]).along(here.integer("axis")):
        raise here.unreadable("a scan along a dimension that lies in several CTAs, which Triton 3.9 does not compile, is not read")
    return here.op("scan", tuple(here.operands), here.integer("axis"), here.word("reverse") == "true",
                   blocks=(here.reader.block(here.node.regions[0]), ))


@reads("tt.map_elementwise")
def mapped(here: Here):
    return here.op("map_elementwise", tuple(here.operands), tuple(here.types), here.integer("pack", 1),
                   blocks=(here.reader.block(here.node.regions[0]), ))


@reads("tt.get_program_id", "tt.get_num_programs")
def program(here: Here):
    """CTAs lie along x: a program of several is all of a cluster."""
    axis, ours = "xyz".index(re.search(r"\b([xyz])\b", here.text.partition(here.name)[2])[1]), here.name.removeprefix("tt.")
    if axis or not here.reader.rank_bits:
        return here.op(ours, axis)
    number = here.value(I32)
    made, count = here.number(1 << here.reader.rank_bits, I32)
    return [here.op(ours, axis, results=(number, )), made, here.op("sdiv", number, count)]
