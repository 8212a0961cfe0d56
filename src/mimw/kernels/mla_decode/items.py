"""The walk through a share: one item of work for each sequence that it has keys of, and what `combine` has to know of it.

Input: the pipe of items, and a struct that brings an item's queries and blocks. Output: both are sent. For example, as a task:

    walk(items.writer(), Pages(q, lefts, rights, q_desc, caches), plan, problem, form)

A share is the end of one sequence, then whole ones, then the beginning of one: two of its parts at most are not all of a sequence.
"""

import triton.language as tl

import mimw

from ..attention_decode.items import send
from ..attention_decode.nouns import Item
from ..attention_decode.units import blocks_of, length_of
from .nouns import Share
from .shares import share_of


@mimw.jit
def note_parts(plan, batch, first, last, place):
    """Note the groups that have parts of a sequence, the first and the last, and which of its two parts is the first one's."""
    number = tl.arange(0, 4)
    values = tl.where(number == 0, first, tl.where(number == 1, last, place))
    tl.store(plan + batch * 4 + number, values.to(tl.float32))


@mimw.jit
def item_at(share, group, part, plan, problem, form):
    """(the share's next item, which is part `part` of its group's unless it is all of a sequence, the share behind it)."""
    tile = tl.program_id(0) % form.TILES
    length = length_of(problem, share.batch)
    _, blocks = blocks_of(length, problem, form)
    units = (blocks + share.unit - 1) // share.unit
    stop = share.start + units
    following = tl.minimum(stop, share.end)
    if (share.at == share.start) & (tile == 0):
        note_parts(plan, share.batch, group, (stop - 1) // share.each, part)
    first = (share.at - share.start) * share.unit
    behind = tl.minimum((following - share.start) * share.unit, blocks)
    alone = (share.at == share.start) & (following == stop)
    item = Item(share.batch, tile, first, behind, tl.where(alone, -1, group * 2 + part), length)
    over = following == stop
    return item, Share(following, share.end, share.batch + over.to(tl.int32), tl.where(over, stop, share.start), share.each,
                       share.unit)


@mimw.jit
def walk(items, bringer, plan, problem, form):
    """Send all items of this program's share, and bring what each needs: `bringer.bring` gives the number of the block behind."""
    group = tl.program_id(0) // form.TILES
    share, part = share_of(group, tl.num_programs(0) // form.TILES, problem, form), 0
    chunk, turn = 0, 0
    while share.at < share.end:
        item, share = item_at(share, group, part, plan, problem, form)
        send(items, turn, item)
        chunk = bringer.bring(chunk, turn, item, form)
        turn += 1
        part = 1
    send(items, turn, Item(0, 0, 0, 0, 0, 0))
