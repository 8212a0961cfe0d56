"""The nouns of decoding for every stride and GPU: numbers and arrays of a launch that belong together.

Input: what a host knows of a launch. Output: named tuples and structs of constants, which the kernels are given as they are. For
example:

    problem = Problem(1, 32, 4, 16, 4096, 256)      a query of 32 heads, 4 of which share a head of keys; pages of 16 keys
    cache = Cache(k, steps.k, table, problem, 128)  in a kernel
"""

from typing import Any, NamedTuple

import triton.language as tl

import mimw.tle as tle


@tle.struct
class Form:
    """Constants: heads of D columns, of values DV, in tiles of D_TILE and DV_TILE; BM queries by BN keys at a time, keys cut into
    SPLITS; EXACT products of fp32 are fp32's own."""

    D: tl.constexpr
    DV: tl.constexpr
    D_TILE: tl.constexpr
    DV_TILE: tl.constexpr
    BM: tl.constexpr
    BN: tl.constexpr
    SPLITS: tl.constexpr
    EXACT: tl.constexpr


@tle.struct
class CombineForm:
    """Those of what puts the parts of SPLITS together, PARTS at a time."""

    DV: tl.constexpr
    DV_TILE: tl.constexpr
    SPLITS: tl.constexpr
    PARTS: tl.constexpr


class Steps(NamedTuple):
    """Strides of one array; a cache's batches are pages, or sequences."""

    batch: Any
    row: Any
    head: Any
    column: Any


class StepsOfAll(NamedTuple):
    """Those of all arrays."""

    q: Steps
    k: Steps
    v: Steps
    o: Steps


class Rules(NamedTuple):
    """A sink of each head, scales of the caches and how far apart those of heads are, the scale of scores, a soft cap, and how far
    a query sees to its left. None is no such rule."""

    sinks: Any
    k_scale: Any
    v_scale: Any
    scale_step: Any
    scale: Any
    softcap: Any
    left: Any


class Problem(NamedTuple):
    """New queries of a sequence, heads, how many of them share a head of keys; keys of a page, those that a sequence may have, and
    how far apart the page table's rows are."""

    queries: Any
    heads: Any
    group: Any
    page: Any
    capacity: Any
    table_row: Any


@tle.struct
class Cache:
    """Keys or values of all heads, of WIDTH columns, in pages that a table names, or one sequence behind the other."""

    array: tl.tensor
    steps: Any
    table: tl.tensor | None
    problem: Any
    WIDTH: tl.constexpr
