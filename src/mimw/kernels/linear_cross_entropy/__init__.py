"""Sums over the logits of a last linear layer on Hopper, which never stand in memory: bf16, fp16 and tf32.

Input: x (M, K), the weight as (K, N), a target for each row. Output: fp32 logarithms of sums of powers, the targets' logits, and
sums of logits. For example:

    for kernel, grid, args, meta in launches(x, weight.T, targets, lse, own, room, programs): kernel[grid](*args, **meta)
    room_for(M, N, K, 2)            fp32 numbers that the tiles leave: two launches, one after the other
"""

from __future__ import annotations

from ..checks import PROGRAMS, enough
from ..contract import Contract
from ..descriptors import described
from ..gemm.configs import Configuration, configuration
from ..gemm.tiles import Sizes
from ..products import lying
from .kernel import combined
from .kernel import linear_cross_entropy as kernel

CONTRACT = Contract("x: bf16|fp16|fp32 (M, K) tma", "weight: =x (K, N)", "targets: int (M) contiguous", "lse: fp32 (M) contiguous",
                    "own: fp32 (M) contiguous", "room: fp32 (numbers) contiguous", "sums?: fp32 (M) contiguous",
                    "room_of_sums?: fp32 (numbers) contiguous", "bias?: float (N) contiguous", PROGRAMS)
ROWS, BLOCK = 32, 16        # of a program of `combined`: a line of 128 bytes of each tile, and tiles at a time

__all__ = ["CONTRACT", "Configuration", "chosen_for", "combined", "kernel", "launches", "room_for"]


def chosen_for(m: int, n: int, k: int, in_bytes: int) -> Configuration:
    """The GEMM's configuration for a product of these extents, whose tiles are powers of two."""
    return configuration(m, n, k, in_bytes)


def room_for(m: int, n: int, k: int, in_bytes: int, chosen: Configuration | None = None) -> int:
    """fp32 numbers of `room`, and of `room_of_sums`."""
    return m * -(-n // (chosen or chosen_for(m, n, k, in_bytes)).bn)


def launches(x, weight, targets, lse, own, room, programs: int, *, sums=None, room_of_sums=None, bias=None,
             cap: float | None = None, chosen: Configuration | None = None) -> list[tuple]:
    """[(kernel, grid, args, meta)] of two launches that fill lse, own and sums.

    args:      x         (M, K), rows contiguous; bf16, fp16, fp32 (computed as tf32)
               weight    (K, N), rows or columns contiguous; of fp32 columns: `w.T` of an (N, K)
               targets   (M), int32 or int64: a column each; of any other target `own` stays as it is
               lse       (M), fp32: log(sum of exp(logits)) of each row
               own       (M), fp32: the logit of each row's target
               room      fp32, as many as `room_for` says; what is in it does not matter
               programs  persistent programs of the first launch, never more than tiles
               sums      (M), fp32: the sum of each row's logits, with a `room_of_sums` like `room`; None: nobody wants them
               bias      (N), added to each row of logits
               cap       logits become cap tanh(logit / cap); None: they do not
               chosen    by default the GEMM's for this shape, of powers of two
    errors:    ValueError where a shape, a stride or a type is not what TMA and wgmma take, with the numbers
    """
    of = CONTRACT.check(x=x, weight=weight, targets=targets, lse=lse, own=own, room=room, sums=sums, room_of_sums=room_of_sums,
                        bias=bias, programs=programs)
    m, n, k, size = of.M, of.N, of.K, x.dtype.itemsize
    weight, by_columns = lying(weight, "weight")
    chosen = (chosen or chosen_for(m, n, k, size)).fitted(size, 2, by_columns)
    needed = room_for(m, n, k, size, chosen)
    enough(room=(room, needed), **({} if sums is None else {"room_of_sums": (room_of_sums, needed)}))
    form, tiles = chosen.form(size, 2, by_columns), -(-n // chosen.bn)
    x_block, weight_block, _ = chosen.blocks(size, 2, by_columns)
    others = None if sums is None else room_of_sums
    count = min(programs, -(-m // chosen.bm) * tiles)
    first = (described(x, x_block), described(weight, weight_block), targets, room, others, own, bias, Sizes(m, n, k),
             None if cap is None else float(cap))
    second = room, others, lse, sums, m, tiles
    return [(kernel, (count, ), first, dict(FORM=form, WHOLE=n % chosen.bn == 0, num_warps=4)),
            (combined, (-(-m // ROWS), ), second, dict(ROWS=ROWS, BLOCK=BLOCK, num_warps=4))]
