"""Attention forward against cuDNN: shapes BxHxSxD of queries, keys and values alike (values of 128 with D = 192), `:causal` with
the mask.

Input: shapes. Output: candidates of `mimw.kernels.attention`. For example:

    mimw tune attention --shapes 4x48x4096x128 4x48x4096x128:causal
"""

from __future__ import annotations

from itertools import product
from pathlib import Path

import numpy as np

from ...kernels import attention
from ...kernels.attention.configs import Configuration, as_row, value_dim
from ...target import target
from ..arrays import blank, empty, normal, relative_error
from ..operator import Operator, Problem, Trial

CUTS = {64: ((128, 128, 2), (192, 128, 3), (192, 112, 3), (128, 160, 2), (128, 176, 2), (128, 192, 2)),
        96: ((128, 128, 2), (192, 64, 3), (128, 144, 2), (128, 160, 2), (128, 176, 2)),
        128: ((128, 128, 2), (192, 128, 3), (128, 64, 2), (128, 144, 2), (128, 160, 2), (128, 176, 2)),
        192: ((128, 128, 2), (128, 64, 2), (128, 96, 2), (128, 112, 2)), 256: ((128, 64, 2), (128, 80, 2))}
WHOLE = {96: (False, True)}     # heads that may be one tile, or two
ORDERS = (False, False), (False, True), (True, False)        # in turns or not, and with late casts: where none are in turns
BESIDES = 2048              # bytes of barriers, and of what Triton's ops take besides
QUERIES = 16                # of every head that are compared with fp64
ALLOWED, ALLOWED_LSE = 5e-3, 1e-3


class Attention(Operator):
    """Rings of keys and values that fit together and differ by one slot at most; both schedules, scores ahead or not; blocks of
    keys that are powers of two, and the widest others that fit."""

    name, names, dtypes, words = "attention", ("B", "H", "S", "D"), ("bf16", "fp16"), ("causal", )
    configuration_type = Configuration
    file = Path(attention.__file__).parent / "configs.json"

    def used(self, problem: Problem, sms: int) -> Configuration | None:
        dim = problem.extents[3]
        return attention.configuration(dim, "causal" in problem.words, seq_q=problem.extents[2]) if dim in CUTS else None

    def candidates(self, problem: Problem, sms: int) -> list[Configuration]:
        dim, found = problem.extents[3], []
        for (bm, bn, consumers), (turns, late), ahead, whole in product(CUTS.get(dim, ()), ORDERS, (True, False),
                                                                        WHOLE.get(dim, (False, ))):
            room = target("sm_90a").shared_bytes - BESIDES - 2 * bm * dim * (1 + ahead)
            slots = 2 * room // (2 * bn * (dim + value_dim(dim)))
            found += [Configuration(bm, bn, k, v, consumers, turns, ahead, late, whole=whole)
                      for k, v in product((2, 3, 4), (2, 3, 4)) if 2 * bn * (k * dim + v * value_dim(dim)) <= room
                      and abs(k - v) < 2 and k + v >= min(slots, 8) - 1]
        return found

    def launches(self, problem: Problem, chosen: Configuration, sms: int) -> list[tuple]:
        shape = problem.extents
        q, k = (empty(shape, problem.dtype) for _ in range(2))
        v, o = (empty((*shape[:3], value_dim(shape[3])), problem.dtype) for _ in range(2))
        arrays = q, k, v, o, np.empty(shape[:3], np.float32), np.zeros(1, np.int32)
        return [(attention.kernel, *attention.arguments(*arrays, sms, causal="causal" in problem.words, chosen=chosen))]

    def trial(self, problem: Problem, chosen: Configuration) -> Trial:
        import torch
        from torch.nn.attention import SDPBackend, sdpa_kernel
        from torch.nn.functional import scaled_dot_product_attention
        causal = "causal" in problem.words
        torch.manual_seed(0)
        of_values = *problem.extents[:3], value_dim(problem.extents[3])
        q, k, v = (normal(extents, problem.dtype) for extents in (problem.extents, problem.extents, of_values))
        o, lse = blank(of_values, problem.dtype), torch.empty(problem.extents[:3], device="cuda")
        counter = torch.zeros(1, dtype=torch.int32, device="cuda")
        sms = torch.cuda.get_device_properties(0).multi_processor_count
        grid, args, meta = attention.arguments(q, k, v, o, lse, counter, sms, causal=causal, chosen=chosen)
        launch = attention.kernel[grid]

        def cudnn():
            with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
                return scaled_dot_product_attention(q, k, v, is_causal=causal)

        return Trial(lambda: launch(*args, **meta), lambda: check(q, k, v, o, lse, causal), {"cuDNN": cudnn})

    def rate(self, problem: Problem, microseconds: float) -> str:
        batch, heads, seq, dim = problem.extents
        flops = 2 * batch * heads * seq * seq * (dim + value_dim(dim)) / (2 if problem.words else 1)
        return f"{flops / microseconds / 1e6:.0f} TFLOP/s"

    def row(self, problem: Problem, chosen: Configuration) -> dict:
        return as_row(problem.extents[3], "causal" in problem.words, chosen)


def check(q, k, v, o, lse, causal: bool) -> float:
    """The error of o on some queries of every head against fp64; an AssertionError if it, or that of lse, is too large."""
    import torch
    rows = torch.randperm(q.shape[2], device="cuda")[:QUERIES].sort().values
    rows[0], rows[-1] = 0, q.shape[2] - 1
    wanted, sums = [], []
    for head in range(q.shape[1]):
        scores = q[:, head, rows].double() @ k[:, head].double().mT / q.shape[-1]**0.5
        if causal:
            scores.masked_fill_(torch.arange(k.shape[2], device="cuda") > rows[:, None] + k.shape[2] - q.shape[2], float("-inf"))
        wanted.append(scores.softmax(-1) @ v[:, head].double())
        sums.append(scores.logsumexp(-1))
    error = relative_error(o[:, :, rows], torch.stack(wanted, 1))
    lse_error = (lse[:, :, rows] - torch.stack(sums, 1)).abs().max().item()
    if not (error < ALLOWED and lse_error < ALLOWED_LSE):
        raise AssertionError(f"wrong: error {error:.2e} of O (allowed {ALLOWED}), {lse_error:.2e} of log-sum-exp "
                             f"(allowed {ALLOWED_LSE})")
    return error
