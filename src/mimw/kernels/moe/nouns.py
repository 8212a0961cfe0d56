"""Constants of the products of experts and of what goes before them, and numbers that belong together.

Input: what configs.py and a host know of a launch. Output: structs of constants and named tuples, which kernels are given. For
example:

    form = FewRowsForm(BM=16, BN=128, BK=128, GROUP_M=8, STAGES=12, CONSUMERS=1, GATED=False, CTAS=1)
"""

from typing import Any, NamedTuple

import triton.language as tl

import mimw.tle as tle


@tle.struct
class Form:
    """Blocks of BM rows by BN weights in chunks of BK, GROUP_M tiles one below the other, STAGES chunks in shared memory; CONSUMERS
    share a tile, or in PING_PONG take turns, and store in PIECES by way of STAGING tiles. GATED and PICKED as in kernel.py;
    LOAD_WARPS copy, and CTAS share an SM."""

    BM: tl.constexpr
    BN: tl.constexpr
    BK: tl.constexpr
    GROUP_M: tl.constexpr
    STAGES: tl.constexpr
    CONSUMERS: tl.constexpr
    PIECES: tl.constexpr
    STAGING: tl.constexpr
    PING_PONG: tl.constexpr
    GATED: tl.constexpr
    LOAD_WARPS: tl.constexpr
    CTAS: tl.constexpr
    PICKED: tl.constexpr


@tle.struct
class FewRowsForm:
    """The same where weights are the rows of the products: CONSUMERS have 64 of them each, or twice 64."""

    BM: tl.constexpr
    BN: tl.constexpr
    BK: tl.constexpr
    GROUP_M: tl.constexpr
    STAGES: tl.constexpr
    CONSUMERS: tl.constexpr
    GATED: tl.constexpr
    CTAS: tl.constexpr


@tle.struct
class GatheredForm:
    """The same where rows are gathered by cp.async: LAG chunks are under way, K is a multiple of BK where it is EVEN, and a thread
    of the gatherers has SMALL registers, one of the consumers LARGE."""

    BM: tl.constexpr
    BN: tl.constexpr
    BK: tl.constexpr
    GROUP_M: tl.constexpr
    STAGES: tl.constexpr
    CONSUMERS: tl.constexpr
    PIECES: tl.constexpr
    LAG: tl.constexpr
    EVEN: tl.constexpr
    SMALL: tl.constexpr
    LARGE: tl.constexpr


@tle.struct
class ScaledForm:
    """Those of products in fp8 with scales: where GATED, of the gate and up, tiles of HALF weights of each, else of twice HALF."""

    BM: tl.constexpr
    GROUP_M: tl.constexpr
    STAGES: tl.constexpr
    GATED: tl.constexpr
    HALF: tl.constexpr = 64


@tle.struct
class FewRowsScaledForm:
    """The same where weights are the rows of the products: CONSUMERS have twice 64 of them each, or 64 of the gate and of up."""

    BM: tl.constexpr
    GROUP_M: tl.constexpr
    STAGES: tl.constexpr
    CONSUMERS: tl.constexpr
    GATED: tl.constexpr


class ScaleSteps(NamedTuple):
    """Elements from the scale of an expert, of 128 rows of weights and of 128 numbers along K to the next."""

    expert: Any
    row: Any
    chunk: Any


@tle.struct
class SpreadForm:
    """E experts, blocks of BS rows, TOP_K experts a token; at most SLOTS of tokens times those, and BLOCK columns a program."""

    E: tl.constexpr
    BS: tl.constexpr
    TOP_K: tl.constexpr
    SLOTS: tl.constexpr
    BLOCK: tl.constexpr


class SpreadSteps(NamedTuple):
    """Elements from a token's row to the next, and from the scales of 128 numbers to the next."""

    x: Any
    scales: Any
