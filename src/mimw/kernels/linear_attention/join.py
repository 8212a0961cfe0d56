"""The state before each part of a sequence, where parts are computed side by side.

Input: for each part the state behind it that comes of its own rows, and its transition. Output: the states before parts:

    join[(sequences, HV, V / COLUMNS)](sums, transitions, b, initial, starts, lists, spans, problem, ...)
    state = tiles_of(initial, place, column, K, V)          of rows of K, PIECE at a time: M is too large for one product

A part takes the state S before it to M S + B, with B its `sums` and M its `transitions`; without beta M is a diagonal, e^ the sum
of its gates. The first part's B has the initial state in it. In fp32, products by three of tf32.
"""

import triton
import triton.language as tl

import mimw

from .forgotten import forgets
from .gates import LOG2_E
from .nouns import C, span_of

COLUMNS = tl.constexpr(16)      # of values, of a program
PIECE = tl.constexpr(128)       # rows of a state, at most


@triton.constexpr_function
def piece(K):
    """Rows of a tile of the state."""
    return min(K, PIECE)


@mimw.jit
def tiles_of(states, place, column, K: tl.constexpr, V: tl.constexpr):
    """The tiles of a state [K, V] whose first row has the number `place` in `states`; zeros without any."""
    SIZE: tl.constexpr = piece(K)
    tiles = ()
    for begin in tl.static_range(0, K, SIZE):
        tile = tl.zeros((SIZE, COLUMNS), tl.float32)
        if states is not None:
            tile += tl.load(states + (place + begin + tl.arange(0, SIZE)[:, None]) * V + column[None, :])
        tiles = tiles + (tile, )
    return tiles


@mimw.jit
def put_tiles(states, tiles, place, column, K: tl.constexpr, V: tl.constexpr):
    """Stores the tiles of a state there."""
    SIZE: tl.constexpr = piece(K)
    for number in tl.static_range(K // SIZE):
        rows = place + number * SIZE + tl.arange(0, SIZE)[:, None]
        tl.store(states + rows * V + column[None, :], tiles[number])


@mimw.jit
def stepped(transitions, place, tiles, K: tl.constexpr, TURNED: tl.constexpr, PRECISION: tl.constexpr):
    """M S of the tiles of S, with M [K, K] among `transitions` at row `place`; TURNED: M^T S."""
    SIZE: tl.constexpr = piece(K)
    found = ()
    for row in tl.static_range(0, K, SIZE):
        tile = tl.zeros((SIZE, COLUMNS), tl.float32)
        for number in tl.static_range(K // SIZE):
            rows, columns = row + tl.arange(0, SIZE)[:, None], number * SIZE + tl.arange(0, SIZE)[None, :]
            at = (place + columns) * K + rows if TURNED else (place + rows) * K + columns
            tile = tl.dot(tl.load(transitions + at), tiles[number], tile, input_precision=PRECISION)
        found = found + (tile, )
    return found


@mimw.jit
def decay_of(b, span, head, problem, GATE: tl.constexpr, begin, SIZE: tl.constexpr, K: tl.constexpr):
    """e^ the sum of a head's gates over a part, for SIZE columns of keys."""
    total = tl.zeros((SIZE, ), tl.float32)
    for chunk in range(span.count):
        place = (span.chunk + chunk).to(tl.int64) * problem.HV + head
        if GATE == "key":
            total += tl.load(b + place * K + begin + tl.arange(0, SIZE))
        else:
            total += tl.load(b + place * C + C - 1)
    return tl.exp2(total * LOG2_E)[:, None]


@mimw.jit
def through(part, tiles, transitions, b, spans, head, problem, GATE: tl.constexpr, K: tl.constexpr, TURNED: tl.constexpr,
            PRECISION: tl.constexpr):
    """M S of a part, or M^T S."""
    SIZE: tl.constexpr = piece(K)
    if transitions is not None:
        return stepped(transitions, (part.to(tl.int64) * problem.HV + head) * K, tiles, K, TURNED, PRECISION)
    elif GATE != "none":
        found, span = (), span_of(spans, part)
        for number in tl.static_range(K // SIZE):
            found = found + (tiles[number] * decay_of(b, span, head, problem, GATE, number * SIZE, SIZE, K), )
        return found
    else:
        return tiles


@mimw.jit
def nothing_left(transitions, spans, part, bounds, head, problem):
    """True where M of a part is 0."""
    if transitions is None or bounds is None:
        return False
    else:
        return forgets(span_of(spans, part), bounds, head, problem)


@mimw.jit
def added(tiles, others):
    """The sum of two states."""
    found = ()
    for number in tl.static_range(len(tiles)):
        found = found + (tiles[number] + others[number], )
    return found


@mimw.jit
def join(sums, transitions, b, bounds, initial, starts, lists, spans, problem, GATE: tl.constexpr, K: tl.constexpr,
         V: tl.constexpr):
    """The states before all parts of one sequence and head; `lists` has the first part and their number. Transitions that are 0
    by `bounds` are not read."""
    sequence, head = tl.program_id(0), tl.program_id(1)
    first, count = tl.load(lists + 2 * sequence), tl.load(lists + 2 * sequence + 1)
    column = tl.program_id(2) * COLUMNS + tl.arange(0, COLUMNS)
    state = tiles_of(initial, (sequence.to(tl.int64) * problem.HV + head) * K, column, K, V)
    for part in range(first, first + count):
        place = (part.to(tl.int64) * problem.HV + head) * K
        put_tiles(starts, state, place, column, K, V)
        if part + 1 < first + count:
            if part == first or nothing_left(transitions, spans, part, bounds, head, problem):
                state = tiles_of(None, place, column, K, V)
            else:
                state = through(part, state, transitions, b, spans, head, problem, GATE, K, False, "tf32x3")
            state = added(state, tiles_of(sums, place, column, K, V))
