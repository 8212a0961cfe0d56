"""The kernels whose TTGIR `benchmarks/ttgir_edits.py` edits: of stock Triton, pipelined and warp-specialised by its passes, one in
the manner of Gluon, with its barriers by hand, and four of Gluon's whose programs are two CTAs.

    CASES["GEMM by TMA, sm_90"].made()        Made(text, launches, grid)

Shapes are the smallest at which each slot of a pipe is filled twice, and at which masks leave something out.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
import triton
import triton.language as tl
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.nvidia.hopper import TensorDescriptor as GluonDescriptor

from mimw import TensorDescriptor
from mimw.runtime.ttgir import compiled_launch
from tests.kernels import halves_apart, several_ctas, several_ctas_blackwell

from .mutation_kernels.case import numbers

RING = Path(__file__).parent / "ttgir_ring.ttgir"
K = 448         # seven trips of 64, by three slots


@triton.jit
def gemm(a, b, c, M, N, K, stride_a, stride_b, stride_c, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    columns = tl.program_id(1) * BN + tl.arange(0, BN)
    steps = tl.arange(0, BK)
    at_a = a + rows[:, None] * stride_a + steps[None, :]
    at_b = b + steps[:, None] * stride_b + columns[None, :]
    acc = tl.zeros((BM, BN), tl.float32)
    for k in range(0, K, BK):
        x = tl.load(at_a, mask=(rows[:, None] < M) & (steps[None, :] < K - k), other=0.)
        y = tl.load(at_b, mask=(steps[:, None] < K - k) & (columns[None, :] < N), other=0.)
        acc = tl.dot(x, y, acc)
        at_a += BK
        at_b += BK * stride_b
    tl.store(c + rows[:, None] * stride_c + columns[None, :], acc.to(tl.float16), mask=(rows[:, None] < M) & (columns[None, :] < N))


@triton.jit
def gemm_by_tma(a, b, c, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, WS: tl.constexpr):
    row, column = tl.program_id(0) * BM, tl.program_id(1) * BN
    acc = tl.zeros((BM, BN), tl.float32)
    for k in tl.range(0, K, BK, warp_specialize=WS):
        acc = tl.dot(a.load([row, k]), b.load([column, k]).T, acc)
    c.store([row, column], acc.to(tl.float16))


@triton.jit
def gemm_own_descriptors(a, b, c, M, N, width, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    of_a = tl.make_tensor_descriptor(a, [M, width], [width, 1], [BM, BK])
    of_b = tl.make_tensor_descriptor(b, [N, width], [width, 1], [BN, BK])
    of_c = tl.make_tensor_descriptor(c, [M, N], [N, 1], [BM, BN])
    row, column = tl.program_id(0) * BM, tl.program_id(1) * BN
    acc = tl.zeros((BM, BN), tl.float32)
    for k in range(0, K, BK):
        acc = tl.dot(of_a.load([row, k]), of_b.load([column, k]).T, acc)
    of_c.store([row, column], acc.to(tl.float16))


@triton.jit
def attention(q, k, v, o, length, scale, BM: tl.constexpr, BN: tl.constexpr, D: tl.constexpr, WS: tl.constexpr):
    row = tl.program_id(0) * BM
    tile = q.load([row, 0])
    peak = tl.full((BM, ), -1e30, tl.float32)
    total = tl.zeros((BM, ), tl.float32)
    acc = tl.zeros((BM, D), tl.float32)
    for at in tl.range(0, length, BN, warp_specialize=WS):
        scores = tl.dot(tile, k.load([at, 0]).T) * scale
        higher = tl.maximum(peak, tl.max(scores, 1))
        weights = tl.math.exp2(scores - higher[:, None])
        faded = tl.math.exp2(peak - higher)
        acc = tl.dot(weights.to(tl.float16), v.load([at, 0]), acc * faded[:, None])
        total = total * faded + tl.sum(weights, 1)
        peak = higher
    o.store([row, 0], (acc / tl.maximum(total, 1e-20)[:, None]).to(tl.float16))


@dataclass(frozen=True)
class Given:
    """A launch, and what its results are to be."""

    args: tuple
    expected: dict[str, np.ndarray]


@dataclass(frozen=True)
class Made:
    """A module, and launches of it: the first fills every slot twice, others leave a pipe half empty, or empty."""

    text: str
    launches: tuple[Given, ...]
    grid: tuple[int, ...] = (1, 1)


@dataclass(frozen=True)
class Case:
    """One kernel, compiled for one chip."""

    name: str
    target: str
    made: Callable[[], Made]


def _product(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return (a.astype(np.float32) @ b.astype(np.float32)).astype(np.float16)


def _compiled(kernel, target: str, launches: tuple[Given, ...], meta: dict) -> Made:
    _, reading = compiled_launch(kernel, (1, 1), launches[0].args, meta, target, late_fences=False)
    return Made(reading.text, launches)


def masked(target: str, tile: int = 64, m: int = 48, n: int = 48, **options) -> Made:
    """One tile of the product, which sticks out of both matrices."""
    def given(k: int) -> Given:
        a, b = numbers((m, max(k, 16)), (max(k, 16), n))
        return Given((a, b, np.zeros((m, n), np.float16), m, n, k, a.shape[1], n, n), {"c": _product(a[:, :k], b[:k])})

    return _compiled(gemm, target, tuple(map(given, (K - 16, 48, 0))), dict(BM=tile, BN=64, BK=64, **options))


def ping_pong(target: str, **options) -> Made:
    """One tile of the product, so large that Triton lets two halves of the waves run apart. Without a K nothing may be read."""
    def given(k: int) -> Given:
        a, b = numbers((256, k), (k, 256)) if k else numbers((1, 1), (1, 1))
        return Given((a, b, np.zeros((256, 256), np.float16), k), {"c": _product(a, b) if k else np.zeros((256, 256), np.float16)})

    return _compiled(halves_apart.product, target, tuple(map(given, (160, 32, 0))), dict(M=256, N=256, BK=32, **options))


def by_tma(target: str, rows: int = 64, ws: bool = False, **options) -> Made:
    a, b = numbers((rows, K), (64, K))

    def given(k: int) -> Given:
        arrays = a, b, np.zeros((rows, 64), np.float16)
        descriptors = (TensorDescriptor.from_tensor(one, [len(one), 64]) for one in arrays)
        return Given((*descriptors, k), {"c": _product(a[:, :k], b[:, :k].T)})

    return _compiled(gemm_by_tma, target, tuple(map(given, (K, 64, 0))), dict(BM=rows, BN=64, BK=64, WS=ws, **options))


def own_descriptors(target: str, rows: int = 64, **options) -> Made:
    a, b = numbers((rows, K), (64, K))

    def given(k: int) -> Given:
        return Given((a, b, np.zeros((rows, 64), np.float16), rows, 64, K, k), {"c": _product(a[:, :k], b[:, :k].T)})

    return _compiled(gemm_own_descriptors, target, tuple(map(given, (K, 64, 0))), dict(BM=rows, BN=64, BK=64, **options))


def attended(target: str, rows: int = 64, ws: bool = False, **options) -> Made:
    q, k, v = numbers((rows, 64), (448, 64), (448, 64))

    def given(length: int) -> Given:
        weights = np.exp2(q.astype(np.float32) @ k[:length].astype(np.float32).T * 0.125)
        wanted = weights @ v[:length].astype(np.float32) / np.maximum(weights.sum(1, keepdims=True), 1e-20)
        arrays = q, k, v, np.zeros((rows, 64), np.float16)
        args = (TensorDescriptor.from_tensor(one, [rows if len(one) == rows else 64, 64]) for one in arrays)
        return Given((*args, length, 0.125), {"o": wanted.astype(np.float16)})

    return _compiled(attention, target, tuple(map(given, (448, 64, 0))), dict(BM=rows, BN=64, D=64, WS=ws, **options))


def ring() -> Made:
    """Barriers by hand: a producer and a consumer around a ring of two slots, as Gluon leaves it."""
    x, _ = numbers((384, 64), (1, 1))
    args = (TensorDescriptor.from_tensor(one, [64, 64]) for one in (x, np.zeros_like(x)))
    return Made(RING.read_text(), (Given((*args, 6), {"y": x + x}), ), (1, ))


def two_ctas(kernel, target: str, args: tuple, expected: dict[str, np.ndarray], **constants: Any) -> Made:
    """A kernel of Gluon's, with the meetings of its cluster that Triton puts in behind TTGIR. The barriers between threads, which
    come with them, are left out: a task is one strand here."""
    _, reading = compiled_launch(kernel, (1, ), args, dict(RIGHT=True, num_ctas=2, **constants), target)
    lines = (line for line in reading.text.splitlines() if "ttg.barrier local" not in line)
    return Made("\n".join(lines) + "\n", (Given(args, expected), ), (1, ))


def _described(array: np.ndarray | torch.Tensor, block: list[int], bases: list[list[int]], element=gl.float16,
               rows: bool = False) -> GluonDescriptor:
    """A descriptor; with `rows` one of single rows, which a tile of that block is picked from. Packed scales are not swizzled."""
    layout = gl.NVMMASharedLayout.get_default_for(block, element, cga_layout=bases) if element != gl.uint8 else \
        gl.NVMMASharedLayout(0, 8, len(block), cga_layout=bases)
    return GluonDescriptor.from_tensor(torch.as_tensor(array), [1, *block[1:]] if rows else block, layout)


def sent_to_both() -> Made:
    x, _ = numbers((192, 64), (1, 1))
    return two_ctas(several_ctas.sent_to_both, "sm_90a", (_described(x, [64, 64], [[0, 0]]), np.zeros_like(x)), {"target": x})


def product_of_a_pair() -> Made:
    a, b = numbers((256, 128), (128, 64))
    c = np.zeros((256, 64), np.float16)
    blocks = (a, [256, 64], [[1, 0]]), (b, [64, 64], [[0, 1]]), (c, [256, 64], [[1, 0]])
    return two_ctas(several_ctas.product_of_a_pair, "sm_100a", tuple(_described(*one) for one in blocks), {"c": _product(a, b)})


def scaled_product() -> Made:
    a, b = (torch.from_numpy(one).to(torch.float8_e4m3fn) for one in numbers((256, 256), (128, 256)))
    random = np.random.default_rng(0)
    scales = [random.integers(124, 131, (rows, 8)).astype(np.uint8) for rows in (256, 128)]
    packed = [one.reshape(-1, 4, 32, 2, 4).transpose(0, 3, 2, 1, 4).reshape(1, -1, 2, 2, 256) for one in scales]
    x, y = (one.float().numpy() * np.repeat(np.exp2(scale - 127.0), 32, 1) for one, scale in zip((a, b), scales))
    blocks = ((a, [256, 128], [[1, 0]], gl.float8e4nv), (b, [128, 128], [[1, 0]], gl.float8e4nv),
              (packed[0], [1, 2, 1, 2, 256], [[0, 1, 0, 0, 0]], gl.uint8), (packed[1], [1, 1, 1, 2, 256], [[0] * 5], gl.uint8),
              (np.zeros((256, 128), np.float32), [256, 128], [[1, 0]], gl.float32))
    return two_ctas(several_ctas_blackwell.scaled_product, "sm_100a", tuple(_described(*one) for one in blocks),
                    {"c": (x @ y.T).astype(np.float32)}, K=256, PAIR=True)


def product_of_picked_rows() -> Made:
    a, b = numbers((256, 128), (96, 128))
    picked = np.random.default_rng(0).permutation(96)[:64].astype(np.int32)
    args = (_described(a, [256, 64], [[1, 0]]), _described(b, [64, 64], [[1, 0]], rows=True), picked,
            _described(np.zeros((256, 64), np.float16), [256, 64], [[1, 0]]))
    return two_ctas(several_ctas_blackwell.product_of_picked_rows, "sm_100a", args, {"c": _product(a, b[picked].T)}, K=128,
                    CGA=[[0, 1]])


CASES = {case.name: case for case in (
    Case("GEMM by cp.async, sm_80", "sm_80", partial(masked, "sm_80", num_warps=4, num_stages=3)),
    Case("GEMM by cp.async, sm_90", "sm_90a", partial(masked, "sm_90a", num_warps=4, num_stages=3)),
    Case("GEMM by cp.async, sm_100", "sm_100a", partial(masked, "sm_100a", 128, 112, num_warps=4, num_stages=3)),
    Case("GEMM by TMA, sm_90", "sm_90a", partial(by_tma, "sm_90a", num_warps=4, num_stages=3)),
    Case("GEMM by TMA, sm_100", "sm_100a", partial(by_tma, "sm_100a", 128, num_warps=4, num_stages=3)),
    Case("GEMM, warps specialised, sm_100", "sm_100a", partial(by_tma, "sm_100a", 128, True, num_warps=4, num_stages=3)),
    Case("GEMM, own descriptors, sm_90", "sm_90a", partial(own_descriptors, "sm_90a", num_warps=4, num_stages=3)),
    Case("Attention, sm_90", "sm_90a", partial(attended, "sm_90a", num_warps=4, num_stages=2)),
    Case("Attention, sm_100", "sm_100a", partial(attended, "sm_100a", 128, num_warps=4, num_stages=2)),
    Case("Attention, warps specialised, sm_100", "sm_100a", partial(attended, "sm_100a", 128, True, num_warps=4, num_stages=2)),
    Case("Ring by hand, sm_90", "sm_90a", ring),
    Case("Two CTAs, one load, sm_90", "sm_90a", sent_to_both),
    Case("Two CTAs, one product, sm_100", "sm_100a", product_of_a_pair),
    Case("Two CTAs, scales, sm_100", "sm_100a", scaled_product),
    Case("Two CTAs, picked rows, sm_100", "sm_100a", product_of_picked_rows),
    Case("GEMM, gfx950", "gfx950", partial(masked, "gfx950", num_warps=4, num_stages=2)),
    Case("GEMM, halves apart, gfx942", "gfx942", partial(ping_pong, "gfx942", num_warps=8, num_stages=2)),
)}
