"""`mimw::product_with_epilogue`: a product of two matrices and all that the library's GEMM does to its sums, in one launch.

Input: two matrices, and what is added, multiplied and applied. Output: act(alpha row_scale column_scale a b + bias + beta
residual). For example:

    PRODUCT(a, b, bias, None, None, None, 1.0, 1.0, "gelu", None)       a linear layer and its activation
    PRODUCT(a, b, bias, x, None, None, 1.0, 1.0, None, None)            a linear layer, and the residual stream
    KEPT(a, b, bias, None, None, 1.0, "gelu", None)                     the activation, and the sums that it was applied to
    torch.ops.mimw.product_with_epilogue(a, b, bias)                    the operator itself

The pass behind autograd (replacing.py) writes calls of both, so that they have no derivatives. `mimw.ops.addmm` is for programs:
it has derivatives, and adds one thing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from mimw import ops
from mimw.kernels import gemm
from mimw.ops.addmm import ACTIVATIONS
from mimw.ops.contract import Contract, Extents
from mimw.ops.launching import Launch, is_exact, named_scratch, programs, scratch
from mimw.ops.notes import EXACT, UNREADABLE, another_chip, takes
from mimw.ops.operator import Operator
from mimw.ops.planned import Planned
from mimw.ops.products import matrix_for_tma, rows_for_tma

_TYPES, _BESIDE = "bf16|fp16|fp32", ("bias", "residual", "row_scale", "column_scale")
_OPERANDS = f"a: {_TYPES} (m, k)", "b: =a (k, n)", f"bias?: {_TYPES} (n)"
_OPTIONS = ("row_scale?: fp32 (m|1)", "column_scale?: fp32 (n|1)", f"out_dtype?: {_TYPES}",
            f"offered: activation in {tuple(ACTIVATIONS)} -- it may be {', '.join(map(str, ACTIVATIONS))}")


def _also(of: Extents, given: dict[str, Any]) -> None:
    residual, wanted = given.get("residual"), given.get("out_dtype") or given["a"].dtype
    if residual is not None and residual.dtype is not wanted:
        CONTRACT.refuse(f"residual is {residual.dtype}; it must be of the result's type, {wanted}")


CONTRACT = Contract("product_with_epilogue", *_OPERANDS, f"residual?: {_TYPES} (m, n)", *_OPTIONS, "-> c: out_dtype|=a (m, n)",
                    flops="2 * m * n * k", also=_also)
CONTRACT_OF_KEPT = Contract("product_and_activation", *_OPERANDS, *_OPTIONS, "-> c: out_dtype|=a (m, n)",
                            "-> kept: out_dtype|=a (m, n)", flops="2 * m * n * k")
SCHEMA = ("product_with_epilogue(Tensor a, Tensor b, Tensor? bias=None, Tensor? residual=None, Tensor? row_scale=None, "
          "Tensor? column_scale=None, float alpha=1.0, float beta=1.0, str? activation=None, ScalarType? out_dtype=None) -> Tensor")
SCHEMA_OF_KEPT = ("product_and_activation(Tensor a, Tensor b, Tensor? bias=None, Tensor? row_scale=None, "
                  "Tensor? column_scale=None, float alpha=1.0, str? activation=None, ScalarType? out_dtype=None) "
                  "-> (Tensor, Tensor)")


def _plan(of: Extents, a: Tensor, b: Tensor, bias: Tensor | None, residual: Tensor | None, row_scale: Tensor | None,
          column_scale: Tensor | None, alpha: float, beta: float, activation: str | None, out_dtype: torch.dtype | None,
          exact: bool) -> Callable:
    options = dict(alpha=alpha, beta=beta, activation=activation)
    return _planned(of, a, b, (bias, residual, row_scale, column_scale), options, exact, keeps=False)


def _plan_of_kept(of: Extents, a: Tensor, b: Tensor, bias: Tensor | None, row_scale: Tensor | None, column_scale: Tensor | None,
                  alpha: float, activation: str | None, out_dtype: torch.dtype | None, exact: bool) -> Callable:
    plan = _planned(of, a, b, (bias, None, row_scale, column_scale), dict(alpha=alpha, activation=activation), exact, keeps=True)
    return lambda a, b, bias, *scales: plan(a, b, bias, None, *scales)


def _planned(of: Extents, a: Tensor, b: Tensor, beside: tuple[Tensor | None, ...], options: dict[str, Any], exact: bool,
             keeps: bool) -> Callable:
    """A plan of calls like this one, a function of both operands and the four things beside them."""
    shape, dtype = of.c.shape, of.c.dtype
    if not takes("gemm", another_chip(a), exact and EXACT, not (a.numel() and b.numel()) and "a tensor is empty",
                 (not matrix_for_tma(a, b) or shape[1] * dtype.itemsize % 16) and UNREADABLE):
        return lambda *given: composed(*given, dtype=dtype, keeps=keeps, **options)

    def ready(bias: Tensor | None, residual: Tensor | None, *scales: Tensor | None) -> tuple[Tensor | None, ...]:
        """The tensors that the kernel reads beside the operands."""
        if residual is not None and not rows_for_tma(residual):
            residual = residual.clone(memory_format=torch.contiguous_format)
        return bias if bias is None else bias.contiguous(), residual, *(x if x is None else x.contiguous() for x in scales)

    def results(a: Tensor) -> list[Tensor]:
        return [torch.empty(shape, dtype=dtype, device=a.device) for _ in range(1 + keeps)]

    more = {name: x for name, x in zip(_BESIDE, ready(*beside), strict=True) if x is not None}
    sizes = gemm.room_for(*shape, a.shape[1], a.itemsize, programs(a), residual="residual" in more)
    c, *kept = results(a)
    more |= named_scratch(a, sizes) | options | dict(zip(("kept", ), kept))
    launch = Launch(a, gemm.kernel, *gemm.arguments(a, b, c, programs(a), **more))

    def plan(a: Tensor, b: Tensor, *beside: Tensor | None) -> Tensor | tuple[Tensor, ...]:
        c, *kept = made = results(a)
        launch(a, b, c, *(x for x in ready(*beside) if x is not None), *scratch(a, sizes), *kept)
        return tuple(made) if keeps else c

    return plan


def composed(a: Tensor, b: Tensor, bias: Tensor | None, residual: Tensor | None, row_scale: Tensor | None,
             column_scale: Tensor | None, *, dtype: torch.dtype, keeps: bool = False, alpha: float = 1.0, beta: float = 1.0,
             activation: str | None = None) -> Tensor | tuple[Tensor, Tensor]:
    """The same by several launches."""
    sums = ops.matmul(a, b, torch.float32) * alpha
    for scale in (row_scale if row_scale is None else row_scale[:, None], column_scale):
        sums = sums if scale is None else sums * scale
    sums = sums if bias is None else sums + bias.float()
    sums = sums if residual is None or beta == 0 else sums + beta * residual.float()
    if not keeps:
        return ACTIVATIONS[activation](sums).to(dtype)
    kept = sums.to(dtype, copy=True)
    return ACTIVATIONS[activation](kept.float()).to(dtype, copy=True), kept


PRODUCT = Operator(SCHEMA, Planned(_plan, is_exact), CONTRACT)
KEPT = Operator(SCHEMA_OF_KEPT, Planned(_plan_of_kept, is_exact), CONTRACT_OF_KEPT)


__all__ = ["KEPT", "PRODUCT", "composed"]
