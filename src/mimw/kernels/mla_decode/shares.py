"""How all keys of all sequences are shared out: as many blocks for each group of programs, whose lengths only the device knows.

Input: a `Problem` (../attention_decode/nouns.py) with the lengths, and a `Form`. Output: a `Share`. For example, of two sequences
of 100 and 300 keys, blocks of 64, and three groups of programs:

    share_of(1, 3, problem, form)       units 3 to 6 of 7: the second block of sequence 1 to its end but one

The 64s of rows of one sequence are computed side by side, by the programs of a group, so that the memory is asked once for each key
and L2 for the others. A unit is `unit` blocks of one sequence. Where all sequences are equally long, and shares are nearly whole
numbers of sequences, they become whole: no sum then goes through the memory.
"""

import triton.language as tl

import mimw

from ..attention_decode.split_kv.splits import sequence_of, units_of
from ..attention_decode.units import fitted, unit_of
from .nouns import Share


@mimw.jit
def share_of(group, groups, problem, form):
    """The share of this group. Behind the last unit shares are empty."""
    unit = unit_of(problem, form)
    total, most = 0, 1
    for first in range(0, problem.batches, form.BATCH):
        units = units_of(problem, first, unit, form)
        total += tl.sum(units, 0)
        most = tl.maximum(most, tl.max(units, 0))
    each = tl.maximum((total + groups - 1) // groups, form.LEAST)
    each = fitted(each, total, most, problem.batches)
    at = tl.minimum(group * each, total)
    place = sequence_of(at, unit, problem, form)
    return Share(at, tl.minimum(at + each, total), place.batch, place.start, each, unit)
