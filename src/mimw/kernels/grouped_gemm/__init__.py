"""Products of groups of rows for Hopper, the sizes of the groups on the device: bf16, fp16, tf32 (fp32 inputs) and fp8 inputs.

Input: a (M, K) of rows in groups, b (G, K, N), and the row behind each group's last one. Output: c (M, N). For example:

    ends = tensor([5, 5, 9])                        groups of 5, no and 4 rows
    arguments(a, b, c, ends, programs)              (grid, args, meta) of a launch or `mimw.simulate` of `kernel`

Sums are fp32. Rows behind the last group stay as they are.
"""

from __future__ import annotations

import mimw

from ..checks import PROGRAMS
from ..contract import Contract
from ..contract.memory import strides
from ..descriptors import described
from ..products import lying, matrices
from .configs import ON_AMD, Configuration, configuration, on_amd
from .kernel import grouped_gemm as kernel

CONTRACT = Contract(*matrices("(M, K)", "(G, K, N)", "(M, N)"), "ends: i32 (G) contiguous", PROGRAMS)
FAR, WRAP = 2**30, 2**34        # of the map that ends where a group does: kernel.py

__all__ = ["CONTRACT", "ON_AMD", "Configuration", "arguments", "configuration", "kernel", "on_amd", "ragged"]


def arguments(a, b, c, ends, programs: int, chosen: Configuration | None = None) -> tuple[tuple[int], tuple, dict]:
    """(grid, args, meta) that compute c[start of g : ends[g]] = a[start of g : ends[g]] b[g], where group g starts at ends[g - 1].

    args:      a         (M, K), rows contiguous; bf16, fp16, fp32 (computed as tf32), fp8 e4m3 or e5m2; M below 2^30
               b         (G, K, N), rows or columns contiguous; 8-bit and fp32 only with contiguous columns (`x.mT` of (G, N, K))
               c         (M, N), rows contiguous, of any of these types; rows that are in no group stay as they are
               ends      (G, ) int32, ascending, the last at most M; read on the device
               programs  how many persistent programs: one per SM
               chosen    by default by the rows that a group has on average; for AMD what `on_amd` says
    errors:    ValueError where a shape, a stride or a type is not what TMA and wgmma take, with the numbers
    """
    of = CONTRACT.check(a=a, b=b, c=c, ends=ends, programs=programs)
    m, n, k, groups, in_bytes, out_bytes = of.M, of.N, of.K, of.G, a.dtype.itemsize, c.dtype.itemsize
    b, b_is_nk = lying(b)
    chosen = chosen or configuration(m, groups)
    sizes = in_bytes, out_bytes, b_is_nk
    a_block, b_block, _ = chosen.blocks(*sizes)
    tiles = (groups + -(-m // chosen.bm)) * -(-n // chosen.bn)
    args = described(a, a_block), described(b, [1, *b_block]), chosen.output(c, ragged), ends, groups, n, k
    return (min(programs, tiles), ), args, {"FORM": chosen.loaded(*sizes, cut=True), "num_warps": 4}


def ragged(c, block: list[int]):
    """The descriptor of blocks of a matrix that end with a group's rows, by three coordinates for a row: see kernel.py."""
    stride = strides(c)[0] if c.shape[0] > 1 else -(-c.shape[1] * c.dtype.itemsize // 16) * 16 // c.dtype.itemsize
    shape, steps = [FAR + 1, FAR + 1, FAR, c.shape[1]], [WRAP - stride, stride, stride, 1]
    return mimw.TensorDescriptor(c, shape, steps, [1, 1, *block])

