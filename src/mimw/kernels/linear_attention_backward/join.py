"""The gradient of the state behind each part of a sequence, where parts are computed side by side.

Input: for each part the gradient of the state before it that comes of its own rows, and its transition. Output: that of the states
behind parts:

    join[(sequences, HV, V / COLUMNS)](sums, transitions, b, dfinal, ends, lists, spans, problem, ...)

A part takes D, the gradient of the state behind it, to M^T D + B, with M the forward's transition and B of `sums`. The last part's
B has the final state's gradient in it. In fp32, products by three of tf32, as the forward has them: fp32's own would go through
the FMA units, 13 times as long, with M in local memory.
"""

import triton.language as tl

import mimw

from ..linear_attention.join import COLUMNS, added, put_tiles, through, tiles_of


@mimw.jit
def join(sums, transitions, b, dfinal, ends, lists, spans, problem, GATE: tl.constexpr, K: tl.constexpr, V: tl.constexpr):
    """Those behind all parts of one sequence and head; `lists` has the first part and their number."""
    sequence, head = tl.program_id(0), tl.program_id(1)
    first, count = tl.load(lists + 2 * sequence), tl.load(lists + 2 * sequence + 1)
    column = tl.program_id(2) * COLUMNS + tl.arange(0, COLUMNS)
    D = tiles_of(dfinal, (sequence.to(tl.int64) * problem.HV + head) * K, column, K, V)
    for back in range(count):
        part = first + count - 1 - back
        place = (part.to(tl.int64) * problem.HV + head) * K
        put_tiles(ends, D, place, column, K, V)
        if back + 1 < count:
            if back == 0:
                D = tiles_of(None, place, column, K, V)
            else:
                D = through(part, D, transitions, b, spans, head, problem, GATE, K, True, "tf32x3")
            D = added(D, tiles_of(sums, place, column, K, V))
