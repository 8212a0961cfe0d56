"""The nouns of the lightning indexer: values that belong together have one name in its kernels.

Input: arguments and constants of a launch. Output: structs that roles and steps hand to each other. For example:

    FORM = Form(64, 4, 1, 64, 128, 2, True, 5, 2, 2048, 0, True, True)  constants of a launch, made outside of the kernel
    work = work_of(number, rules, FORM)                             some queries, and the blocks of keys that they look at
"""

from typing import Any, NamedTuple

import triton.language as tl

import mimw.tle as tle


@tle.struct
class Form:
    """Constants: HEADS of a query, QUERIES of a product, whose other operand are ROWS keys; PARTS of 128 bytes at most of a row's
    columns; BK keys of a slot; so many CONSUMERS, which have queries of their own (APART) or the same queries and keys of their
    own; STAGES slots of keys, TURNS of queries; CHUNK keys of a piece of work, a multiple of BK; keys of a PAGE, 0 for keys in one
    piece; CAUSAL bounds; FILL: -inf outside of the bounds."""

    HEADS: tl.constexpr
    QUERIES: tl.constexpr
    PARTS: tl.constexpr
    ROWS: tl.constexpr
    BK: tl.constexpr
    CONSUMERS: tl.constexpr
    APART: tl.constexpr
    STAGES: tl.constexpr
    TURNS: tl.constexpr
    CHUNK: tl.constexpr
    PAGE: tl.constexpr
    CAUSAL: tl.constexpr
    FILL: tl.constexpr


class Problem(NamedTuple):
    """Queries and keys of a sequence, sequences, numbers from one row of scores to the next, pages of the cache, and entries from
    one row of the page table to the next."""

    S: Any
    T: Any
    B: Any
    stride: Any
    pages: Any
    table_step: Any


@tle.struct
class Rules:
    """The launch's numbers, and which keys count: a start and an end for each query, or a length for each sequence; None: all."""

    problem: Any
    starts: Any
    ends: Any
    lengths: Any


@tle.struct
class Cache:
    """The descriptor of pages of keys, their scales (None without), and the page table (None for keys in one piece). Scales are a
    pointer for keys in one piece, else a descriptor."""

    keys: Any
    scales: Any
    table: Any


@tle.struct
class Work:
    """A piece of work: queries of a sequence from number `query` on, and keys `first` .. `end`, of which the queries look at blocks
    number `low` .. `high`. `length` is how many keys the sequence has."""

    batch: Any
    query: Any
    length: Any
    first: Any
    end: Any
    low: Any
    high: Any
