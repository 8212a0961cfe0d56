"""The nouns of gradients of packed sequences, of the launches before and after the products: what belongs together has one name.

Input: what a host knows of a launch. Output: named tuples and a struct of constants, which the kernels are given as they are. For
example:

    form = RowsForm(64, 64, 64, 64, 64, 64, 128, 128, 128)      heads of 64, blocks of 64 queries, tiles of 128 keys
    after[grid](sums, dq, Starts(cu_q), scale, RowSteps(128, 64), Counts(2, 500), FORM=form)
"""

from typing import Any, NamedTuple

import triton.language as tl

import mimw.tle as tle

from ..attention_backward.nouns import RowsForm as OneLength


@tle.struct
class RowsForm(OneLength):
    """Constants: also sequences that are looked at TOGETHER, and the keys, or queries, of a tile from a list."""

    TOGETHER: tl.constexpr
    BN: tl.constexpr
    QUERIES: tl.constexpr


class Given(NamedTuple):
    """O, dO, the log-sum-exps of the forward kernel, and their gradient, None for none."""

    o: Any
    do: Any
    lse: Any
    dlse: Any


class Gradients(NamedTuple):
    """dQ, None where it is not to be cleared, dK and dV."""

    q: Any
    k: Any
    v: Any


class Lists(NamedTuple):
    """The lists of tiles: of keys, and of queries, None where dQ is not made in one order."""

    keys: Any
    queries: Any


class Starts(NamedTuple):
    """Places where the sequences begin: those of queries, and for the first launch those of keys."""

    queries: Any
    keys: Any = None


class RowSteps(NamedTuple):
    """Strides of an array whose columns lie together."""

    row: Any
    head: Any


class StepsOfAll(NamedTuple):
    """Those of all arrays of the first launch."""

    o: RowSteps
    do: RowSteps
    dq: RowSteps
    dk: RowSteps
    dv: RowSteps


class Heads(NamedTuple):
    """Heads of queries, and of keys."""

    queries: Any
    keys: Any


class Counts(NamedTuple):
    """Numbers that may be new in every call: sequences, rows of queries, and for the first launch rows of keys and the lengths of
    the lists of tiles, 0 for none."""

    sequences: Any
    queries: Any
    keys: Any = None
    key_tiles: Any = None
    query_tiles: Any = None
