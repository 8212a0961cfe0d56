"""Products of matrices that are mutated: src/mimw/kernels, small and ready to be checked.

    next(case for case in CASES if case.name == "Grouped product").make()       (kernel, grid, args, meta)

Input: nothing. Output: `CASES`.
"""

from __future__ import annotations

import ml_dtypes
import numpy as np

import mimw
from mimw.kernels import (
    batched_gemm,
    block_scaled_gemm,
    column_gemm,
    gather_matmul_scatter,
    gemm,
    grouped_gemm,
    linear_cross_entropy,
    mfma_gemm,
    mfma_scaled_gemm,
    moe,
    skinny_gemm,
    skinny_scaled_gemm,
)
from mimw.kernels.moe.few_rows_scaled import few_rows_scaled_gemm
from mimw.kernels.moe.gathered import gathered_product

from .case import Case, numbers

FP8 = ml_dtypes.float8_e4m3fn


def _library_gemm(**configuration) -> tuple:
    a, b = numbers((256, 256), (256, 192), dtype=ml_dtypes.bfloat16)
    c = np.zeros((256, 192), ml_dtypes.bfloat16)
    return gemm.kernel, *gemm.arguments(a, b, c, 2, gemm.Configuration(**configuration))


def _epilogue_gemm() -> tuple:
    """Four tiles of two consumers each, whose residual comes in two pieces by one slot."""
    a, b, residual = numbers((256, 64), (64, 256), (256, 256), dtype=ml_dtypes.bfloat16)
    chosen = gemm.Configuration(bm=128, bn=128, stages=2, consumers=2, staging=1)
    return gemm.kernel, *gemm.arguments(a, b, np.zeros_like(residual), 2, chosen, residual=residual, bias=residual[0],
                                        activation="relu")


def _promoted_gemm(bm: int = 128, together: int = 1) -> tuple:
    """Three chunks, of which two may overlap, or rows in two halves."""
    a, b = numbers((256, 384), (128, 384), dtype=FP8)
    chosen = gemm.Configuration(bm=bm, bn=128, stages=together + 1, consumers=2, staging=1, together=together)
    return gemm.kernel, *gemm.arguments(a, b.T, np.zeros((256, 128), ml_dtypes.bfloat16), 1, chosen, promoted=True)


def _library_grouped(**configuration) -> tuple:
    """Three groups, an empty one among them, none a whole number of tiles, and rows behind them; two programs."""
    a, b = numbers((220, 128), (3, 128, 128), dtype=ml_dtypes.bfloat16)
    c, ends = np.zeros((220, 128), ml_dtypes.bfloat16), np.array([130, 130, 200], np.int32)
    return grouped_gemm.kernel, *grouped_gemm.arguments(a, b, c, ends, 2, grouped_gemm.Configuration(**configuration))


def _experts(hidden: int = 64, inner: int = 256, stages: int = 0, **configuration) -> tuple:
    """The first product of a mixture of experts: two programs, three experts, one of them without tokens, blocks with padding."""
    chosen = moe.Configuration(**configuration)
    x, gate_up, down = numbers((40, hidden), (3, 2 * inner, hidden), (3, hidden, inner), dtype=ml_dtypes.bfloat16)
    ids, weights = np.repeat(np.array([2, 0], np.int32), [50, 30]).reshape(40, 2), np.ones((40, 2), np.float32)
    room = {name: np.zeros(shape, x.dtype if name in ("inner", "rows") else np.int32)
            for name, shape in moe.room_for(40, 2, 3, inner, hidden, chosen).items()}
    for kernel, grid, args, meta in moe.launches(x, gate_up, down, ids, weights, np.zeros_like(x), room, 2, chosen):
        if kernel in (moe.kernel, moe.few_rows_gemm):
            return kernel, grid, args, meta | ({"FORM": meta["FORM"].replace(STAGES=stages)} if stages else {})
        mimw.simulate(kernel, grid, *args, **meta)


def _experts_by_numbers() -> tuple:
    """Rows picked by four warps: two blocks of different experts for a program, an odd end of K, padding, and four slots for eight
    chunks."""
    a, b = numbers((150, 200), (2, 128, 200), dtype=ml_dtypes.bfloat16)
    sources = np.random.default_rng(0).integers(0, 170, 256).astype(np.int32)
    return gathered_product(a, b, np.zeros((256, 64), ml_dtypes.bfloat16), sources, np.array([1, 0], np.int32),
                            np.array([256], np.int32), 1)


