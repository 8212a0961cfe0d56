"""Cross entropy with the gradient of its logits in one launch, or with `:forward` the losses alone, against torch and a copy.

Input: shapes BxN. Output: candidates of `mimw.kernels.cross_entropy`. For example:

    mimw tune cross_entropy --shapes 8192x128256 8192x50257 8192x32000:forward
"""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np

from ...kernels import cross_entropy
from ...kernels.cross_entropy.configs import Configuration, as_row, direct_configuration, ring_configuration
from ..arrays import blank, bytes_of, empty, normal, relative_error
from ..operator import Operator, Problem, Trial

ALLOWED = 5e-3              # of ||found - reference|| / ||reference||
SOME = 64                   # rows that are compared
KB = 1024


class CrossEntropy(Operator):
    """Rings with parts of other sizes, other depths, and one consumer of twice as many warps; the direct form beside them."""

    name, names, words = "cross_entropy", ("B", "N"), ("forward", )
    dtypes = ("bf16", "fp16", "fp32")
    configuration_type = Configuration
    file = Path(cross_entropy.__file__).parent / "configs.json"

    def used(self, problem: Problem, sms: int) -> Configuration:
        return cross_entropy.configuration(*problem.extents, bytes_of(problem.dtype))

    def candidates(self, problem: Problem, sms: int) -> list[Configuration]:
        (rows, n), size, found = problem.extents, bytes_of(problem.dtype), []
        for part, (warps, consumers) in product((16 * KB, 32 * KB, 64 * KB), ((8, 2), (16, 1), (4, 2))):
            whole = ring_configuration(rows, n, size, part, warps, consumers)
            if whole is not None:
                found += [replace(whole, stages=stages) for stages in range(consumers + 1, whole.stages + 1)]
        direct = direct_configuration(rows, n)
        found += [replace(direct, ctas=ctas, chunks=-(-n // (ctas * direct.chunk))) for ctas in (1, 2, 4, 8, 16)]
        return list(dict.fromkeys(found))

    def launches(self, problem: Problem, chosen: Configuration, sms: int) -> list[tuple]:
        (rows, n), dtype = problem.extents, problem.dtype
        x, lines = empty((rows, n), dtype), np.empty((2, rows), np.float32)
        return [cross_entropy.arguments(x, np.zeros(rows, np.int64), *lines, None if problem.words else x, chosen=chosen)]

    def trial(self, problem: Problem, chosen: Configuration) -> Trial:
        import torch
        (rows, n), dtype = problem.extents, problem.dtype
        torch.manual_seed(0)
        x, dx = normal((rows, n), dtype), None if problem.words else blank((rows, n), dtype)
        target, lines = torch.randint(0, n, (rows, ), device="cuda"), torch.full((2, rows), float("nan"), device="cuda")
        kernel, grid, args, meta = cross_entropy.arguments(x, target, *lines, dx, chosen=chosen)
        launch, leaf = kernel[grid], x.detach().requires_grad_(dx is not None)

        def by_torch():
            loss = torch.nn.functional.cross_entropy(leaf, target, reduction="sum")
            return loss if dx is None else torch.autograd.grad(loss, leaf)

        def check() -> float:
            wide = x[:SOME].double().requires_grad_()
            losses = torch.nn.functional.cross_entropy(wide, target[:SOME], reduction="none")
            error = relative_error(lines[0, :SOME], losses.detach())
            if dx is not None:
                error = max(error, relative_error(dx[:SOME], torch.autograd.grad(losses.sum(), wide)[0]))
            if not error < ALLOWED:
                raise AssertionError(f"wrong: error {error:.2e} against fp64 (allowed {ALLOWED})")
            return error

        source = x[:rows // 2] if dx is None else x
        copied = torch.empty_like(source)
        return Trial(lambda: launch(*args, **meta), check, {"torch": by_torch, "copy": lambda: copied.copy_(source)}, 1)

    def rate(self, problem: Problem, microseconds: float) -> str:
        rows, n = problem.extents
        return f"{(1 if problem.words else 2) * bytes_of(problem.dtype) * rows * n / microseconds / 1e3:.0f} GB/s"

    def row(self, problem: Problem, chosen: Configuration) -> dict:
        return as_row(problem.extents[1], bytes_of(problem.dtype), chosen)
