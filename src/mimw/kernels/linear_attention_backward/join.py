"""The gradient of the state behind each part of a sequence, where parts are computed side by side.

Input: for each part the gradient of the state before it that comes of its own rows, and its transition. Output: that of the states
behind parts:

    join[(sequences, HV, V / COLUMNS)](sums, transitions, b, dfinal, ends, lists, spans, problem, ...)

A part takes D, the gradient of the state behind it, to M^T D + B, with M the forward's transition and B of `sums`. The last part's
B has the final state's gradient in it. In fp32, products as fp32 has them.
"""

import triton.language as tl

import mimw

from ..linear_attention.join import COLUMNS, decay_of
from ..linear_attention.nouns import span_of


@mimw.jit
def join(sums, transitions, b, dfinal, ends, lists, spans, problem, GATE: tl.constexpr, K: tl.constexpr, V: tl.constexpr):
    """Those behind all parts of one sequence and head; `lists` has the first part and their number."""
    sequence, head = tl.program_id(0), tl.program_id(1)
    first, count = tl.load(lists + 2 * sequence), tl.load(lists + 2 * sequence + 1)
    column, rows = tl.program_id(2) * COLUMNS + tl.arange(0, COLUMNS), tl.arange(0, K)
    D = tl.zeros((K, COLUMNS), tl.float32)
    if dfinal is not None:
        of_sequence = (sequence.to(tl.int64) * problem.HV + head) * K
        D += tl.load(dfinal + (of_sequence + rows[:, None]) * V + column[None, :])
    for back in range(count):
        part = first + count - 1 - back
        place = (part.to(tl.int64) * problem.HV + head) * K
        at = (place + rows[:, None]) * V + column[None, :]
        tl.store(ends + at, D)
        if back + 1 < count:
            if back == 0:
                D = tl.zeros((K, COLUMNS), tl.float32)
            elif transitions is not None:
                turned = tl.load(transitions + (place + rows[None, :]) * K + rows[:, None])
                D = tl.dot(turned, D, input_precision="ieee")
            elif GATE != "none":
                D *= decay_of(b, span_of(spans, part), head, problem, GATE, K)
            D += tl.load(sums + at)
