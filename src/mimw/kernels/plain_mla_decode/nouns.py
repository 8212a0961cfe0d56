"""The nouns of MLA decoding in plain Triton.

Input: what a host knows of a launch. Output: a struct of constants and named tuples, which the kernel is given. For example:

    problem = Problem(1, 128, 64, 4096, 64)         a query of 128 heads, pages of 64 keys, up to 4096 keys, 64 entries of a table
    form = Form(64, 64, 512, 64, 512, 64, 4, True, False)       64 rows and 64 keys at a time, keys cut into four
"""

from typing import Any, NamedTuple

import triton.language as tl

import mimw.tle as tle


@tle.struct
class Form:
    """Constants: BM rows of a program, BN keys at a time; rows of DV values and DT other columns, in tiles of DV_TILE and DT_TILE;
    keys are cut into SPLITS; CAUSAL queries; EXACT products of fp32 are fp32's own."""

    BM: tl.constexpr
    BN: tl.constexpr
    DV: tl.constexpr
    DT: tl.constexpr
    DV_TILE: tl.constexpr
    DT_TILE: tl.constexpr
    SPLITS: tl.constexpr
    CAUSAL: tl.constexpr
    EXACT: tl.constexpr


class Problem(NamedTuple):
    """New queries of a sequence, heads, keys of a page, those that a sequence may have, and how far apart the page table's rows
    are."""

    queries: Any
    heads: Any
    page: Any
    capacity: Any
    table_row: Any


@tle.struct
class Cache:
    """The arrays of those parts, which may be one, None for no scales; the table of pages, None for one page a sequence; and
    where the parts are."""

    values: Any
    tail: Any
    scales: Any
    table: Any
    places: Any
