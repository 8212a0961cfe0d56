"""The nouns of a product for every stride and GPU: numbers of a launch that belong together.

Input: what a host knows of a launch. Output: named tuples and a struct of constants, which the kernel is given as they are. For
example:

    problem = Problem(5, 7, 33, 5, 5)               rows 5 to 7 by 33, none of them picked
    form = Form(16, 16, 64, 8, False, False)        tiles of 16 x 16, 64 of K at a time
"""

from typing import Any, NamedTuple

import triton.language as tl

import mimw.tle as tle


@tle.struct
class Form:
    """Constants: tiles of BM x BN, GROUP_M of them one below the other, BK of K at a time."""

    BM: tl.constexpr
    BN: tl.constexpr
    BK: tl.constexpr
    GROUP_M: tl.constexpr
    EXACT: tl.constexpr
    WIDEN: tl.constexpr


class Problem(NamedTuple):
    """Extents of the product, and the rows that A and C have."""

    M: Any
    N: Any
    K: Any
    a_rows: Any
    c_rows: Any


class Steps(NamedTuple):
    """Strides of one array."""

    batch: Any
    row: Any
    column: Any


class StepsOfAll(NamedTuple):
    """Those of all three."""

    a: Steps
    b: Steps
    c: Steps
