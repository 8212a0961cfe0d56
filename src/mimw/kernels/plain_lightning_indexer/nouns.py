"""The nouns of the plain kernel of the lightning indexer.

Input: arguments and constants of a launch. Output: structs that its steps hand to each other. For example:

    FORM = Form(64, 128, 64, 128, 64, 8, 0, True, True, False)      8 queries of 64 heads of 128 columns a program, 64 keys
    strides = Strides(0, 128, 0)                                    of keys in one piece
"""

from typing import Any, NamedTuple

import triton.language as tl

import mimw.tle as tle


@tle.struct
class Form:
    """Constants: H heads of D columns, tiles for these, BK keys and so many queries of a program, keys of a PAGE (0: in one piece),
    CAUSAL bounds, FILL: -inf outside of the bounds; DIRECT products of the type that numbers have, else of fp16."""

    H: tl.constexpr
    D: tl.constexpr
    H_TILE: tl.constexpr
    D_TILE: tl.constexpr
    BK: tl.constexpr
    QUERIES: tl.constexpr
    PAGE: tl.constexpr
    CAUSAL: tl.constexpr
    FILL: tl.constexpr
    DIRECT: tl.constexpr


class Strides(NamedTuple):
    """From one page to the next, and from one row of it; from one page of scales to the next."""

    page: Any
    row: Any
    scale_page: Any
