"""The nouns of a launch of the block-scaled product.

Input: what a host knows of a launch. Output: named tuples and a struct of constants, which the kernel is given. For example:

    steps, sizes = StepsOfScales(3136, 56, 1), Sizes(4096, 7168, 7168)
    form = Form(128, 128, 8, 5, 64, 2, 2, "plain", 4)
"""

from typing import Any, NamedTuple

import triton.language as tl

import mimw.tle as tle


@tle.struct
class Form:
    """Constants: tiles of BM x BN, GROUP_M of them one below the other, ROWS for each consumer; STAGES chunks in shared memory,
    sums that go out in PIECES through STAGING tiles; LAYOUT of groups, as in kernel.py; TOGETHER as in a `Part`."""

    BM: tl.constexpr
    BN: tl.constexpr
    GROUP_M: tl.constexpr
    STAGES: tl.constexpr
    ROWS: tl.constexpr
    PIECES: tl.constexpr
    STAGING: tl.constexpr
    LAYOUT: tl.constexpr
    TOGETHER: tl.constexpr


class StepsOfScales(NamedTuple):
    """Strides of B's scales: from one group, one column of blocks and one chunk to the next."""

    group: Any
    column: Any
    chunk: Any


class Sizes(NamedTuple):
    """Rows, columns and products of each of them, of one matrix."""

    M: Any
    N: Any
    K: Any
