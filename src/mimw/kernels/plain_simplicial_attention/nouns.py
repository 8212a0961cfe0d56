"""The nouns of 2-simplicial attention in plain Triton, forward and of its gradients.

Input: what a host knows of a launch. Output: named tuples and a struct of constants, which kernels are given as they are, and
structs that their steps hand to each other. For example:

    problem = Problem(0.125, 2, 10, 1000, 512, 32)      10 queries on 1000 keys of 2 heads, windows of 512 and 32
    form = Form(64, 128, 128, 64, 64, False)            64 rows by 64 keys at a time, of 64 heads to one of keys
"""

from typing import Any, NamedTuple

import triton.language as tl

import mimw
import mimw.tle as tle

from ..plain_attention.nouns import Steps, place_of


@tle.struct
class Form:
    """Constants: GROUP heads of queries to one of keys, D columns in tiles of D_TILE, BM rows by BN keys at a time. EXACT products
    of fp32 are fp32's own."""

    GROUP: tl.constexpr
    D: tl.constexpr
    D_TILE: tl.constexpr
    BM: tl.constexpr
    BN: tl.constexpr
    EXACT: tl.constexpr


class Problem(NamedTuple):
    """The scale of logits, forward times log2(e), heads of keys, lengths, and how many keys and second keys a query sees: its own
    and those before it."""

    scale: Any
    kv_heads: Any
    seq_q: Any
    seq_k: Any
    window: Any
    window2: Any


class StepsForward(NamedTuple):
    """Strides of all arrays but lse."""

    q: Steps
    k: Steps
    v: Steps
    k2: Steps
    v2: Steps
    o: Steps


class StepsBackward(NamedTuple):
    """Strides of the inputs."""

    q: Steps
    k: Steps
    v: Steps
    k2: Steps
    v2: Steps
    do: Steps


class Inputs(NamedTuple):
    """Arrays that both kernels of gradients read, but for numbers of rows."""

    q: Any
    k: Any
    v: Any
    k2: Any
    v2: Any
    do: Any


@tle.struct
class Group:
    """A KV head's queries: their first head, how many keys were before the first query, and q, do, lse and delta of the batch."""

    head: Any
    past: Any
    q: Any
    do: Any
    lse: Any
    delta: Any


@tle.struct
class Rows:
    """Rows of a KV head's queries: their tiles of q and do, lse times log2(e), delta, positions, and which rows there are."""

    queries: Any
    gradient: Any
    logarithm: Any
    delta: Any
    position: Any
    inside: Any


@mimw.jit
def rows_of(matrix, rows, columns):
    """Rows of a matrix, 0 for those that there are not and behind its columns."""
    inside = rows < matrix.rows
    at = place_of(matrix, rows.to(tl.int64)[:, None], columns)
    return tl.load(at, mask=inside[:, None] & (columns < matrix.WIDTH)[None, :], other=0.0)


@mimw.jit
def row_of(matrix, row, columns):
    """One row of a matrix, 0 behind its columns."""
    at = matrix.base + row.to(tl.int64) * matrix.row + columns.to(tl.int64) * matrix.column
    return tl.load(at, mask=columns < matrix.WIDTH, other=0.0)


@mimw.jit
def positions(past, problem, form):
    """(first, last) position of the program's rows."""
    return (past + tl.program_id(0) * form.BM // form.GROUP,
            min(past + (tl.program_id(0) * form.BM + form.BM - 1) // form.GROUP, problem.seq_k - 1))


@mimw.jit
def seen_of(keys, position, window):
    """True for the keys in the window of a position, (rows, keys)."""
    return (keys[None, :] <= position[:, None]) & (keys[None, :] > position[:, None] - window)
