"""The kernels for Blackwell, each twice: small, with its result by numpy, for the simulator; and at full size, to be compiled
and predicted.

Input: the tutorials, the library, and the shelf of tests. Output: `KERNELS`, one `Kernel` a row. For example:

    one = KERNELS["20 addmm on pairs of CTAs"]
    (kernel, grid, args, meta), found, wanted = one.small()         found() is what the run has left, to be compared with wanted
    (kernel, grid, args, meta) = one.full()                         arrays without contents
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import ml_dtypes
import numpy as np

import mimw
from mimw.kernels import gather_matmul_scatter as fused
from mimw.kernels import linear_attention
from tests.kernels import pair_gemm

from .mutation_kernels import tutorial

SMS = 148       # of a B200


@dataclass(frozen=True)
class Kernel:
    """`operations`: multiply-adds of the full launch, times two; 0 where they say nothing. `size` says what the full launch is."""

    file: str
    small: Callable[[], tuple]
    full: Callable[[], tuple]
    size: str
    operations: float = 0


def half(*shape):
    return np.empty(shape, np.float16)


def single(*shape):
    return np.empty(shape, np.float32)


# ---- one after the other ----------------------------------------------------------------------------------------------


def _ragged_small():
    module = tutorial("08_cluster_launch_control")
    x, starts, sums = module.rows(12, 300)
    launch = module.ragged_sums, *module.arguments(x, starts, sums, BLOCK=64, STAGES=2)
    return launch, lambda: [sums], [module.expected(x, starts)]


def _ragged_full():
    module = tutorial("08_cluster_launch_control")
    starts = np.arange(0, 4097, 4, dtype=np.int32) * 256
    return module.ragged_sums, *module.arguments(single(1 << 20), starts, single(1024), STAGES=2)


def _gemm_small():
    module = tutorial("09_blackwell_gemm")
    a, b, c = module.matrices(256, 192, 128)
    return (module.gemm, *module.arguments(a, b, c, BN=64, BK=32, STAGES=2, PARTS=2)), lambda: [c], [a.astype(np.float32) @ b]


def _gemm_full(m, n, k):
    module = tutorial("09_blackwell_gemm")
    return module.gemm, *module.arguments(half(m, k), half(k, n), half(m, n))


def _pair_small():
    launch, wanted = pair_gemm.launch(m=256, n=64, k=64, bn=64)
    return _without_target(launch), lambda: [launch[2][2]], [wanted]


def _pair_full():
    return _without_target(pair_gemm.launch(m=2048, n=1024, k=4096, bm=128, bn=128, bk=64, stages=6)[0])


def _without_target(launch):
    kernel, grid, args, meta = launch
    return kernel, grid, args, {name: value for name, value in meta.items() if name != "target"}


def _attention_small(causal):
    module = tutorial("10_blackwell_attention")
    q, k, v, o, lse = module.problem(1, 512, 16)
    launch = module.attention, *module.arguments(q, k, v, o, lse, causal, BN=64, PARTS=1)
    return launch, lambda: [o, lse], module.expected(q, k, v, causal)


def _attention_full(causal):
    module = tutorial("10_blackwell_attention")
    shape = 4, 16, 4096, 128
    return module.attention, *module.arguments(*(half(*shape) for _ in range(4)), single(*shape[:3]), causal)


def _backward_small(causal):
    module = tutorial("18_blackwell_attention_backward")
    arrays, wanted = module.problem(1, 256, 16, causal)
    return (module.attention_backward, *module.arguments(*arrays, causal, PARTS=2)), lambda: arrays[4:7], wanted


def _backward_full(causal):
    module = tutorial("18_blackwell_attention_backward")
    shape = 4, 16, 4096, 128
    gradients, sums = (single(*shape), half(*shape), half(*shape)), (single(*shape[:3]), single(*shape[:3]))
    return module.attention_backward, *module.arguments(*(half(*shape) for _ in range(4)), *gradients, *sums, causal)


def _grouped_small():
    module = tutorial("19_blackwell_grouped_gemm")
    a, b, bias, c, offsets = module.problem((130, 0, 40), 128, 64)
    launch = module.grouped_gemm, *module.arguments(a, b, bias, c, offsets, 2, BN=64, BK=32, STAGES=2, PARTS=2)
    return launch, lambda: [c], [module.expected(a, b, bias, offsets)]


def _grouped_full():
    module = tutorial("19_blackwell_grouped_gemm")
    offsets = np.arange(0, 8193, 1024, dtype=np.int32)
    arrays = half(8192, 4096), half(8, 4096, 4096), half(8, 4096), half(8192, 4096), offsets
    return module.grouped_gemm, *module.arguments(*arrays, SMS)


def _addmm_small():
    module = tutorial("20_blackwell_pair_addmm")
    a, b, d, c = module.matrices(480, 64, 48)
    launch = module.addmm, *module.arguments(a, b, d, c, BN=32, BK=16, STAGES=2, PARTS=2, PLACES=2)
    return launch, lambda: [c], [module.expected(a, b, d)]


def _addmm_full():
    module = tutorial("20_blackwell_pair_addmm")
    return module.addmm, *module.arguments(*(half(8192, 8192) for _ in range(4)))


def _scaled_small(name):
    module = tutorial("21_blackwell_block_scaled_gemm")
    arrays, wanted = module.problem(384, 128, 4 * module.FORMATS[name][1] * 4, name)
    chosen = dict(BN=128, BK=4 * module.FORMATS[name][1], STAGES=2, PARTS=2, SUMS=2)
    return (module.block_scaled_gemm, *module.arguments(*arrays, name, 1, **chosen)), lambda: [arrays[-1]], [wanted]


def _scaled_full(name):
    module = tutorial("21_blackwell_block_scaled_gemm")
    element, block, *_ = module.FORMATS[name]
    rows = np.empty((8192, 4096), np.uint8) if element == "e2m1" else np.empty((8192, 8192), ml_dtypes.float8_e4m3fn)
    scales = np.empty((1, 64, 8192 // block // 4, 2, 256), np.uint8)
    return module.block_scaled_gemm, *module.arguments(rows, rows, scales, scales, half(8192, 8192), name, SMS)


def _fused_small():
    random = np.random.default_rng(0)
    a, b = (random.standard_normal((192, 192)).astype(np.float16) for _ in range(2))
    c, rows = np.zeros((320, 192), np.float16), random.integers(0, 192, 300).astype(np.int32)
    into = random.permutation(320)[:300].astype(np.int32)
    wanted = np.zeros(c.shape, np.float32)
    wanted[into] = a[rows].astype(np.float32) @ b
    chosen = fused.Configuration(bm=64, bn=64, stages=2, staging=1)
    return (fused.blackwell_kernel, *fused.arguments(a, b, c, rows, into, 3, chosen, blackwell=True)), lambda: [c], [wanted]


def _linear_small():
    """The recurrence, behind what prepares it."""
    from tests.kernels.linear_attention_calls import GDN, Case
    from tests.kernels.linear_attention_reference import recurrence
    case = Case(**GDN, T=260, tensor_memory=True)
    o = case.filled(case.v.shape)
    *before, launch = case.steps(o=o)
    for kernel, grid, args, meta in before:
        mimw.simulate(kernel, grid, *args, **meta)
    return launch, lambda: [o, case.final], [one.numpy() for one in recurrence(**case.drawn)]


def _linear_full():
    def empty(shape, kind=None):
        return np.empty(shape, np.float32 if kind else ml_dtypes.bfloat16)

    q, k, v = (empty((8, 8192, 16, 128)) for _ in range(3))
    g, beta, tables = single(8, 8192, 16), single(8, 8192, 16), linear_attention.tables(8, 8192)
    work = linear_attention.workspace(k, v, g, beta, tables, empty)
    return linear_attention.forward(q, k, v, g, beta, tables, work, o=empty(v.shape), tensor_memory=True)[-1]


def _fused_full():
    matrix, rows = half(4096, 4096), np.arange(4096, dtype=np.int32)
    return fused.blackwell_kernel, *fused.arguments(matrix, matrix, matrix, rows, rows, SMS, blackwell=True)


_ATTENTION = 4 * 4 * 16 * 4096 ** 2 * 128      # two products of a head, full
KERNELS = {
    "08 sums of rows, launch control": Kernel("tutorials/08_cluster_launch_control.py", _ragged_small, _ragged_full,
                                              "1024 rows of 1024"),
    "09 GEMM: persistent, two accumulators, parts, launch control": Kernel(
        "tutorials/09_blackwell_gemm.py", _gemm_small, lambda: _gemm_full(8192, 8192, 8192), "8192^3 fp16", 2 * 8192 ** 3),
    "GEMM on pairs of CTAs": Kernel("tests/kernels/pair_gemm.py", _pair_small, _pair_full, "2048 x 1024 x 4096 fp16",
                                    2 * 2048 * 1024 * 4096),
    "10 attention": Kernel("tutorials/10_blackwell_attention.py", lambda: _attention_small(False), lambda: _attention_full(False),
                           "4 x 16 heads, 4096, 128 fp16", _ATTENTION),
    "10 attention, causal": Kernel("tutorials/10_blackwell_attention.py", lambda: _attention_small(True),
                                   lambda: _attention_full(True), "4 x 16 heads, 4096, 128 fp16", _ATTENTION / 2),
    "18 attention, backward": Kernel("tutorials/18_blackwell_attention_backward.py", lambda: _backward_small(False),
                                     lambda: _backward_full(False), "4 x 16 heads, 4096, 128 fp16", 2.5 * _ATTENTION),
    "18 attention, backward, causal": Kernel("tutorials/18_blackwell_attention_backward.py", lambda: _backward_small(True),
                                             lambda: _backward_full(True), "4 x 16 heads, 4096, 128 fp16", 1.25 * _ATTENTION),
    "19 grouped GEMM": Kernel("tutorials/19_blackwell_grouped_gemm.py", _grouped_small, _grouped_full,
                              "8 groups of 1024, N = K = 4096 fp16", 2 * 8192 * 4096 ** 2),
    "20 addmm on pairs of CTAs": Kernel("tutorials/20_blackwell_pair_addmm.py", _addmm_small, _addmm_full, "8192^3 fp16",
                                        2 * 8192 ** 3),
    **{f"21 GEMM of {name}": Kernel("tutorials/21_blackwell_block_scaled_gemm.py", lambda name=name: _scaled_small(name),
                                    lambda name=name: _scaled_full(name), "8192^3", 2 * 8192 ** 3)
       for name in ("mxfp8", "mxfp4", "nvfp4")},
    "fused gather, GEMM, scatter": Kernel("src/mimw/kernels/gather_matmul_scatter/blackwell.py", _fused_small, _fused_full,
                                          "4096^3 fp16", 2 * 4096 ** 3),
    "linear attention, gates a head": Kernel("src/mimw/kernels/linear_attention/blackwell.py", _linear_small, _linear_full,
                                             "8 x 8192, 16 heads, 128 bf16"),
}
