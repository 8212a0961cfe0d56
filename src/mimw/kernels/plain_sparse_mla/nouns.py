"""The nouns of sparse MLA in plain Triton.

Input: what a host knows of a launch. Output: a struct of constants and a named tuple, which the kernel is given. For example:

    problem = Problem(0.04, 4096, 128, 8192, 1, 2048, 576, 512)     4096 queries of 128 heads, lists of 2048 of 8192 rows
    form = Form(64, 64, 512, 64, False, False, False)               64 heads and 64 rows at a time
"""

from typing import Any, NamedTuple

import triton.language as tl

import mimw.tle as tle


@tle.struct
class Form:
    """Constants: BH heads of a program, BK rows at a time, in tiles of DV_TILE values and DT_TILE other columns; CAUSAL leaves out
    rows behind the query, BASE_2 is of lse, EXACT products of fp32 are fp32's own."""

    BH: tl.constexpr
    BK: tl.constexpr
    DV_TILE: tl.constexpr
    DT_TILE: tl.constexpr
    CAUSAL: tl.constexpr
    BASE_2: tl.constexpr
    EXACT: tl.constexpr


class Problem(NamedTuple):
    """The scale of scores, queries of a batch, heads, rows of KV, KV heads, entries of a list, columns of a row, and how many of
    these are values."""

    scale: Any
    S: Any
    H: Any
    SKV: Any
    HKV: Any
    TOPK: Any
    W: Any
    DV: Any
