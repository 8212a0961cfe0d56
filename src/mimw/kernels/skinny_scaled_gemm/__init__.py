"""fp8 products of few rows with scales of blocks for Hopper, as in decoding: 1 x 128 of X by 128 x 128 of W, sums in a settled
order.

Input: x (M, K) of up to 256 rows, weights w (N, K), of fp8, with their scales. Output: c = x w^T, (M, N). For example:

    arguments(x, w, c, x_scales, w_scales, room, flags, programs)       (grid, args, meta) of a launch or `mimw.simulate` of
    `kernel`
"""

from __future__ import annotations

from typing import Any, NamedTuple

from ..checks import PROGRAMS, enough, lie
from ..contract import Contract
from ..contract.memory import strides
from ..descriptors import described
from ..powers import tile
from .configs import BLOCK, MOST, Configuration, configuration, programs_for, suits
from .kernel import skinny_scaled_gemm as kernel

CONTRACT = Contract("x: fp8 (M, K) tma", "w: fp8 (N, K) tma", "c: float (M, N) rows", "x_scales: fp32 (M, cdiv(K, 128))",
                    "w_scales: fp32 (cdiv(N, 128), cdiv(K, 128))", "room: fp32 (numbers)", "flags: i32 (words)",
                    f"M <= {MOST} -- there may be up to {MOST} rows", PROGRAMS)

__all__ = ["CONTRACT", "MOST", "Configuration", "arguments", "configuration", "kernel", "room_for", "suits"]


class Sizes(NamedTuple):
    """Rows, weights and products of each, chunks of all tiles, how far apart C's rows are, and W's scales of one block of weights
    and of one chunk."""

    M: Any
    N: Any
    K: Any
    chunks: Any
    c_row: Any
    row: Any
    chunk: Any


def room_for(m: int, n: int, k: int, programs: int, chosen: Configuration | None = None) -> tuple[int, int]:
    """(fp32 numbers of room, flags) that a launch of so many programs needs for M rows and N weights of K."""
    chosen = chosen or configuration(m, n, k, programs)
    return programs * (1 if chosen.parts else chosen.consumers) * 64 * chosen.tm, programs * chosen.consumers


def arguments(x, w, c, x_scales, w_scales, room, flags, programs: int,
              chosen: Configuration | None = None) -> tuple[tuple[int], tuple, dict]:
    """(grid, args, meta) of c = x w^T, where element k of row m of x counts x_scales[m, k // 128] times, and that of row n of w
    w_scales[n // 128, k // 128] times.

    args:      x         (M, K), fp8 e4m3 or e5m2, rows contiguous, up to 256 of them
               w         (N, K), fp8, rows contiguous
               c         (M, N), rows contiguous; bf16, fp16 or fp32
               x_scales  (M, cdiv(K, 128)) fp32, contiguous along M, each 128 of K a multiple of 16 bytes further on
               w_scales  (cdiv(N, 128), cdiv(K, 128)) fp32, any strides
               room, flags, programs   as those of `mimw.kernels.skinny_gemm.arguments`
               chosen    by default the one for M rows and N weights of K
    errors:    ValueError where a shape, a stride or a type is not what TMA and wgmma take, with the numbers
    """
    of = CONTRACT.check(x=x, w=w, c=c, x_scales=x_scales, w_scales=w_scales, room=room, flags=flags, programs=programs)
    m, n, k = of.M, of.N, of.K
    lying = x_scales.swapaxes(0, 1)
    lie("tma", **{"x_scales, as it lies in memory,": lying})
    chosen = chosen or configuration(m, n, k, programs)
    meta = chosen.meta()
    wn = meta["TILES"].WN.value
    chunks = -(-n // wn) * -(-m // chosen.tm) * -(-k // BLOCK)
    grid = programs_for(chosen, m, n, k, programs)
    if grid > programs or chosen.parts and m > chosen.tm:
        CONTRACT.refuse(f"{chosen.parts} parts of tiles of 64 weights by {chosen.tm} rows are {grid} programs for {n} weights and "
                        f"{m} rows; there are {programs} programs, and one tile has to hold all rows")
    least, flags_needed = room_for(m, n, k, programs, chosen)
    enough(room=(room, least), flags=(flags, flags_needed))
    args = (described(x, [chosen.tm, BLOCK]), described(w, [wn, BLOCK]), described(lying, [1, tile(chosen.tm)]), w_scales, c, room,
            flags, Sizes(m, n, k, chunks, strides(c)[0], *strides(w_scales)))
    return (grid, ), args, {**meta, "num_warps": 4, "launch_pdl": True}
