"""The nouns of chunked linear attention.

Input: numbers of a launch. Output: structs of constants and named tuples, which the kernels are given, and what their roles hand
to each other. For example:

    span = span_of(spans, tl.program_id(0))     rows of one sequence, or of a part of one, in a kernel
    form = Form(128, 64, 2, 3, True, "head", True, False)
"""

from typing import Any, NamedTuple

import triton
import triton.language as tl

import mimw
import mimw.tle as tle

C = tl.constexpr(64)        # rows of a chunk
ROWS = tl.constexpr(64)     # columns of values that a consumer has: the rows of its part of the transposed state
CHUNK_FIELDS = tl.constexpr(2)      # of a row of the table of chunks: first row, end of the sequence
SPAN_FIELDS = tl.constexpr(6)       # of a row of the table of spans: see `Span`


class Problem(NamedTuple):
    """Heads of q and k, heads of v, and the scale of outputs."""

    H: Any
    HV: Any
    scale: Any


@tle.struct
class Form:
    """Constants of the recurrence: columns of keys and of all values, consumers of ROWS columns of values each, slots of chunks;
    DELTA: there is beta; GATE: "none", "head" or "key"; what is written, O or (for the backward) N and the state before each
    chunk; whether states are wanted as TRANSITION: of a state of ones, without values; TENSOR: sums lie in tensor memory; NORM:
    rows of q and k are to be divided by their norms (with gates by key they have been)."""

    K: tl.constexpr
    V: tl.constexpr
    CONSUMERS: tl.constexpr
    STAGES: tl.constexpr
    DELTA: tl.constexpr
    GATE: tl.constexpr
    OUT: tl.constexpr
    STATES: tl.constexpr
    TRANSITION: tl.constexpr = False
    TENSOR: tl.constexpr = False
    NORM: tl.constexpr = False


@triton.constexpr_function
def scored(form):
    """True where P is made from q and k in the kernel."""
    return bool(form.OUT) and form.GATE != "key"


@triton.constexpr_function
def wide(form):
    """True where a consumer's state leaves no registers for itself as a left operand."""
    return form.K > 128 and not form.TENSOR


@triton.constexpr_function
def by_memory(form):
    """True where the state has shared memory of its own as a left operand."""
    return wide(form) and not form.STATES and bool(form.DELTA or form.OUT)


@tle.struct
class Span:
    """Rows first .. end of all batches, whose first chunk has this number: `count` chunks; where the state before them is, and
    where that behind them goes, -1 for none."""

    first: Any
    end: Any
    chunk: Any
    count: Any
    initial: Any
    final: Any


@mimw.jit
def span_of(spans, number):
    """Row `number` of the table of spans."""
    at = spans + number * SPAN_FIELDS
    return Span(tl.load(at), tl.load(at + 1), tl.load(at + 2), tl.load(at + 3), tl.load(at + 4), tl.load(at + 5))
