"""A mixture of experts in stock Triton: tokens aligned by expert in four launches (plain_moe_align.py), a product that gathers its
rows by pointers, SwiGLU, a second product that weighs its rows, and their sum.

    run = launcher(x, gate_up, down, ids, weights, Cut(64, 128, 64, 8, 4, 4))       a call without arguments: out
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import triton
import triton.language as tl

from . import plain_moe_align


@dataclass(frozen=True)
class Cut:
    """BM x BN tiles, BK deep, in bands of `group_m` blocks."""

    bm: int
    bn: int
    bk: int
    group_m: int
    num_warps: int
    num_stages: int


# What such kernels are usually launched with: by how many rows an expert has on average, at most.
CUTS = {
    16: [Cut(16, 64, 128, 1, 4, 4), Cut(16, 128, 128, 1, 4, 3), Cut(16, 128, 64, 1, 4, 5), Cut(16, 64, 256, 1, 4, 3)],
    32: [Cut(32, 128, 64, 1, 4, 4), Cut(32, 64, 128, 1, 4, 4), Cut(32, 128, 128, 1, 8, 3)],
    96: [Cut(64, 128, 64, 8, 4, 4), Cut(64, 256, 64, 8, 8, 3), Cut(64, 128, 128, 8, 4, 3)],
    1 << 30: [Cut(128, 128, 64, 8, 4, 4), Cut(128, 256, 64, 8, 8, 3), Cut(128, 128, 64, 8, 8, 4), Cut(64, 256, 64, 8, 8, 3)],
}


def cuts(rows: int, experts: int, scaled: bool = False) -> list[Cut]:
    """The candidates for so many rows in all; those that scales of blocks allow are 128 deep and at most 128 wide."""
    found = next(found for most, found in CUTS.items() if rows <= most * min(rows, experts))
    if not scaled:
        return found
    return list(dict.fromkeys(replace(cut, bk=128, bn=min(128, cut.bn), num_stages=min(4, cut.num_stages)) for cut in found))


@triton.jit
def product(a_ptr, a_scale_ptr, b_ptr, b_scale_ptr, c_ptr, sorted_ptr, experts_ptr, total_ptr, weights_ptr, N, K, numel, EM, a_row,
            TOP_K: tl.constexpr, WEIGHTED: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
            GROUP_M: tl.constexpr):
    """Row i of C is the product of row i // TOP_K of A and the expert's matrix (N, K); one tile a program. With scales, of 1 x 128
    and of 128 x 128, BK is 128 and BN at most that."""
    tiles_m, tiles_n = tl.cdiv(EM, BM), tl.cdiv(N, BN)
    pid, band = tl.program_id(0), GROUP_M * tiles_n
    first = pid // band * GROUP_M
    height = min(tiles_m - first, GROUP_M)
    block, column = first + pid % band % height, pid % band // height
    if block * BM >= tl.load(total_ptr):
        return
    rows = tl.load(sorted_ptr + block * BM + tl.arange(0, BM)).to(tl.int64)
    inside = rows < numel
    expert = tl.load(experts_ptr + block).to(tl.int64)
    n = column * BN + tl.arange(0, BN)
    k = tl.arange(0, BK)
    a = a_ptr + (rows // TOP_K * a_row)[:, None] + k[None, :]
    b = b_ptr + expert * N * K + (n % N).to(tl.int64)[None, :] * K + k[:, None]
    steps = tl.cdiv(K, 128)
    acc = tl.zeros((BM, BN), tl.float32)
    for start in range(0, K, BK):
        left = tl.load(a, mask=inside[:, None] & (k[None, :] < K - start), other=0.0)
        right = tl.load(b, mask=k[:, None] < K - start, other=0.0)
        if a_scale_ptr is None:
            acc = tl.dot(left, right, acc)
        else:
            of_a = tl.load(a_scale_ptr + rows // TOP_K * steps + start // 128, mask=inside, other=0.0)
            of_b = tl.load(b_scale_ptr + (expert * tl.cdiv(N, 128) + column * BN // 128) * steps + start // 128)
            acc += tl.dot(left, right) * (of_a * of_b)[:, None]
        a += BK
        b += BK
    if WEIGHTED:
        acc *= tl.load(weights_ptr + rows, mask=inside, other=0.0)[:, None]
    tl.store(c_ptr + rows[:, None] * N + n[None, :], acc.to(c_ptr.dtype.element_ty), mask=inside[:, None] & (n < N)[None, :])


@triton.jit
def silu_and_mul(x_ptr, y_ptr, N, BLOCK: tl.constexpr):
    """y = silu(gate) up of rows that hold both halves."""
    row, at = tl.program_id(0).to(tl.int64), tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    gate = tl.load(x_ptr + row * 2 * N + at, mask=at < N).to(tl.float32)
    up = tl.load(x_ptr + row * 2 * N + N + at, mask=at < N).to(tl.float32)
    tl.store(y_ptr + row * N + at, (gate * tl.sigmoid(gate) * up).to(y_ptr.dtype.element_ty), mask=at < N)


@triton.jit
def quantise(x_ptr, y_ptr, scale_ptr, N, BLOCK: tl.constexpr):
    """Rows in e4m3, and the scale of each 128 of their numbers."""
    row, block = tl.program_id(0).to(tl.int64), tl.program_id(1) * (BLOCK // 128) + tl.arange(0, BLOCK // 128)
    at = block[:, None] * 128 + tl.arange(0, 128)[None, :]
    x = tl.load(x_ptr + row * N + at, mask=at < N, other=0.0).to(tl.float32)
    scale = tl.maximum(tl.max(tl.abs(x), 1), 1e-12) / 448.0
    tl.store(y_ptr + row * N + at, (x / scale[:, None]).to(y_ptr.dtype.element_ty), mask=at < N)
    tl.store(scale_ptr + row * tl.cdiv(N, 128) + block, scale, mask=block * 128 < N)


def quantised(x, like):
    """(rows in `like`'s type, their scales)."""
    import torch
    y, scale = torch.empty_like(x, dtype=like.dtype), x.new_empty(x.shape[0], -(-x.shape[1] // 128), dtype=torch.float32)
    quantise[(x.shape[0], -(-x.shape[1] // 1024))](x, y, scale, x.shape[1], 1024)
    return y, scale


def launcher(x, gate_up, down, ids, weights, cut: Cut, scales=(None, None)):
    """A call without arguments that gives the mixture; with scales the matrices are fp8."""
    import torch

    (tokens, hidden), k, (experts, twice, _) = x.shape, ids.shape[1], gate_up.shape
    inner, numel = twice // 2, ids.numel()
    length = numel + experts * (cut.bm - 1)
    if numel < experts:
        length = min(length, numel * cut.bm)
    meta = dict(BM=cut.bm, BN=cut.bn, BK=cut.bk, GROUP_M=cut.group_m, num_warps=cut.num_warps, num_stages=cut.num_stages)

    def run():
        made = dict(dtype=torch.int32, device=x.device)
        rows, owners = (torch.empty(size, **made) for size in (numel + experts * (cut.bm - 1), -(-length // cut.bm) + experts))
        total = torch.empty(1, **made)
        plain_moe_align.launcher(ids, rows, owners, total, experts, cut.bm)()
        both, y, out = (x.new_empty(numel, width) for width in (twice, inner, hidden))
        blocks = -(-length // cut.bm)
        tiles = lambda n: (blocks * -(-n // cut.bn), )  # noqa: E731
        lists = rows, owners, total, weights
        a, a_scale = (x, None) if scales[0] is None else quantised(x, gate_up)
        product[tiles(twice)](a, a_scale, gate_up, scales[0], both, *lists, twice, hidden, numel, length, hidden, k, False,
                              **meta)
        silu_and_mul[(numel, -(-inner // 1024))](both, y, inner, 1024)
        a, a_scale = (y, None) if scales[1] is None else quantised(y, down)
        product[tiles(hidden)](a, a_scale, down, scales[1], out, *lists, hidden, inner, numel, length, inner, 1, True, **meta)
        return out.view(tokens, k, hidden).sum(1)

    return run
