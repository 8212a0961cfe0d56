"""The k largest of each row against `torch.topk`, each side a CUDA graph of calls, so that host time does not count.

Input: shapes MxNxK. Output: candidates of `mimw.kernels.topk`. For example:

    mimw tune topk --shapes 64x8192x128 --dtype fp16
"""

from __future__ import annotations

from itertools import product

import numpy as np

from ...kernels import topk
from ...kernels.topk import Configuration
from ..arrays import empty, normal
from ..graphs import CALLS, graphed
from ..operator import Operator, Problem, Trial


class TopK(Operator):
    """Clusters, warps, places of each count, and bits found at a time; a thread holds at most 32 keys."""

    name, names, dtypes = "topk", ("M", "N", "K"), ("fp32", "fp16", "bf16")
    configuration_type = Configuration

    def used(self, problem: Problem, sms: int) -> Configuration:
        return topk.configuration(problem.extents[1])

    def candidates(self, problem: Problem, sms: int) -> list[Configuration]:
        n = problem.extents[1]
        found = [Configuration(*one) for one in product((1, 2, 4, 8, 16), (1, 2, 4, 8, 16, 32), (1, 4, 16), (4, 8))]
        return [one for one in found if 32 * one.warps * one.ctas <= max(n, 64) and n <= one.ctas * 32 * one.warps * 32
                and (one.ctas == 1 or n >= 8192) and (n // one.ctas >= 2048 or one.ctas == 1)
                and (one.digit == 8 or n <= 1024) and (n <= 8192 or one.warps >= 16) and (n != 8192 or one.warps >= 8)]

    def launches(self, problem: Problem, chosen: Configuration, sms: int) -> list[tuple]:
        m, n, k = problem.extents
        arrays = np.zeros((m, n), empty((1, ), problem.dtype).dtype), empty((m, k), problem.dtype), np.empty((m, k), np.int32)
        return [(topk.kernel, *topk.arguments(*arrays, chosen))]

    def trial(self, problem: Problem, chosen: Configuration) -> Trial:
        import torch
        m, n, k = problem.extents
        torch.manual_seed(0)
        x = normal((m, n), problem.dtype)
        values, indices = torch.empty(m, k, dtype=x.dtype, device="cuda"), torch.empty(m, k, dtype=torch.int32, device="cuda")
        ordered = torch.empty_like(values), indices.long()
        grid, args, meta = topk.arguments(x, values, indices, chosen)
        launch = topk.kernel[grid]
        ours, theirs = graphed(lambda: launch(*args, **meta)), graphed(lambda: torch.topk(x, k, out=ordered))
        values.fill_(float("nan")), indices.fill_(-1)

        def check() -> float:
            at = indices.long()
            if not (values.sort(descending=True).values.equal(torch.topk(x, k).values) and x.gather(1, at).equal(values)
                    and (at.sort().values.diff() > 0).all()):
                raise AssertionError(f"wrong: not the {k} largest of each row, each where its index says, once")
            return 0.0

        return Trial(ours, check, {"torch": theirs}, CALLS)
