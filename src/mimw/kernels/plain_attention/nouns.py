"""The nouns of attention for every stride, head dim and GPU: numbers and arrays of a launch that belong together.

Input: what a host knows of a launch. Output: named tuples and a struct of constants, which the kernels, forward and backward, are
given as they are. For example:

    rules = Rules(127, 0, None, sinks, None, 0)                 a window of 128 keys, and a sink for each head
    form = Form(80, 80, 128, 128, 64, 64, True, False)          64 queries by 64 keys at a time, causal, in tiles of 128 columns
    block = tile(matrix_of(k, steps.k, batch, head, seq_k, form.D), keys, columns)      in a kernel: these rows of a head's K
"""

from typing import Any, NamedTuple

import triton.language as tl

import mimw
import mimw.tle as tle


@tle.struct
class Form:
    """Constants: heads of D columns, of values DV, in tiles of D_TILE and DV_TILE; BM queries by BN keys at a time. CAUSAL
    masks; EXACT products of fp32 are fp32's own."""

    D: tl.constexpr
    DV: tl.constexpr
    D_TILE: tl.constexpr
    DV_TILE: tl.constexpr
    BM: tl.constexpr
    BN: tl.constexpr
    CAUSAL: tl.constexpr
    EXACT: tl.constexpr


class Steps(NamedTuple):
    """Strides of one array."""

    batch: Any
    head: Any
    row: Any
    column: Any


class StepsOfAll(NamedTuple):
    """Those of all arrays of the forward kernel."""

    q: Steps
    k: Steps
    v: Steps
    o: Steps


class Problem(NamedTuple):
    """The scale of scores, heads of a batch, how many of them share a head of keys, and lengths."""

    scale: Any
    heads: Any
    group: Any
    seq_q: Any
    seq_k: Any


class Rules(NamedTuple):
    """Rules for scores: how far a query sees to its left and right, a soft cap, a sink of each head, slopes of the heads, those of
    batches so far apart, and what a score_mod reads. None is no such rule."""

    left: Any
    right: Any
    softcap: Any
    sinks: Any
    slopes: Any
    slopes_step: Any
    tables: Any = None


class Packed(NamedTuple):
    """Beginnings of packed sequences of queries and of keys; None for batches."""

    queries: Any
    keys: Any


@tle.struct
class Matrix:
    """Rows of a head: the first one's place, the way to the next row and column, how many rows there are, and WIDTH columns."""

    base: tl.tensor
    row: Any
    column: Any
    rows: Any
    WIDTH: tl.constexpr


@mimw.jit
def matrix_of(array, steps, batch, head, rows, WIDTH, group=1):
    """The rows of one head of a batch, or of the head of keys of `group` heads that `head` is one of."""
    return Matrix(array + batch * steps.batch + head // group * steps.head, steps.row, steps.column, rows, WIDTH)


@mimw.jit
def behind(matrix, start):
    """The matrix from row `start` on."""
    return matrix.replace(base=matrix.base + start * matrix.row)


@mimw.jit
def place_of(matrix, rows, columns):
    """Pointers to rows, an int64 (n, 1), and columns."""
    return matrix.base + rows * matrix.row + columns.to(tl.int64)[None, :] * matrix.column


@mimw.jit
def inside(matrix, rows, columns):
    """True for elements that there are."""
    return (rows < matrix.rows)[:, None] & (columns < matrix.WIDTH)[None, :]


@mimw.jit
def tile(matrix, rows, columns):
    """Rows and columns of a matrix, 0 where there are none."""
    there = inside(matrix, rows, columns)
    return tl.load(place_of(matrix, rows.to(tl.int64)[:, None], columns), mask=there, other=0.0)


@mimw.jit
def store_tile(matrix, rows, columns, value):
    """Write rows and columns, but those that there are not."""
    at = place_of(matrix, rows.to(tl.int64)[:, None], columns)
    tl.store(at, value.to(matrix.base.dtype.element_ty), mask=inside(matrix, rows, columns))


@mimw.jit
def sequence(starts, number):
    """(first row, length) of a packed sequence."""
    start = tl.load(starts + number)
    return start.to(tl.int64), tl.load(starts + number + 1) - start
