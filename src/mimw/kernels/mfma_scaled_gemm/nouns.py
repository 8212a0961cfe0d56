"""The nouns of a product with microscaling formats: numbers and constants of a launch that belong together.

Input: what a host knows of a launch. Output: named tuples and a struct of constants, which the kernel is given. For example:

    sizes, steps = Sizes(4096, 4096, 4096), StepsOfAll(2048, 2048, 4096, 32, 32)
    form = Form(256, 256, 4, 256, True, "e2m1", "e2m1", 16, False, True, 8)
"""

from typing import Any, NamedTuple

import triton
import triton.language as tl

import mimw.tle as tle

from ..gemm.tiles import Grid

BLOCK = 32          # numbers along K that share a scale
STAGES = tl.constexpr(2)      # slots of a ring: two lines of 128 bytes a row of 256 x 256 are 128 of the 160 KiB of LDS


@tle.struct
class Form(Grid):
    """Constants: tiles of BM x BN in bands of GROUP_M, BK of K at a time; eight waves in PING_PONG or four; the formats of A and B;
    instructions of SIDE x SIDE. Scales lie as the instruction takes them if SHUFFLED, else by rows; WHOLE: BK divides K. Programs
    go round over XCDS."""

    BK: tl.constexpr
    PING_PONG: tl.constexpr
    A_FORMAT: tl.constexpr
    B_FORMAT: tl.constexpr
    SIDE: tl.constexpr
    SHUFFLED: tl.constexpr
    WHOLE: tl.constexpr
    XCDS: tl.constexpr

    @triton.constexpr_function
    def warps(self):
        """Waves along M and N."""
        return (2, 4) if self.PING_PONG.value else (2, 2)

    @triton.constexpr_function
    def groups(self):
        """Scales of a row and a step."""
        return self.BK.value // BLOCK


class Sizes(NamedTuple):
    """Rows of A and B, and numbers along K."""

    M: Any
    N: Any
    K: Any


class StepsOfAll(NamedTuple):
    """From one row to the next: bytes of A and B, elements of C, and words of 4 bytes of the scales of A and B."""

    a: Any
    b: Any
    c: Any
    scale_a: Any
    scale_b: Any