def _scaled_experts(kernel, stages: int, **configuration) -> tuple:
    """The first product of fp8 weights with scales of blocks: two experts, one program, an odd number of chunks along K."""
    tokens, k, experts, inner, hidden = 40, 2, 2, 128, 272
    x, ids = numbers((tokens, hidden), dtype=ml_dtypes.bfloat16)[0], np.repeat(np.array([1, 0], np.int32), tokens).reshape(-1, k)
    matrices = numbers((experts, 2 * inner, hidden), (experts, hidden, inner), dtype=FP8)
    scales = [np.ones((experts, -(-one.shape[1] // 128), -(-one.shape[2] // 128)), np.float32) for one in matrices]
    types = {None: x.dtype, "fp8": FP8}
    room = {name: np.zeros(shape, types.get(type_, type_)) for name, (shape, type_)
            in moe.scaled_room_for(tokens, k, experts, inner, hidden, configuration["bm"]).items()}
    for launched, grid, args, meta in moe.scaled_launches(x, *matrices, *scales, ids, np.ones((tokens, k), np.float32),
                                                          np.zeros_like(x), room, 1, **configuration):
        if launched is kernel:
            return launched, grid, args, meta | {"FORM": meta["FORM"].replace(STAGES=stages)}
        mimw.simulate(launched, grid, *args, **meta)
    raise LookupError(f"no launch of {kernel}")


def _library_batched(**configuration) -> tuple:
    """Three matrices, none a whole number of tiles, times one."""
    a, b = numbers((3, 100, 128), (1, 128, 128), dtype=ml_dtypes.bfloat16)
    c = np.zeros((3, 100, 128), ml_dtypes.bfloat16)
    return batched_gemm.kernel, *batched_gemm.arguments(a, b, c, 2, batched_gemm.Configuration(**configuration))


def _linear_cross_entropy() -> tuple:
    """Four tiles for two programs of two consumers in turn, whose logits end as numbers of a row each."""
    x, weight = numbers((128, 128), (128, 128), dtype=ml_dtypes.bfloat16)
    chosen = gemm.Configuration(bm=64, bn=64, stages=2, staging=1, ping_pong=True)
    lse, own = np.zeros((2, 128), np.float32)
    room = np.zeros(linear_cross_entropy.room_for(128, 128, 128, 2, chosen), np.float32)
    return linear_cross_entropy.launches(x, weight.T, np.arange(128), lse, own, room, 2, chosen=chosen)[0]


def _library_skinny() -> tuple:
    """Two tiles of four chunks, by three programs: each tile is cut, and the second program begins one and ends another."""
    chosen = skinny_gemm.Configuration(tm=16, stages=2)
    x, w = numbers((9, 256), (256, 256), dtype=ml_dtypes.bfloat16)
    room, flags = (np.zeros(size, dtype) for size, dtype in zip(skinny_gemm.room_for(9, 256, 3, chosen), (np.float32, np.int32)))
    made = skinny_gemm.arguments(x, w.T, np.zeros((9, 256), ml_dtypes.bfloat16), room, flags, 3, chosen)
    return skinny_gemm.kernel, *made


def _library_skinny_scaled(n: int = 128, k: int = 384, programs: int = 3, **configuration) -> tuple:
    """Two tiles of three chunks, by two programs: the second tile is cut."""
    chosen = skinny_scaled_gemm.Configuration(tm=16, stages=2, **configuration)
    x, w = numbers((9, k), (n, k), dtype=FP8)
    scales = numbers((k // 128, 12), (-(-n // 128), k // 128), dtype=np.float32)
    room, flags = (np.zeros(size, dtype) for size, dtype in zip(skinny_scaled_gemm.room_for(9, n, k, programs, chosen),
                                                                (np.float32, np.int32)))
    made = skinny_scaled_gemm.arguments(x, w, np.zeros((9, n), ml_dtypes.bfloat16), scales[0][:, :9].T, scales[1], room, flags,
                                        programs, chosen)
    return skinny_scaled_gemm.kernel, *made


def _library_columns(split: int) -> tuple:
    """Three tiles of four chunks by two programs, the last tile ragged; or two tiles, each of a cluster whose CTAs divide K."""
    chosen = column_gemm.Configuration(48, 2, 64) if split == 1 else column_gemm.Configuration(64, 2, 64, split=split)
    x, w = numbers((9, 256), (128, 256), dtype=ml_dtypes.bfloat16)
    return column_gemm.kernel, *column_gemm.arguments(x, w.T, np.zeros((9, 128), ml_dtypes.bfloat16), 2, chosen)


def _library_microscaled(form: str) -> tuple:
    """fp4 by fp4, four steps along K and the half of one."""
    random = np.random.default_rng(0)
    a, b = (random.integers(0, 256, (128, 576), np.uint8) for _ in range(2))
    scales = [random.integers(125, 130, (128, 36)).astype(np.uint8) for _ in range(2)]
    chosen = mfma_scaled_gemm.Configuration(form, 128, 128)
    return mfma_scaled_gemm.kernel, *mfma_scaled_gemm.arguments(a, b, np.zeros((128, 128), np.float32), *scales, chosen)


def _library_block_scaled(k: int = 256, n: int = 128, **configuration) -> tuple:
    """Three groups, an empty one among them, none a whole number of tiles; two programs."""
    a, b = numbers((164, k), (3, n, k), dtype=FP8)
    scale_a, scale_b = numbers((k // 128, 164), (3, -(-n // 128), k // 128), dtype=np.float32)
    chosen = block_scaled_gemm.Configuration(staging=1, **configuration)
    made = block_scaled_gemm.arguments(a, b, np.zeros((164, n), ml_dtypes.bfloat16), scale_a.T, scale_b, 2,
                                       np.array([130, 130, 160], np.int32), chosen)
    return block_scaled_gemm.kernel, *made


def _gathered_product(blackwell: bool = False) -> tuple:
    """Two programs with two output tiles each; some rows come from nowhere, some go nowhere. On Blackwell one program with four."""
    a, b = numbers((100, 192), (192, 128), dtype=ml_dtypes.bfloat16)
    random, c = np.random.default_rng(0), np.zeros((200, 128), ml_dtypes.bfloat16)
    source, target = random.integers(-9, 109, 190).astype(np.int32), random.permutation(220)[:190].astype(np.int32)
    chosen = gather_matmul_scatter.Configuration(bm=128, bn=64, stages=2, staging=1, load_warps=2)
    if blackwell:
        made = gather_matmul_scatter.arguments(a, b, c, source, target, 1, chosen, blackwell=True)
        return gather_matmul_scatter.blackwell_kernel, *made
    return gather_matmul_scatter.kernel, *gather_matmul_scatter.arguments(a, b, c, source, target, 2, chosen)


def _matrix_cores(form: str, depth: int) -> tuple:
    """One tile of more chunks of K than there are slots for."""
    a, b = numbers((64, depth), (64, depth))
    chosen = mfma_gemm.Configuration(form, bm=64, bn=64)
    return mfma_gemm.kernel, *mfma_gemm.arguments(a, b.T, np.zeros((64, 64), np.float32), "gfx950", chosen)


CASES = (
    Case("GEMM, one consumer", "src/mimw/kernels/gemm/kernel.py",
         lambda: _library_gemm(bm=64, bn=64, stages=3, consumers=1, staging=1)),
    Case("GEMM, cooperative", "src/mimw/kernels/gemm/kernel.py",
         lambda: _library_gemm(bm=128, bn=128, stages=2, consumers=2, staging=2)),
    Case("GEMM, ping-pong", "src/mimw/kernels/gemm/kernel.py",
         lambda: _library_gemm(bm=64, bn=128, stages=2, consumers=2, staging=1, ping_pong=True)),
    Case("GEMM, residual", "src/mimw/kernels/gemm/kernel.py", _epilogue_gemm),
    Case("GEMM, promoted sums", "src/mimw/kernels/gemm/kernel.py", _promoted_gemm),
    Case("GEMM, promoted sums, two at a time", "src/mimw/kernels/gemm/promoted.py", lambda: _promoted_gemm(together=2)),
    Case("GEMM, promoted sums, halves", "src/mimw/kernels/gemm/promoted.py", lambda: _promoted_gemm(256)),
    Case("Grouped product", "src/mimw/kernels/grouped_gemm/kernel.py",
         lambda: _library_grouped(bm=128, bn=128, stages=2, staging=1)),
    Case("Grouped product, ping-pong", "src/mimw/kernels/grouped_gemm/kernel.py",
         lambda: _library_grouped(bm=64, bn=128, stages=2, staging=1, ping_pong=True)),
    Case("Product of experts", "src/mimw/kernels/moe/kernel.py", lambda: _experts(bm=64, bn=128, consumers=2, ping_pong=True)),
    Case("Product of experts, few rows", "src/mimw/kernels/moe/few_rows.py",
         lambda: _experts(192, 64, 2, bm=16, bn=128, swapped=True)),
    Case("Product of experts, rows picked", "src/mimw/kernels/moe/kernel.py",
         lambda: _experts(bm=32, bn=128, consumers=2, ping_pong=True, load_warps=4)),
    Case("Product of experts, rows by number", "src/mimw/kernels/moe/gathered.py", _experts_by_numbers),
    Case("Product of experts, scales of blocks", "src/mimw/kernels/moe/scaled.py",
         lambda: _scaled_experts(moe.scaled_expert_gemm, 3, bm=64, swapped=0)),
    Case("Product of experts, scales of blocks, few rows", "src/mimw/kernels/moe/few_rows_scaled.py",
         lambda: _scaled_experts(few_rows_scaled_gemm, 2, bm=32, swapped=2)),
    Case("Batched product", "src/mimw/kernels/batched_gemm/kernel.py",
         lambda: _library_batched(bm=64, bn=128, stages=2, staging=1, ping_pong=True)),
    Case("Linear cross entropy", "src/mimw/kernels/linear_cross_entropy/kernel.py", _linear_cross_entropy),
    Case("Skinny product", "src/mimw/kernels/skinny_gemm/kernel.py", _library_skinny),
    Case("Skinny product, scales of blocks", "src/mimw/kernels/skinny_scaled_gemm/kernel.py",
         lambda: _library_skinny_scaled(consumers=1)),
    Case("Skinny product, scales of blocks, parts of K", "src/mimw/kernels/skinny_scaled_gemm/parts.py",
         lambda: _library_skinny_scaled(64, 640, 2, parts=2)),
    Case("Product by columns", "src/mimw/kernels/column_gemm/kernel.py", lambda: _library_columns(1)),
    Case("Product by columns, clusters", "src/mimw/kernels/column_gemm/kernel.py", lambda: _library_columns(2)),
    Case("Product in microscaling formats, ping-pong", "src/mimw/kernels/mfma_scaled_gemm/kernel.py",
         lambda: _library_microscaled("ping-pong"), target="gfx950"),
    Case("Product in microscaling formats, interleave", "src/mimw/kernels/mfma_scaled_gemm/kernel.py",
         lambda: _library_microscaled("interleave"), target="gfx950"),
    Case("Block-scaled product", "src/mimw/kernels/block_scaled_gemm/kernel.py",
         lambda: _library_block_scaled(stages=2, together=1)),
    Case("Block-scaled product, pairs", "src/mimw/kernels/block_scaled_gemm/kernel.py",
         lambda: _library_block_scaled(640, stages=3, together=2)),
    Case("Block-scaled product, tall", "src/mimw/kernels/block_scaled_gemm/kernel.py",
         lambda: _library_block_scaled(384, n=160, bm=256, rows=128, stages=2)),
    Case("Gather, GEMM, scatter", "src/mimw/kernels/gather_matmul_scatter/kernel.py", _gathered_product),
    Case("Gather, GEMM, scatter, Blackwell", "src/mimw/kernels/gather_matmul_scatter/blackwell.py", lambda: _gathered_product(True),
         target="sm_100a"),
    Case("GEMM on matrix cores, ping-pong", "src/mimw/kernels/mfma_gemm/kernel.py", lambda: _matrix_cores("ping-pong", 320),
         target="gfx950"),
    Case("GEMM on matrix cores, interleaved", "src/mimw/kernels/mfma_gemm/kernel.py", lambda: _matrix_cores("interleave", 256),
         target="gfx950"),
)
