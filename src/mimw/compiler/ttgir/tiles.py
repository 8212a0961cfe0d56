"""Readers of ops that change the shape of a tile, pick its elements, or combine them.

Input: ops of the dialect `tt` on tiles, and `ttg.convert_layout`. Output: ours that do the same. For example:

    %3 = tt.expand_dims %2 {axis = 1 : i32} : ..        expand_dims %2 1
    %5 = "tt.reduce"(%4) <{axis = 0 : i32}> ({ .. })    reduce (%4) 0, with the same region
"""

from __future__ import annotations

import re

from .reading import Here, reads

_SAME = {"tt.unsplat": "unsplat", "tt.join": "join", "tt.split": "split"}


@reads("ttg.convert_layout")
def moved(here: Here):
    here.stands_for(here.operands[0])


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
    return here.op("reshape", here.operands[0], here.types[0].shape, False)


@reads("tt.trans")
def transposed(here: Here):
    return here.op("trans", here.operands[0], here.integers("order"))


@reads("tt.make_range")
def ranged(here: Here):
    return here.op("make_range", here.types[0], here.integer("start"), here.integer("end"))


@reads("tt.gather")
def gathered(here: Here):
    return here.op("gather", *here.operands, here.integer("axis"))


@reads("tt.histogram")
def histogram(here: Here):
    return here.op("histogram", here.operands[0], here.types[0].shape[0], *here.operands[1:])


@reads("tt.reduce")
def reduced(here: Here):
    return here.op("reduce", tuple(here.operands), here.integer("axis"), blocks=(here.reader.block(here.node.regions[0]), ))


@reads("tt.scan")
def scanned(here: Here):
    return here.op("scan", tuple(here.operands), here.integer("axis"), here.word("reverse") == "true",
                   blocks=(here.reader.block(here.node.regions[0]), ))


@reads("tt.map_elementwise")
def mapped(here: Here):
    return here.op("map_elementwise", tuple(here.operands), tuple(here.types), here.integer("pack", 1),
                   blocks=(here.reader.block(here.node.regions[0]), ))


@reads("tt.get_program_id", "tt.get_num_programs")
def program(here: Here):
    return here.op(here.name.removeprefix("tt."), "xyz".index(re.search(r"\b([xyz])\b", here.text.partition(here.name)[2])[1]))
