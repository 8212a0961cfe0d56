"""Products of few rows, as in decoding: `C[M, N] = X[M, K] W` against cuBLAS, each call with the next one of three weights.

Input: shapes MxNxK. Output: candidates of `mimw.kernels.skinny_gemm`. For example:

    mimw tune skinny_gemm --shapes 1x28672x8192 16x8192x8192
"""

from __future__ import annotations

from itertools import cycle, product

import numpy as np

from ...kernels import skinny_gemm
from ...kernels.skinny_gemm import Configuration
from ...kernels.skinny_gemm.configs import LINE_BYTES, MOST, RING_BYTES
from ...testing.gemm_error import allowed
from ..arrays import blank, bytes_of, empty, normal, relative_error
from ..operator import Operator, Problem, Trial

DEEPEST = 20        # slots of a ring


class SkinnyGemm(Operator):
    """The least tile that holds the rows, and half of it; one or two consumers; a ring that is full, or half of that."""

    name, names, dtypes = "skinny_gemm", ("M", "N", "K"), ("bf16", "fp16")
    configuration_type = Configuration

    def used(self, problem: Problem, sms: int) -> Configuration:
        m, n, _ = problem.extents
        return skinny_gemm.configuration(m, n, sms)

    def candidates(self, problem: Problem, sms: int) -> list[Configuration]:
        least, found = min(MOST, max(16, 1 << (problem.extents[0] - 1).bit_length())), []
        for tm, consumers in product({least, max(16, least // 2)}, (1, 2)):
            most = min(DEEPEST, RING_BYTES // (LINE_BYTES * (64 * consumers + tm)))
            found += [Configuration(tm, stages, consumers) for stages in (most, most // 2) if stages > 1]
        return sorted(set(found), key=str)

    def launches(self, problem: Problem, chosen: Configuration, sms: int) -> list[tuple]:
        (m, n, k), dtype = problem.extents, problem.dtype
        room, flags = skinny_gemm.room_for(m, n, sms, chosen)
        arrays = (empty((m, k), dtype), empty((n, k), dtype).T, empty((m, n), dtype), np.empty(room, np.float32),
                  np.zeros(flags, np.int32))
        return [(skinny_gemm.kernel, *skinny_gemm.arguments(*arrays, sms, chosen))]

    def trial(self, problem: Problem, chosen: Configuration) -> Trial:
        import torch
        (m, n, k), dtype = problem.extents, problem.dtype
        torch.manual_seed(0)
        x, weights, c = normal((m, k), dtype), [normal((n, k), dtype).T for _ in range(3)], blank((m, n), dtype)
        sms = torch.cuda.get_device_properties(0).multi_processor_count
        sizes = skinny_gemm.room_for(m, n, sms, chosen)
        room, flags = torch.empty(sizes[0], device="cuda"), torch.zeros(sizes[1], device="cuda", dtype=torch.int32)
        launches = [skinny_gemm.arguments(x, w, c, room, flags, sms, chosen) for w in weights]
        turns = cycle([skinny_gemm.kernel.freeze(grid, *args, **meta) for grid, args, meta in launches])
        others = cycle(weights)

        def run():
            next(turns)()

        def check() -> float:
            """Against fp64, and against itself: two launches give the same bits. The first run has had the first weights."""
            run(), run(), run()
            first = c.clone()
            exact = x.double() @ weights[0].double()
            run(), run(), run()
            error, most = relative_error(first, exact), allowed(bytes_of(dtype), bytes_of(dtype), k)
            if not (error < most and torch.equal(first, c) and not flags.any()):
                raise AssertionError(f"wrong: error {error:.2e} against fp64 (allowed {most:.2e}), or not the same twice")
            return error

        return Trial(run, check, {"cuBLAS": lambda: x @ next(others)})

    def rate(self, problem: Problem, microseconds: float) -> str:
        _, n, k = problem.extents
        return f"{bytes_of(problem.dtype) * n * k / microseconds / 1e3:.0f} GB/s"
