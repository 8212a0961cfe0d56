"""2-simplicial attention with the published windows, 512 and 32, against the plain kernel.

Input: shapes BATCHxHEADSxSEQxDIM, 64 heads to a head of keys. Output: candidates of `mimw.kernels.simplicial_attention`. For
example:

    mimw tune simplicial_attention --shapes 1x64x4096x128
"""

from __future__ import annotations

import numpy as np

from ...kernels import plain_simplicial_attention, simplicial_attention
from ...kernels.simplicial_attention import HEADS, WINDOWS, Configuration
from ..arrays import empty, normal
from ..operator import Operator, Problem, Trial

ALLOWED = 1.5e-2    # relative to fp64: bf16 rounds queries times keys, probabilities and results


def operations(seq: int, heads: int, dim: int) -> float:
    """The operations of both products of one batch."""
    first, second = WINDOWS
    return 4.0 * dim * heads * sum(min(i + 1, first) * min(i + 1, second) for i in range(seq))


class SimplicialAttention(Operator):
    """Keys of a block, blocks in shared memory, and how many of them are held for all second keys."""

    name, names, dtypes = "simplicial_attention", ("BATCH", "HEADS", "SEQ", "DIM"), ("bf16", "fp16")
    configuration_type = Configuration

    def used(self, problem: Problem, sms: int) -> Configuration:
        return simplicial_attention.configuration(problem.extents[3])

    def candidates(self, problem: Problem, sms: int) -> list[Configuration]:
        room = 128 // problem.extents[3] * 4    # blocks of 64 keys
        return [Configuration(bn, stages, chunk) for bn in (32, 64, 128) for stages in (64 * room // bn, 48 * room // bn)
                for chunk in (stages, stages // 2) if chunk]

    def launches(self, problem: Problem, chosen: Configuration, sms: int) -> list[tuple]:
        batch, heads, seq, dim = problem.extents
        q, k = empty((batch, heads, seq, dim), problem.dtype), empty((batch, heads // HEADS, seq, dim), problem.dtype)
        lse = np.empty((batch, heads, seq), np.float32)
        return [(simplicial_attention.kernel, *simplicial_attention.arguments(q, k, k, k, k, q, lse, sms, chosen=chosen))]

    def trial(self, problem: Problem, chosen: Configuration) -> Trial:
        import torch
        batch, heads, seq, dim = problem.extents
        torch.manual_seed(0)
        q, *rest = (normal((batch, count, seq, dim), problem.dtype) for count in (heads, *4 * [heads // HEADS]))
        o, theirs = torch.full_like(q, float("nan")), torch.empty_like(q)
        lse = torch.empty(batch, heads, seq, device="cuda")
        sms = torch.cuda.get_device_properties(0).multi_processor_count
        grid, args, meta = simplicial_attention.arguments(q, *rest, o, lse, sms, chosen=chosen)
        plain = plain_simplicial_attention.arguments(q, *rest, theirs, lse)

        def check() -> float:
            found = 0.0
            for position in {0, 1, seq // 2, seq - 1}:
                k, v, k2, v2 = (x[0, 0, max(0, position + 1 - window):position + 1].double()
                                for x, window in zip(rest, (WINDOWS[0], WINDOWS[0], WINDOWS[1], WINDOWS[1])))
                logits = torch.einsum("hd,jd,kd->hjk", q[0, :HEADS, position].double(), k, k2) * dim ** -0.5
                p = logits.flatten(1).softmax(1).view(logits.shape)
                exact = torch.einsum("hjk,jd,kd->hd", p, v, v2)
                found = max(found, ((o[0, :HEADS, position].double() - exact).norm() / exact.norm()).item())
            if not found < ALLOWED:
                raise AssertionError(f"wrong: relative error {found:.2e} against fp64, {ALLOWED} is allowed")
            return found

        return Trial(lambda: simplicial_attention.kernel[grid](*args, **meta), check,
                     {"plain": lambda: plain_simplicial_attention.kernel[plain[0]](*plain[1], **plain[2])})

    def rate(self, problem: Problem, microseconds: float) -> str:
        batch, heads, seq, dim = problem.extents
        return f"{batch * operations(seq, heads, dim) / microseconds / 1e6:.0f} TFLOP/s"
