"""Launches of kernels that Inductor generates (others_inductor.py), by name, beside those of others_launches.py.

Input: nothing. Output: further entries of `KERNELS`. For example:

    KERNELS["inductor-mm"].launch()         (grid, arguments and options by name); sizes and tiles stand in the kernel's text
"""

from __future__ import annotations

from .others_inductor import MULTIPROCESSORS
from .others_launches import Launch, kernel, random, tiles, whole

TORCH = "torch", "2.13.0"


@kernel("inductor-mm", *TORCH, "inductor/mm.py", "triton_mm")
def _mm(m: int = 4096, n: int = 4096, k: int = 4096) -> Launch:
    return (tiles(m, 128) * tiles(n, 128), ), dict(
        arg_A=random(m, k), arg_B=random(k, n), out_ptr0=random(m, n), num_warps=8, num_stages=3)


@kernel("inductor-persistent-tma", *TORCH, "inductor/mm_persistent_tma.py", "triton_mm_persistent_tma")
def _persistent_tma(m: int = 4096, n: int = 4096, k: int = 4096) -> Launch:
    return (MULTIPROCESSORS, ), dict(
        arg_A=random(m, k), arg_B=random(k, n), out_ptr0=random(m, n), num_warps=8, num_stages=3)


@kernel("inductor-bmm", *TORCH, "inductor/bmm.py", "triton_bmm")
def _bmm(batch: int = 16, m: int = 2048, n: int = 2048, k: int = 1024) -> Launch:
    return (tiles(m, 128) * tiles(n, 128), batch, 1), dict(
        arg_A=random(batch, m, k), arg_B=random(batch, k, n), out_ptr0=random(batch, m, n), num_warps=8, num_stages=3)


@kernel("inductor-grouped-mm", *TORCH, "inductor/grouped_mm.py", "triton_grouped_mm")
def _grouped(tokens: int = 4096, groups: int = 8, n: int = 4096, k: int = 2048) -> Launch:
    """`b` lies with its last two axes exchanged; offsets are the rows behind each group."""
    ends = whole([tokens // groups * (at + 1) for at in range(groups)])
    return (MULTIPROCESSORS, ), dict(
        arg_a_ptr=random(tokens, k), arg_b_ptr=random(groups, n, k), arg_offsets_ptr=ends, out_ptr0=random(tokens, n),
        num_warps=8, num_stages=3)
