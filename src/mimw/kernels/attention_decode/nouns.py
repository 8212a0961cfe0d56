"""The nouns of attention with a cache: values that belong together have one name in all of its kernels.

Input: arguments and constants of a launch. Output: structs that roles and steps hand to each other. For example:

    FORM = Form(128, 96, 64, 0, 1, None, 16, True, 2, 1)    constants of a launch, made outside of the kernel
    problem = Problem(lengths, batches, tiles, queries, capacity, left, splits, heads, group, row_tiles)
    load(items, ring, begun, Caches(k_desc, v_desc, table, table_row, pages), problem, FORM)
"""

from typing import Any, NamedTuple

import triton.language as tl

import mimw
import mimw.tle as tle


@tle.struct
class Form:
    """Constants of a kernel: blocks of BN keys in pages of PAGE, 0 for caches in one piece; tiles of D columns, of which WIDTH
    count; how keys are split (splits.py of each kernel). TALL are the 64s of rows of a worker, or rows of a tile of few rows,
    PARTS of which are added at a time."""

    D: tl.constexpr
    WIDTH: tl.constexpr
    BN: tl.constexpr
    PAGE: tl.constexpr
    TALL: tl.constexpr
    PARTS: tl.constexpr
    BATCH: tl.constexpr
    ONCE: tl.constexpr
    LEAST: tl.constexpr
    DRAWN: tl.constexpr


@tle.struct
class Problem:
    """Sequences and their lengths, each of `tiles` tiles of rows, `row_tiles` for each of the heads of keys, which `group` heads
    share. Caches hold `capacity` keys, queries see `left` before their own, and a sequence is cut into `splits` parts at most."""

    lengths: Any
    batches: Any
    tiles: Any
    queries: Any
    capacity: Any
    left: Any
    splits: Any
    heads: Any
    group: Any
    row_tiles: Any


@tle.struct
class Caches:
    """Descriptors of keys and values, the table of pages with the step to the next sequence's, and how many pages there are."""

    k: Any
    v: Any
    table: Any
    step: Any
    pages: Any


@tle.struct
class Item:
    """A worker's next keys: blocks from `first` to `stop` of a sequence of `length` keys, for one tile, whose part number `part`
    they are, -1 if they are all of it, or -2 if nobody wants them."""

    batch: Any
    tile: Any
    first: Any
    stop: Any
    part: Any
    length: Any


@tle.struct
class Ending:
    """The splits that have keys of a tile: `count` from `first` on, of the first one part number `place`."""

    first: Any
    count: Any
    place: Any


@tle.struct
class Piece:
    """One tile's part of a split: its blocks of keys, its tile's first unit and units, the unit behind it, and whether that is the
    next sequence's."""

    tile: Any
    first: Any
    stop: Any
    whole: Any
    units: Any
    following: Any
    over: Any


@tle.struct
class Scores:
    """Rules for scores: their scale, times log2(e), what they are multiplied by before a soft cap, None without one, and scales of
    heads of keys, None for none."""

    scale: Any
    inner: Any
    of_keys: Any


@tle.struct
class Sums:
    """Rows after some keys: highest scores, in base 2 where scores are not to be scaled later, sums of probabilities and of p V."""

    highest: Any
    total: Any
    acc: Any


@tle.struct
class Rows:
    """Q or O: (batches, queries, heads, columns), with the steps of the first three."""

    data: Any
    of_batch: Any
    of_query: Any
    of_head: Any


@mimw.jit
def row_at(rows, batch, query, head):
    """The places of rows of these queries and heads."""
    return batch.to(tl.int64) * rows.of_batch + query.to(tl.int64) * rows.of_query + head.to(tl.int64) * rows.of_head


@tle.struct
class Results:
    """O and lse, and what makes results of sums: a logit of each head that joins the denominators, and the scales of the heads'
    values, `step` apart; None for none."""

    o: Rows
    lse: Any
    sinks: Any
    v_scale: Any
    step: Any


@tle.struct
class Queries:
    """Buffers for a tile's queries: its rows, or of caches of e4m3 their even and odd columns."""

    rows: Any
    even: Any
    odd: Any


@tle.struct
class Workspace:
    """Parts of tiles: for each of `slots` two numbers of each row from `stats` on, and behind them its sums. Splits of a tile are
    `step` apart."""

    stats: Any
    slots: Any
    flags: Any
    step: Any


@tle.struct
class SumBuffers:
    """Buffers for the sums of a consumer's warps, and for what parts of a tile are multiplied by."""

    acc: Any
    highest: Any
    total: Any
    factors: Any


@tle.struct
class CombineForm:
    """Constants of the reduction of splits: tiles of D columns, of which WIDTH count, and of TALL times 64 rows; ROWS of a tile by
    each program, PARTS of their parts at a time; EARLY: a launch may begin before the kernel has ended."""

    D: tl.constexpr
    WIDTH: tl.constexpr
    TALL: tl.constexpr
    ROWS: tl.constexpr
    PARTS: tl.constexpr
    EARLY: tl.constexpr


class Split(NamedTuple):
    """Sizes for it: queries of a sequence, heads, `group` of which share one of keys, tiles of rows for each of those, and parts of
    tiles that there is room for."""

    queries: Any
    heads: Any
    group: Any
    row_tiles: Any
    slots: Any


class OfResults(NamedTuple):
    """Strides of O."""

    batch: Any
    query: Any
    head: Any
