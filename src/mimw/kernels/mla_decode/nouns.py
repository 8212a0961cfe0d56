"""The nouns of MLA decoding: values that belong together have one name in all of its roles.

Input: arguments and constants of a launch. Output: structs that roles hand to each other, and a named tuple that a host fills. For
example:

    FORM = Form(512, 64, 64, 64, 2, True, 16, 2, 0, 1)           constants of a launch, made outside of the kernel
    sizes = Sizes(scale, None, batches, queries, heads, capacity, pages, slots, table_row)
"""

from typing import Any, NamedTuple

import triton.language as tl

import mimw.tle as tle


@tle.struct
class Form:
    """Constants: rows of DV columns, which are key and value, and DT, which are key only; blocks of BN keys in pages of PAGE, 0 for
    caches in one piece; TILES times 64 rows of queries of a sequence; CAUSAL queries; BATCH lengths that are read at a time,
    LEAST units of a share; CACHE is the kind of the cache (caches.py), of those in e4m3
    places are counted in UNIT bytes."""

    DV: tl.constexpr
    DT: tl.constexpr
    BN: tl.constexpr
    PAGE: tl.constexpr
    TILES: tl.constexpr
    CAUSAL: tl.constexpr
    BATCH: tl.constexpr
    LEAST: tl.constexpr
    CACHE: tl.constexpr
    UNIT: tl.constexpr


class Sizes(NamedTuple):
    """The scale of scores times log2(e), most parts of a sequence (None for no bound), sequences, queries of each, heads, keys that
    a cache holds for a sequence, pages, parts of sequences that there is room for, and how far apart the page table's rows are."""

    scale: Any
    splits: Any
    batches: Any
    queries: Any
    heads: Any
    capacity: Any
    pages: Any
    slots: Any
    table_row: Any


class Part(NamedTuple):
    """Columns of the cache, from `first` on: pages and rows are so many elements apart."""

    page: Any
    row: Any
    first: Any


class Parts(NamedTuple):
    """The places in a row of its head, its values; of its other columns; and of scales of 128 values each, if it has any."""

    head: Part
    tail: Part
    scales: Part


class Steps(NamedTuple):
    """From page to page and from row to row of a cache."""

    page: Any
    row: Any


class Arrays(NamedTuple):
    """The arrays of those parts, which may be one; None for no scales."""

    head: Any
    tail: Any
    scales: Any


@tle.struct
class Share:
    """The units of a group of programs from `at` to `end`, of the sequence `batch`, whose units begin with number `start`; every
    group has `each` units, of `unit` blocks."""

    at: Any
    end: Any
    batch: Any
    start: Any
    each: Any
    unit: Any


@tle.struct
class Outputs:
    """The descriptor of out, lse, and room for parts of sequences: two numbers of each row of each part from `stats` on, and the
    descriptor of their sums."""

    out: Any
    lse: Any
    stats: Any
    sums: Any


@tle.struct
class Place:
    """The rows of an item: its first one in the sequence, each one's query and head, and the number of the last key that it
    sees."""

    first: Any
    query: Any
    head: Any
    last: Any


@tle.struct
class Ends:
    """The pipes' ends of the consumer that scores, and the buffer of probabilities that goes with `scores`."""

    lefts: Any
    rights: Any
    scores: Any
    probabilities: Any


@tle.struct
class Step:
    """The number of a block among all, and of what is handed on for it."""

    chunk: Any
    number: Any
