"""The nouns of linear attention's gradients: arrays of a launch, constants of the gradients of chunks, and the chunk of a program.

Input: what a host knows of a launch. Output: named tuples and a struct of constants, which the kernels are given. For example:

    form = Form(64, 64, 64, 64, BY_HEAD, True, 2, True, False)      heads of 64, a gate a head, the delta rule, 2 heads of v for
    one of k here = chunk_of(table, tl.program_id(0))                        in a kernel: which rows this program has k =
    rows_of(given.k, here, head, problem.H, FORM.K, 0, FORM.K_TILE)
"""

from typing import Any, NamedTuple

import triton.language as tl

import mimw
import mimw.tle as tle

from ..linear_attention.nouns import CHUNK_FIELDS, C

LEVELS = tl.constexpr(6)    # how often a chunk can be halved
NO_GATE, BY_HEAD, BY_KEY = tl.constexpr(0), tl.constexpr(1), tl.constexpr(2)


@tle.struct
class Form:
    """Constants: heads of K columns, K_TILE of them at a time, V of values in tiles of BV at a time; GATE is NO_GATE, BY_HEAD
    (a number a head) or BY_KEY (one for each of its K columns); DELTA the delta rule; GROUP heads of v read one of k; BF16 says
    that operands with a factor are rounded to it, else they are fp32; EXACT that products of fp32 are fp32's own; NEAR that gates
    by column decay by so little in a chunk that it needs no cuts (gates.py)."""

    K: tl.constexpr
    V: tl.constexpr
    K_TILE: tl.constexpr
    BV: tl.constexpr
    GATE: tl.constexpr
    DELTA: tl.constexpr
    GROUP: tl.constexpr
    BF16: tl.constexpr
    EXACT: tl.constexpr
    NEAR: tl.constexpr = False


class Given(NamedTuple):
    """Arrays of the forward, contiguous: q, k (B, T, H, K), v (B, T, HV, V), g (B, T, HV) or (B, T, HV, K), beta (B, T, HV);
    what it computes anew, `mimw.kernels.linear_attention` says how: N (B, T, HV, V) and states (chunks, HV, V, K); and do, the
    gradient of o."""

    q: Any
    k: Any
    v: Any
    g: Any
    beta: Any
    N: Any
    states: Any
    do: Any


class Work(NamedTuple):
    """Arrays that launches hand on. D (chunks, HV, V, K): the gradient of the state behind each chunk; dq, dk (B, T, HV, K) fp32
    of each head of v, where several read one of k; sums, ends (spans, HV, K, V) fp32, of the state before and behind each part of
    a sequence that is cut; b: that of the forward."""

    D: Any
    dq: Any
    dk: Any
    sums: Any
    ends: Any
    b: Any


class Results(NamedTuple):
    """The gradients, each like what it is of."""

    dq: Any
    dk: Any
    dv: Any
    dg: Any
    dbeta: Any


@tle.struct
class Chunk:
    """Rows of one chunk: the first one among all rows of the arrays, how many there are, the number of the chunk, and the row
    behind its sequence."""

    first: Any
    rows: Any
    slot: Any
    end: Any


@mimw.jit
def chunk_of(table, slot):
    """The chunk of a number."""
    first, end = tl.load(table + slot * CHUNK_FIELDS), tl.load(table + slot * CHUNK_FIELDS + 1)
    return Chunk(first.to(tl.int64), min(C, end - first), slot, end)


@mimw.jit
def rows_of(array, here, head, heads, WIDTH, begin, TILE: tl.constexpr):
    """Columns from `begin` on of one head's rows (B, T, heads, WIDTH), 0 where there are none: (C, TILE)."""
    rows, columns = tl.arange(0, C), begin + tl.arange(0, TILE)
    at = array + (here.first * heads + head) * WIDTH + (rows[:, None] * (heads * WIDTH) + columns[None, :])
    return tl.load(at, mask=(rows < here.rows)[:, None] & (columns < WIDTH)[None, :], other=0.0)


@mimw.jit
def store_rows(array, value, here, head, heads, WIDTH, begin, TILE: tl.constexpr):
    """The same rows and columns, written."""
    rows, columns = tl.arange(0, C), begin + tl.arange(0, TILE)
    at = array + (here.first * heads + head) * WIDTH + (rows[:, None] * (heads * WIDTH) + columns[None, :])
    tl.store(at, value.to(array.dtype.element_ty), mask=(rows < here.rows)[:, None] & (columns < WIDTH)[None, :])


@mimw.jit
def numbers_of(array, here, head, heads, missing):
    """One number a row (B, T, heads), `missing` where there is no row: fp32 (C)."""
    rows = tl.arange(0, C)
    return tl.load(array + (here.first * heads + head) + rows * heads, mask=rows < here.rows, other=missing).to(tl.float32)


@mimw.jit
def store_numbers(array, value, here, head, heads):
    """The same, written."""
    rows = tl.arange(0, C)
    tl.store(array + (here.first * heads + head) + rows * heads, value.to(array.dtype.element_ty), mask=rows < here.rows)


@mimw.jit
def state_of(array, here, head, heads, value, begin, form):
    """S^T or D^T of a chunk, values from `value` on, columns from `begin` on: (BV, K_TILE)."""
    values, columns = value + tl.arange(0, form.BV), begin + tl.arange(0, form.K_TILE)
    at = array + (here.slot.to(tl.int64) * heads + head) * (form.V * form.K) + (values[:, None] * form.K + columns[None, :])
    return tl.load(at, mask=(values < form.V)[:, None] & (columns < form.K)[None, :], other=0.0)


@mimw.jit
def product(a, b, form, acc=None):
    """a b, in fp32, on top of acc."""
    if acc is None:
        return tl.dot(a, b, allow_tf32=not form.EXACT)
    else:
        return tl.dot(a, b, acc, allow_tf32=not form.EXACT)
