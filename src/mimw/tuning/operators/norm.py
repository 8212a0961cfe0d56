"""LayerNorm forward, and with `:rms` RMSNorm, against torch; launches bound few rows, so there each side is a CUDA graph.

Input: shapes BxN. Output: candidates of `mimw.kernels.norm`. For example:

    mimw tune norm --shapes 1152x65536 4x16384:rms
"""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np

from ...kernels import norm
from ...kernels.norm.configs import MOST_CTAS, SHARED, Configuration, as_row
from ..arrays import blank, bytes_of, empty, normal, relative_error
from ..graphs import CALLS, graphed
from ..operator import Operator, Problem, Trial

FEW = 16                    # rows
ALLOWED = 4e-3              # of ||y - reference|| / ||reference||
EPS = 1e-5
PIECE = 128                 # rows that are compared at a time: whole arrays in fp64 take gigabytes


class Norm(Operator):
    """The configurations: for few rows clusters and warps of the direct form; for many rings of other depths, parts of other
    sizes, rows split equally or stolen."""

    name, names, words = "norm", ("B", "N"), ("rms", )
    dtypes = ("bf16", "fp16", "fp32")
    configuration_type = Configuration
    file = Path(norm.__file__).parent / "configs.json"

    def used(self, problem: Problem, sms: int) -> Configuration:
        size = bytes_of(problem.dtype)
        return norm.configuration(*problem.extents, size, kept_bytes=size if problem.words else 2 * size)

    def candidates(self, problem: Problem, sms: int) -> list[Configuration]:
        (rows, n), size = problem.extents, bytes_of(problem.dtype)
        kept = size if problem.words else 2 * size
        found = [Configuration("direct", ctas, n // ctas, 1, warps, early=early)
                 for ctas, warps, early in product((1, 2, 4, 8, 16), (4, 8, 16), (False, True))
                 if n % ctas == 0 and (n // ctas) & (n // ctas - 1) == 0 and 4 <= n // (ctas * warps * 32) <= 64]
        if rows <= FEW:
            return found
        for staged in (1, 2):       # parts of 32 and of 16 KB
            whole = norm.ring_configuration(rows, n, size, staged, kept)
            if whole is None or whole.ctas > MOST_CTAS:
                continue
            most = min(10, (SHARED - whole.chunk * whole.chunks * kept) // (whole.chunk * whole.chunks * size))
            found += [replace(whole, stages=stages, drawn=drawn, keep=keep)
                      for stages, drawn, keep in product(range(whole.consumers + 1, most + 1), (False, True), (True, False))]
        return found

    def launches(self, problem: Problem, chosen: Configuration, sms: int) -> list[tuple]:
        (rows, n), dtype = problem.extents, problem.dtype
        x, w, b, y = empty((rows, n), dtype), empty((n, ), dtype), empty((n, ), dtype), empty((rows, n), dtype)
        return [norm.arguments(x, w, None if problem.words else b, y, eps=EPS, centred=not problem.words, chosen=chosen,
                               counter=np.zeros(1, np.int32))]

    def trial(self, problem: Problem, chosen: Configuration) -> Trial:
        import torch
        (rows, n), dtype = problem.extents, problem.dtype
        torch.manual_seed(0)
        x, w, b, y = normal((rows, n), dtype), normal((n, ), dtype), normal((n, ), dtype), blank((rows, n), dtype)
        bias, counter = None if problem.words else b, torch.zeros(1, device="cuda", dtype=torch.int32)
        kernel, grid, args, meta = norm.arguments(x, w, bias, y, eps=EPS, centred=not problem.words, chosen=chosen, counter=counter)
        launch = kernel[grid]

        def by_torch(x, w, b):
            if problem.words:
                return torch.nn.functional.rms_norm(x, (n, ), w, EPS)
            return torch.nn.functional.layer_norm(x, (n, ), w, b, EPS)

        def check() -> float:
            error = max(relative_error(y[at:at + PIECE], by_torch(x[at:at + PIECE].double(), w.double(), b.double()))
                        for at in range(0, rows, PIECE))
            if not error < ALLOWED:
                raise AssertionError(f"wrong: error {error:.2e} against fp64 (allowed {ALLOWED})")
            return error

        copied = torch.empty_like(x)
        sides = {"mimw": lambda: launch(*args, **meta), "torch": lambda: by_torch(x, w, b), "copy": lambda: copied.copy_(x)}
        if rows <= FEW:
            sides = {name: graphed(run) for name, run in sides.items()}
        return Trial(sides.pop("mimw"), check, sides, CALLS if rows <= FEW else 1)

    def rate(self, problem: Problem, microseconds: float) -> str:
        rows, n = problem.extents
        return f"{2 * bytes_of(problem.dtype) * rows * n / microseconds / 1e3:.0f} GB/s"

    def row(self, problem: Problem, chosen: Configuration) -> dict:
        return as_row(*problem.extents, bytes_of(problem.dtype), 1, chosen)
