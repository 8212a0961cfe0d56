"""The places of the k largest of each row against `torch.topk`, each side a CUDA graph of calls, so that host time does not count.

Input: shapes MxNxK. Output: candidates of `mimw.kernels.topk_selector`. For example:

    mimw tune topk_selector --shapes 64x524288x2048
"""

from __future__ import annotations

from itertools import product

import numpy as np

from ...kernels import topk_selector
from ...kernels.topk_selector import Configuration, power_of_two
from ..arrays import empty, normal
from ..graphs import CALLS, graphed
from ..operator import Operator, Problem, Trial


class TopKSelector(Operator):
    """Clusters, warps, and how many loads a thread has under way."""

    name, names, dtypes = "topk_selector", ("M", "N", "K"), ("fp32", "fp16", "bf16")
    configuration_type = Configuration

    def used(self, problem: Problem, sms: int) -> Configuration:
        return topk_selector.configuration(*problem.extents)

    def candidates(self, problem: Problem, sms: int) -> list[Configuration]:
        m, n, k = problem.extents
        room = self.used(problem, sms).candidates
        return [Configuration(ctas, warps, chunks, max(room, power_of_two(k)))
                for ctas, warps, chunks in product((1, 2, 4, 8, 16), (8, 16, 32), (1, 2, 4))
                if ctas == 1 or n // ctas >= 4096 and m * ctas <= 8 * sms]

    def launches(self, problem: Problem, chosen: Configuration, sms: int) -> list[tuple]:
        m, n, k = problem.extents
        x = np.zeros((m, n), empty((1, ), problem.dtype).dtype)
        return [(topk_selector.kernel, *topk_selector.arguments(x, None, None, np.empty((m, k), np.int32), None, chosen))]

    def trial(self, problem: Problem, chosen: Configuration) -> Trial:
        import torch
        m, n, k = problem.extents
        torch.manual_seed(0)
        x, places = normal((m, n), problem.dtype), torch.full((m, k), -7, dtype=torch.int32, device="cuda")
        ordered = torch.empty(m, k, dtype=x.dtype, device="cuda"), places.long()
        grid, args, meta = topk_selector.arguments(x, None, None, places, None, chosen)
        launch = topk_selector.kernel[grid]
        ours, theirs = graphed(lambda: launch(*args, **meta)), graphed(lambda: torch.topk(x, k, out=ordered))
        places.fill_(-7)

        def check() -> float:
            found = x.gather(1, places.long()).sort(descending=True).values
            if not (found.equal(torch.topk(x, k).values) and (places.sort().values.diff() > 0).all()):
                raise AssertionError(f"wrong: not the places of the {k} largest of each row, each once")
            return 0.0

        return Trial(ours, check, {"torch": theirs}, CALLS)
