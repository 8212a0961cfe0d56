"""`mimw.ops.grouped_matmul`: a product for each group of rows, as a layer of experts needs: the sizes of groups stay on the device.

Input: rows in groups, a matrix for each group, and where groups end. Output: the products, row by row. For example:

    y = grouped_matmul(x, weights.mT, ends)             x (M, K), weights (G, N, K), ends (G) int32, as torch._grouped_mm's offs
    torch.ops.mimw.grouped_matmul(x, weights.mT, ends)  the operator itself
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from mimw.kernels import grouped_gemm

from .contract import Contract, Extents
from .launching import Launch, is_exact, programs
from .matmul import FP8, MATMUL, TYPES
from .notes import EXACT, UNREADABLE, another_chip, takes
from .operator import LOWER, Operator
from .planned import Planned
from .products import matrix_for_tma

CONTRACT = Contract("grouped_matmul", f"a: {TYPES} (m, k)", "b: =a|fp8 (groups, k, n)", "ends: i32 (groups)",
                    f"out_dtype?: {TYPES}", "-> c: out_dtype|=a|bf16 (m, n)", flops="2 * m * n * k")
OF_ROWS = Contract("grouped_matmul_of_rows", "a: any (m, k)", "b: any (m, n)", "ends: any (groups)", "-> c: =a (groups, k, n)",
                   flops="2 * m * n * k")


def grouped_matmul(a: Tensor, b: Tensor, ends: Tensor, out_dtype: torch.dtype | None = None) -> Tensor:
    """a[ends[g - 1] : ends[g]] @ b[g] for each group g, with fp32 sums.

    args:      a          (M, K): bf16, fp16, fp32, fp8 e4m3 or e5m2, any strides
               b          (G, K, N), of a's type (of fp8 the two may differ), any strides
               ends       (G) int32, ascending, from 0 to M: the row behind each group's last one. Their values are not checked:
                          that would wait for the device
               out_dtype  of the result: any of these types, by default a's; bf16 for fp8
    returns:   (M, N), contiguous; rows behind the last group are 0
    computed:  on sm_90 in one launch of `mimw.kernels.grouped_gemm` where TMA can read the operands, and the host waits for
               nothing; else group by group by `mimw.ops.matmul`, for which the host waits for `ends`. fp32 obeys
               torch.get_float32_matmul_precision(), as `matmul` does
    gradients  of a and b; none of fp8. That of b waits for `ends`
    errors:    RuntimeError where extents, types or devices do not fit; NotImplementedError for other types
    """
    return GROUPED(a, b, ends, out_dtype)


def _plan(of: Extents, a: Tensor, b: Tensor, ends: Tensor, out_dtype: torch.dtype | None, exact: bool) -> Callable:
    shape, dtype = of.c.shape, of.c.dtype
    if not a.numel() or not b.numel():
        return lambda a, b, ends: a.new_zeros(shape, dtype=dtype)
    if not takes("grouped_gemm", another_chip(a), exact and EXACT, (not matrix_for_tma(a, b) or shape[1] * dtype.itemsize % 16) and
                 UNREADABLE, shape[0] >= 1 << 30 and "there are too many rows"):
        return lambda a, b, ends: _one_by_one(a, b, ends, shape, dtype)
    launch = Launch(a, grouped_gemm.kernel, *grouped_gemm.arguments(a, b, of.c.empty(a), ends.contiguous(), programs(a)))

    def plan(a: Tensor, b: Tensor, ends: Tensor) -> Tensor:
        c = torch.zeros(shape, dtype=dtype, device=a.device)
        launch(a, b, c, ends.contiguous())
        return c

    return plan


def _one_by_one(a: Tensor, b: Tensor, ends: Tensor, shape: tuple[int, int], dtype: torch.dtype) -> Tensor:
    c, start = a.new_zeros(shape, dtype=dtype), 0
    for group, end in enumerate(ends.tolist()):
        if end > start:
            c[start:end] = MATMUL(a[start:end], b[group], dtype)
        start = end
    return c


def _save(ctx, inputs, output) -> None:
    a, b, ends, _ = inputs
    if a.dtype in FP8:
        raise NotImplementedError("grouped_matmul: fp8 operands have no derivative; detach them, or multiply in bf16")
    ctx.save_for_backward(a, b, ends)


def _backward(ctx, gradient: Tensor) -> tuple[Tensor | None, Tensor | None, None, None]:
    """grad_a = grad b[g]^T, grad_b[g] = (rows of g of a)^T (those of grad)."""
    a, b, ends = ctx.saved_tensors
    gradient = gradient.to(a.dtype)
    of_a = GROUPED(gradient, b.mT, ends, None) if ctx.needs_input_grad[0] else None
    of_b = PER_GROUP(a, gradient, ends) if ctx.needs_input_grad[1] else None
    return of_a, of_b, None, None


def _run_per_group(a: Tensor, gradient: Tensor, ends: Tensor) -> Tensor:
    """(G, K, N): a[rows of g]^T gradient[rows of g]."""
    found, start = a.new_zeros(ends.shape[0], a.shape[1], gradient.shape[1]), 0
    for group, end in enumerate(ends.tolist()):
        if end > start:
            found[group] = MATMUL(a[start:end].T, gradient[start:end], None)
        start = end
    return found


PER_GROUP = Operator("grouped_matmul_of_rows(Tensor a, Tensor b, Tensor ends) -> Tensor", _run_per_group, OF_ROWS)
GROUPED = Operator("grouped_matmul(Tensor a, Tensor b, Tensor ends, ScalarType? out_dtype=None) -> Tensor",
                   Planned(_plan, is_exact), CONTRACT, _save, _backward, LOWER)
