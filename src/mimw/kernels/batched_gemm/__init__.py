"""Products of batches of matrices for Hopper: bf16, fp16, tf32 (fp32 inputs) and fp8 inputs, fp32 accumulation.

Input: a (B, M, K) and b (B, K, N), either of them one matrix for all. Output: c = a b, (B, M, N). For example:

    arguments(a, b, c, programs)            (grid, args, meta) of a launch or `mimw.simulate` of `kernel`, for numpy or torch
    arguments(a, b, c, programs, counter=zero)      the same, whose programs steal tiles
"""

from __future__ import annotations

from ..checks import PROGRAMS
from ..contract import Contract
from ..contract.memory import strides
from ..descriptors import described
from ..gemm.configs import Configuration, configuration
from ..products import lying, matrices
from .kernel import batched_gemm as kernel

MANY = 2048     # rows and columns that keep all programs busy; a batch of smaller matrices does, too
SHORT = Configuration(bm=128, bn=128, stages=5, staging=2, ping_pong=True)      # few chunks a tile: stores bound it
SHORT_BYTES = 1024      # of a row of A
CONTRACT = Contract(*reversed(matrices("(B|1, M, K)", "(B|1, K, N)", "(B, M, N)")), "counter?: i32 (numbers)", PROGRAMS)

__all__ = ["CONTRACT", "SHORT", "Configuration", "arguments", "chosen_for", "kernel", "steals"]


def chosen_for(m: int, n: int, k: int, in_bytes: int) -> Configuration:
    """The configuration that `arguments` takes by itself: SHORT for rows of A of up to SHORT_BYTES, else the GEMM's for one of
    the matrices, as if it had MANY rows and columns."""
    return SHORT if k * in_bytes <= SHORT_BYTES else configuration(max(m, MANY), max(n, MANY), k, in_bytes)


def steals(k: int, in_bytes: int) -> bool:
    """True where a launch is quicker with a counter: stores bound it, of which SMs get unequal shares."""
    return k * in_bytes <= SHORT_BYTES


def arguments(a, b, c, programs: int, chosen: Configuration | None = None, *, counter=None) -> tuple[tuple[int], tuple, dict]:
    """(grid, args, meta) that compute c[i] = a[i] b[i] for each i.

    args:      a         (B, M, K) or (1, M, K), rows contiguous; bf16, fp16, fp32 (computed as tf32), fp8 e4m3 or e5m2
               b         (B, K, N) or (1, K, N), rows or columns contiguous; 8-bit and fp32 only with contiguous columns
               c         (B, M, N), rows contiguous, of any of these types
                         From matrix to matrix any stride that is a multiple of 16 bytes; 0 for a or b is one matrix for all
               programs  how many persistent programs: one per SM, never more than output tiles
               chosen    by default what `chosen_for` gives
               counter   one int32, 0 before and after a launch, for one launch at a time: programs steal tiles; without it they
                         have equal shares. `steals` says where that is quicker
    errors:    ValueError where a shape, a stride or a type is not what TMA and wgmma take, with the numbers
    """
    of = CONTRACT.check(a=a, b=b, c=c, counter=counter, programs=programs)
    batch, m, n, k, in_bytes, out_bytes = of.B, of.M, of.N, of.K, a.dtype.itemsize, c.dtype.itemsize
    (a, one_a), (b, one_b), (c, _) = map(_one_for_all, (a, b, c))
    b, b_is_nk = lying(b)
    chosen = chosen or chosen_for(m, n, k, in_bytes)
    sizes = in_bytes, out_bytes, b_is_nk
    operands = *map(_described, (a, b), chosen.blocks(*sizes)), chosen.output(c, _described)
    tiles = batch * -(-m // chosen.bm) * -(-n // chosen.bn)
    meta = {"FORM": chosen.form(*sizes, cut=True), "ONE_A": one_a, "ONE_B": one_b, "num_warps": 4}
    return (min(programs, tiles), ), (*operands, batch, m, n, k, counter), meta


def _described(matrices, block: list[int]):
    """The descriptor of blocks of single matrices."""
    return described(matrices, [1, *block])


def _one_for_all(matrices):
    """The matrices, and whether it is one; then the stride to the next one is of no account, and may be what TMA refuses."""
    one = matrices.shape[0] == 1 or strides(matrices)[0] == 0
    return (matrices[0][None] if one else matrices), one

