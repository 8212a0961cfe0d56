"""The state before each part of a sequence, where parts are computed side by side.

Input: for each part the state behind it that comes of its own rows, and its transition. Output: the states before parts:

    join[(sequences, HV, V / COLUMNS)](sums, transitions, b, initial, starts, lists, spans, problem, ...)

A part takes the state S before it to M S + B, with B its `sums` and M its `transitions`; without beta M is a diagonal, e^ the sum
of its gates. The first part's B has the initial state in it. In fp32, products by three of tf32.
"""

import triton.language as tl

import mimw

from .nouns import C, span_of
from .prepare import LOG2_E

COLUMNS = tl.constexpr(16)      # of values, of a program


@mimw.jit
def decay_of(b, span, head, problem, GATE: tl.constexpr, K: tl.constexpr):
    """e^ the sum of a head's gates over a part, for each column of keys."""
    total = tl.zeros((K, ), tl.float32)
    for chunk in range(span.count):
        place = (span.chunk + chunk).to(tl.int64) * problem.HV + head
        if GATE == "key":
            total += tl.load(b + place * K + tl.arange(0, K))
        else:
            total += tl.load(b + place * C + C - 1)
    return tl.exp2(total * LOG2_E)[:, None]


@mimw.jit
def join(sums, transitions, b, initial, starts, lists, spans, problem, GATE: tl.constexpr, K: tl.constexpr,
         V: tl.constexpr):
    """The states before all parts of one sequence and head; `lists` has the first part and their number."""
    sequence, head = tl.program_id(0), tl.program_id(1)
    first, count = tl.load(lists + 2 * sequence), tl.load(lists + 2 * sequence + 1)
    column = tl.program_id(2) * COLUMNS + tl.arange(0, COLUMNS)
    rows = tl.arange(0, K)
    state = tl.zeros((K, COLUMNS), tl.float32)
    if initial is not None:
        of_sequence = (sequence.to(tl.int64) * problem.HV + head) * K
        state += tl.load(initial + (of_sequence + rows[:, None]) * V + column[None, :])
    for part in range(first, first + count):
        place = (part.to(tl.int64) * problem.HV + head) * K
        at = (place + rows[:, None]) * V + column[None, :]
        tl.store(starts + at, state)
        if part + 1 < first + count:
            if part == first:
                state = tl.zeros((K, COLUMNS), tl.float32)
            elif transitions is not None:
                step = tl.load(transitions + (place + rows[:, None]) * K + rows[None, :])
                state = tl.dot(step, state, input_precision="tf32x3")
            elif GATE != "none":
                state *= decay_of(b, span_of(spans, part), head, problem, GATE, K)
            state += tl.load(sums + at)
