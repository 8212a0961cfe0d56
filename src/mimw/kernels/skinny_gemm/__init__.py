"""Products of few rows for Hopper, as in decoding: bf16, fp16, tf32 (fp32 inputs) and fp8 inputs, fp32 sums in a settled order.

Input: x (M, K) of up to some hundred rows, weights w (K, N). Output: c = x w, (M, N). For example:

    arguments(x, w, c, room, flags, programs)               (grid, args, meta) of a launch or `mimw.simulate` of `kernel`
"""

from __future__ import annotations

from ..checks import PROGRAMS, enough
from ..contract import Contract
from ..contract.memory import strides
from ..descriptors import described
from ..products import TYPES, lying
from .configs import Configuration, configuration, fits, tiles
from .kernel import skinny_gemm as kernel

CONTRACT = Contract(f"x: {TYPES} (M, K) tma", "w: =x|fp8 (K, N)", f"c: {TYPES} (M, N) rows", "room: fp32 (numbers)",
                    "flags: i32 (words)", PROGRAMS)

__all__ = ["CONTRACT", "Configuration", "arguments", "configuration", "kernel", "room_for"]


def room_for(m: int, n: int, programs: int, chosen: Configuration | None = None) -> tuple[int, int]:
    """(fp32 numbers of room, flags) that a launch of so many programs needs for M rows and N weights."""
    chosen = chosen or configuration(m, n, programs)
    return programs * chosen.consumers * 64 * chosen.tm, programs * chosen.consumers


def arguments(x, w, c, room, flags, programs: int, chosen: Configuration | None = None) -> tuple[tuple[int], tuple, dict]:
    """(grid, args, meta) that compute c = x w.

    args:      x         (M, K), rows contiguous; bf16, fp16, fp32 (computed as tf32), fp8 e4m3 or e5m2
               w         (K, N), columns (`linear.weight.T`) or rows contiguous; 8-bit and fp32 only with contiguous columns
               c         (M, N), rows contiguous, of any of these types
               room      fp32, as many as `room_for` says; what is in it does not matter
               flags     int32, as many as `room_for` says, all 0; they are 0 again when the launch is over. Launches that may
                         run at the same time need rooms and flags of their own
               programs  how many programs share the weights: one per SM, never more than chunks, and as many as tiles where these
                         are about as many
               chosen    by default the one for M rows and N weights
    errors:    ValueError where a shape, a stride or a type is not what TMA and wgmma take, with the numbers
    """
    of = CONTRACT.check(x=x, w=w, c=c, room=room, flags=flags, programs=programs)
    m, n, k = of.M, of.N, of.K
    w, w_is_nk = lying(w, "w")
    chosen = chosen or configuration(m, n, programs)
    meta = chosen.meta(x.dtype.itemsize, w_is_nk)
    wn, bk = meta["TILES"].WN.value, meta["TILES"].BK.value
    chunks = -(-n // wn) * -(-m // chosen.tm) * -(-k // bk)
    count = tiles(m, n, chosen.tm, chosen.consumers)
    programs = count if fits(count, programs) else min(programs, chunks)
    least, flags_needed = room_for(m, n, programs, chosen)
    enough(room=(room, least), flags=(flags, flags_needed))
    w_block = [wn, bk] if w_is_nk else [bk, wn]
    args = described(x, [chosen.tm, bk]), described(w, w_block), c, room, flags, chunks, m, n, k, strides(c)[0]
    return (programs, ), args, {**meta, "num_warps": 4}

