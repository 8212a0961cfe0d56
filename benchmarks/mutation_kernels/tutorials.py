"""The tutorials for one GPU that are mutated, small and ready to be checked.

    next(case for case in CASES if case.name == "Tutorial 06").make()       (kernel, grid, args, meta)

Input: nothing. Output: `CASES`.
"""

from __future__ import annotations

import numpy as np

import mimw.tle

from .case import Case, numbers, tutorial
from .rows import choices, experts_lists, ties


def _tutorial_gemm(stem: str, m: int, n: int, k: int, *further, **meta) -> tuple:
    module = tutorial(stem)
    a, b = numbers((m, k), (k, n))
    return module.gemm, *module.arguments(a, b, np.zeros((m, n), np.float16), *further, **meta)


def _product_with_native_code(stem: str, k: int, **meta) -> tuple:
    """The launch that the tutorial's `multiply` makes."""
    made: list[tuple] = []
    arrays = *numbers((64, k), (k, 128)), *numbers((128, ), dtype=np.float32), np.zeros((64, 128), np.float16)
    tutorial(stem).multiply(lambda kernel, grid, *args, **more: made.append((kernel, grid, args, more)), *arrays, **meta)
    return made[0]


def _layer_norm() -> tuple:
    module = tutorial("05_cluster_layer_norm")
    x, w, b = numbers((9, 200), 200, 200)
    return module.layer_norm, *module.arguments(x, w, b, np.zeros_like(x), clusters=2, CLUSTER=2, STAGES=2, num_warps=4)


def _ragged_sums() -> tuple:
    """Rows of a few blocks, and of none."""
    module = tutorial("08_cluster_launch_control")
    return module.ragged_sums, *module.arguments(*module.rows(8, 60), BLOCK=32, STAGES=2)


def _tutorial_attention() -> tuple:
    module = tutorial("06_attention")
    q, k, v = numbers(*[(1, 1, 256, 64)] * 3)
    return module.attention, *module.arguments(q, k, v, np.zeros_like(q), np.zeros(q.shape[:3], np.float32), BN=64)


def _tensor_attention() -> tuple:
    """256 queries and four blocks of keys."""
    module = tutorial("10_blackwell_attention")
    return module.attention, *module.arguments(*module.problem(1, 256, 16), BN=64, PARTS=1)


def _attention_backward() -> tuple:
    """128 of 384 keys, and three blocks of queries: with one program the sums of dQ have one order."""
    module = tutorial("18_blackwell_attention_backward")
    _, args, meta = module.arguments(*module.problem(1, 384, 16, False)[0], PARTS=2)
    return module.attention_backward, (1, 1), args, meta


def _grouped_gemm() -> tuple:
    """Two programs, three groups, an empty one among them."""
    module = tutorial("19_blackwell_grouped_gemm")
    arrays = module.problem((130, 0, 40), 128, 64)
    return module.grouped_gemm, *module.arguments(*arrays, 2, BN=64, BK=32, STAGES=2, PARTS=2)


def _pair_addmm() -> tuple:
    """Two pairs of CTAs and four tiles, two parts of each in two places; 32 rows of A behind the end of M."""
    module = tutorial("20_blackwell_pair_addmm")
    return module.addmm, *module.arguments(*module.matrices(480, 64, 48), BM=128, BN=32, BK=16, STAGES=2, PARTS=2, PLACES=2)


def _block_scaled_gemm() -> tuple:
    """One program and three tiles, two accumulators, nvfp4."""
    module = tutorial("21_blackwell_block_scaled_gemm")
    arrays, _ = module.problem(384, 128, 256, "nvfp4")
    return module.block_scaled_gemm, *module.arguments(*arrays, "nvfp4", 1, BN=128, BK=64, STAGES=2, PARTS=2, SUMS=2)


def _histogram() -> tuple:
    module = tutorial("07_radix_histogram")
    keys = np.random.default_rng(0).integers(0, 1 << 8, 600).astype(np.int32)
    meta = dict(BITS=4, COPIES=2, BLOCK=256, programs=2, num_warps=4)
    return module.histogram, *module.arguments(keys, np.zeros(16, np.int32), 0, **meta)


def _tutorial_topk() -> tuple:
    module = tutorial("14_radix_topk")
    return module.radix_topk, *module.arguments(*ties())


def _tutorial_align(in_cluster: bool) -> tuple:
    module = tutorial("15_moe_align")
    outs = [np.full(size, -7, np.int32) for size in module.sizes(300, 8, 4)]
    return module.align, *module.arguments(choices(300), outs, 8, 4, in_cluster, BLOCK=128, num_warps=4)


