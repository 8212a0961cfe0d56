"""The gradients of attention against cuDNN: shapes BxHxSxD of queries, keys and values alike, `:causal` with the mask.

Input: shapes. Output: candidates of `mimw.kernels.attention_backward`; all its launches are timed. For example:

    mimw tune attention_backward --shapes 4x48x4096x128:causal
"""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np

from ...kernels import attention, attention_backward
from ...kernels.attention_backward.configs import HEAD_DIMS, Configuration, as_row
from ...kernels.attention_backward.order import ORDERS
from ..arrays import blank, empty, normal, relative_error
from ..operator import Operator, Problem, Trial

ALLOWED = {"bf16": 1e-2, "fp16": 2e-3}  # of ||x - reference|| / ||reference||


class AttentionBackward(Operator):
    """The library's configurations, with other tiles of queries and rings."""

    name, names, dtypes, words = "attention_backward", ("B", "H", "S", "D"), ("bf16", "fp16"), ("causal", )
    configuration_type = Configuration
    file = Path(attention_backward.__file__).parent / "configs.json"

    def used(self, problem: Problem, sms: int) -> Configuration | None:
        dim = problem.extents[3]
        return attention_backward.configuration(dim, "causal" in problem.words) if dim in HEAD_DIMS else None

    def candidates(self, problem: Problem, sms: int) -> list[Configuration]:
        if (used := self.used(problem, sms)) is None:
            return []
        rings = [replace(used, bm=bm, q_stages=q, do_stages=do) for bm, q, do in product((64, 128), (2, 3), (2, 3))]
        return rings + [replace(used, order=order) for order in ORDERS if "causal" in problem.words and order != used.order]

    def launches(self, problem: Problem, chosen: Configuration, sms: int) -> list[tuple]:
        shape, causal = problem.extents, "causal" in problem.words
        q, k, v, o, do, dq, dk, dv = (empty(shape, problem.dtype) for _ in range(8))
        work = [np.empty(one, np.float32) for one in attention_backward.workspace(q, chosen, causal)]
        found = attention_backward.launches(q, k, v, o, np.empty(shape[:3], np.float32), do, dq, dk, dv, *work, causal=causal,
                                            chosen=chosen)
        return sorted(found, key=lambda launch: launch[0] is not attention_backward.kernel)     # what is pruned by comes first

    def trial(self, problem: Problem, chosen: Configuration) -> Trial:
        import torch
        from torch.nn.attention import SDPBackend, sdpa_kernel
        from torch.nn.functional import scaled_dot_product_attention
        causal = "causal" in problem.words
        torch.manual_seed(0)
        q, k, v, do = (normal(problem.extents, problem.dtype) for _ in range(4))
        o, lse = _forward(q, k, v, causal)
        gradients = [blank(problem.extents, problem.dtype) for _ in range(3)]
        work = [torch.empty(shape, device="cuda") for shape in attention_backward.workspace(q, chosen, causal)]
        launches = [(kernel[grid], args, meta) for kernel, grid, args, meta in attention_backward.launches(
            q, k, v, o, lse, do, *gradients, *work, causal=causal, chosen=chosen)]
        leaves = [x.detach().requires_grad_() for x in (q, k, v)]
        with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
            out = scaled_dot_product_attention(*leaves, is_causal=causal)

        def run():
            for launch, args, meta in launches:
                launch(*args, **meta)

        return Trial(run, lambda: check(q, k, v, do, gradients, causal, ALLOWED[problem.dtype]),
                     {"cuDNN": lambda: torch.autograd.grad(out, leaves, do, retain_graph=True)})

    def rate(self, problem: Problem, microseconds: float) -> str:
        batch, heads, seq, dim = problem.extents
        return f"{10 * batch * heads * seq * seq * dim / (2 if problem.words else 1) / microseconds / 1e6:.0f} TFLOP/s"

    def row(self, problem: Problem, chosen: Configuration) -> dict:
        return as_row(problem.extents[3], "causal" in problem.words, chosen)


def check(q, k, v, do, gradients, causal: bool, allowed: float) -> float:
    """The largest error of the gradients of the last head in the last batch against fp64; an AssertionError if it is too large."""
    import torch
    leaves = [x[-1, -1].double().requires_grad_() for x in (q, k, v)]
    scores = leaves[0] @ leaves[1].mT / q.shape[-1]**0.5
    if causal:
        scores = scores.masked_fill(torch.ones_like(scores, dtype=torch.bool).triu(1), float("-inf"))
    (scores.softmax(-1) @ leaves[2]).backward(do[-1, -1].double())
    errors = [relative_error(one[-1, -1], leaf.grad) for one, leaf in zip(gradients, leaves)]
    if not all(error < allowed for error in errors) or not all(bool(one.isfinite().all()) for one in gradients):
        raise AssertionError(f"wrong: errors {', '.join(f'{error:.2e}' for error in errors)} of dQ, dK and dV (allowed {allowed})")
    return max(errors)


def _forward(q, k, v, causal: bool) -> tuple:
    """(o, lse) of torch tensors of a GPU, by the library's kernel."""
    import torch
    o, lse, counter = torch.empty_like(q), q.new_empty(q.shape[:3], dtype=torch.float32), q.new_zeros(1, dtype=torch.int32)
    programs = torch.cuda.get_device_properties(q.device).multi_processor_count
    grid, args, meta = attention.arguments(q, k, v, o, lse, counter, programs, causal)
    attention.kernel[grid](*args, **meta)
    return o, lse