def _softmax() -> tuple:
    """A mesh of two CTAs."""
    module = tutorial("16_cluster_reduction")
    (x, ) = numbers((2, 100))
    return module.softmax, *module.arguments(x, np.zeros_like(x), mimw.tle.device_mesh({"cluster": 2}), num_warps=4)


CASES = (
    Case("Tutorial 01", "tutorials/01_pipelined_gemm.py",
         lambda: _tutorial_gemm("01_pipelined_gemm", 128, 64, 320, BM=64, BN=64, STAGES=3, num_warps=4)),
    Case("Tutorial 01, on gfx950", "tutorials/01_pipelined_gemm.py",
         lambda: _tutorial_gemm("01_pipelined_gemm", 128, 64, 320, BM=64, BN=64, STAGES=3, num_warps=4), target="gfx950"),
    Case("Tutorial 02", "tutorials/02_warp_specialised_gemm.py",
         lambda: _tutorial_gemm("02_warp_specialised_gemm", 384, 128, 320, 2, BN=128, STAGES=2)),
    Case("Tutorial 03", "tutorials/03_ping_pong_gemm.py",
         lambda: _tutorial_gemm("03_ping_pong_gemm", 128, 256, 320, 2, BM=64, BN=64, STAGES=2)),
    Case("Tutorial 04", "tutorials/04_multicast_gemm.py",
         lambda: _tutorial_gemm("04_multicast_gemm", 256, 256, 320, 2, BN=128, STAGES=2)),
    Case("Tutorial 05", "tutorials/05_cluster_layer_norm.py", _layer_norm),
    Case("Tutorial 06", "tutorials/06_attention.py", _tutorial_attention),
    Case("Tutorial 07", "tutorials/07_radix_histogram.py", _histogram),
    Case("Tutorial 08", "tutorials/08_cluster_launch_control.py", _ragged_sums, target="sm_100a"),
    Case("Tutorial 09", "tutorials/09_blackwell_gemm.py",
         lambda: _tutorial_gemm("09_blackwell_gemm", 256, 192, 128, BN=64, BK=32, STAGES=2, PARTS=2), target="sm_100a"),
    Case("Tutorial 10", "tutorials/10_blackwell_attention.py", _tensor_attention, target="sm_100a"),
    Case("Tutorial 11", "tutorials/11_tle_pipe_gemm.py",
         lambda: _tutorial_gemm("11_tle_pipe_gemm", 128, 64, 320, BM=64, BN=64, STAGES=3, num_warps=4)),
    Case("Tutorial 12", "tutorials/12_tle_warp_specialised_gemm.py",
         lambda: _tutorial_gemm("12_tle_warp_specialised_gemm", 256, 128, 256, 1, BN=128, STAGES=2)),
    Case("Tutorial 14", "tutorials/14_radix_topk.py", _tutorial_topk),
    Case("Tutorial 15, cluster", "tutorials/15_moe_align.py", lambda: _tutorial_align(True), experts_lists),
    Case("Tutorial 15, grid", "tutorials/15_moe_align.py", lambda: _tutorial_align(False), experts_lists),
    Case("Tutorial 16", "tutorials/16_cluster_reduction.py", _softmax),
    Case("Tutorial 17", "tutorials/17_distributed_dot.py",
         lambda: _tutorial_gemm("17_distributed_dot", 32, 64, 192, BM=32, BN=64, BK=32, STAGES=3, num_warps=4)),
    Case("Tutorial 18", "tutorials/18_blackwell_attention_backward.py", _attention_backward, target="sm_100a"),
    Case("Tutorial 19", "tutorials/19_blackwell_grouped_gemm.py", _grouped_gemm, target="sm_100a"),
    Case("Tutorial 20", "tutorials/20_blackwell_pair_addmm.py", _pair_addmm, target="sm_100a"),
    Case("Tutorial 21", "tutorials/21_blackwell_block_scaled_gemm.py", _block_scaled_gemm, target="sm_100a"),
    Case("Tutorial 24", "tutorials/24_raw_code.py",
         lambda: _product_with_native_code("24_raw_code", 96, BM=64, BN=64, BK=32, STAGES=2)),
    Case("Tutorial 26", "tutorials/26_mlir_text.py", lambda: _product_with_native_code("26_mlir_text", 192, STAGES=2)),
)
