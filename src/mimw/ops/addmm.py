"""`mimw.ops.addmm`: torch.addmm with an activation, in one launch of the library's GEMM.

Input: what is added, and two matrices. Output: act(beta added + alpha a b). For example:

    y = addmm(bias, x, weight.T, activation="gelu")     a linear layer and its activation
    y = addmm(residual, x, weight.T)                    (M, N), read by TMA while the product is computed
    torch.ops.mimw.addmm(bias, x, weight.T)             the operator itself
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn.functional import gelu, silu

from mimw.kernels import gemm

from .contract import Contract, Extents
from .launching import Launch, is_exact, named_scratch, programs, scratch
from .matmul import FP8, MATMUL, TYPES, gradient_of_right
from .notes import EXACT, UNREADABLE, another_chip, takes
from .operator import LOWER, Operator
from .planned import Planned
from .products import matrix_for_tma, rows_for_tma

ACTIVATIONS: dict[str | None, Callable[[Tensor], Tensor]] = {
    None: lambda x: x, "relu": torch.relu, "gelu": gelu, "gelu_tanh": lambda x: gelu(x, approximate="tanh"), "silu": silu}
CONTRACT = Contract(
    "addmm", f"a: {TYPES} (m, k)", "b: =a|fp8 (k, n)", "added: =c (m|1, n|1) or (n|1) or ()", "-> c: =a|bf16 (m, n)",
    f"offered: activation in {tuple(ACTIVATIONS)} -- it may be {', '.join(map(str, ACTIVATIONS))}", flops="2 * m * n * k")


def addmm(added: Tensor, a: Tensor, b: Tensor, beta: float = 1.0, alpha: float = 1.0, activation: str | None = None) -> Tensor:
    """act(beta added + alpha a @ b), all of it in fp32 before the result is rounded.

    args:      added       (M, N), or what expands to it: (N), (1, N), (M, 1), (); of the result's type. Not read where beta is 0
               a           (M, K): bf16, fp16, fp32, fp8 e4m3 or e5m2, any strides, any extents, also 0
               b           (K, N), of a's type (of fp8 the two may differ), any strides
               activation  None, "relu", "gelu" (by erf), "gelu_tanh" or "silu"
    returns:   (M, N), contiguous, of a's type; bf16 for fp8
    computed:  on sm_90 in one launch of `mimw.kernels.gemm` where TMA can read the operands; else by `mimw.ops.matmul` and torch.
               fp32 obeys torch.get_float32_matmul_precision(), as `matmul` does
    gradients  of added, a and b; none of fp8. With an activation the derivative computes the product again
    errors:    RuntimeError where extents, types or devices do not fit; NotImplementedError for other types and activations
    """
    return ADDMM(added, a, b, beta, alpha, activation)


def _plan(of: Extents, added: Tensor, a: Tensor, b: Tensor, beta: float, alpha: float, activation: str | None,
          exact: bool) -> Callable:
    shape, dtype = of.c.shape, of.c.dtype
    vector = added.dim() < 2 or added.shape[0] == 1 and shape[0] != 1
    if not takes("gemm", another_chip(a), exact and EXACT, not (a.numel() and b.numel()) and "a tensor is empty",
                 (not matrix_for_tma(a, b) or shape[1] * dtype.itemsize % 16) and UNREADABLE):
        return lambda added, a, b: _composed(added, a, b, beta, alpha, activation, dtype)

    def ready(added: Tensor) -> Tensor:
        if vector:
            added = added.reshape(-1).expand(shape[1]).contiguous()
            return added if beta == 1 else (added.float() * beta)
        added = added.expand(shape)
        return added if rows_for_tma(added) else added.clone(memory_format=torch.contiguous_format)

    first, c = ready(added), a.new_empty(shape, dtype=dtype)
    more = {} if beta == 0 else {"bias": first} if vector else {"residual": first, "beta": beta}
    sizes = gemm.room_for(*shape, a.shape[1], a.itemsize, programs(a), residual="residual" in more)
    more |= named_scratch(a, sizes)
    launch = Launch(a, gemm.kernel, *gemm.arguments(a, b, c, programs(a), alpha=alpha, activation=activation, **more))

    def plan(added: Tensor, a: Tensor, b: Tensor) -> Tensor:
        c = torch.empty(shape, dtype=dtype, device=a.device)
        launch(a, b, c, *([ready(added)] if beta != 0 else []), *scratch(a, sizes))
        return c

    return plan


def _composed(added: Tensor, a: Tensor, b: Tensor, beta: float, alpha: float, activation: str | None, dtype: torch.dtype) -> Tensor:
    """The same by several launches."""
    sums = MATMUL(a, b, torch.float32) * alpha
    if beta != 0:
        sums = sums + beta * added.float()
    return ACTIVATIONS[activation](sums).to(dtype)


def _save(ctx, inputs, output) -> None:
    added, a, b, ctx.beta, ctx.alpha, ctx.activation = inputs
    if a.dtype in FP8:
        raise NotImplementedError("addmm: fp8 operands have no derivative; detach them, or multiply in bf16")
    ctx.save_for_backward(added, a, b)


def _backward(ctx, gradient: Tensor) -> tuple:
    """Gradients: through the activation at the product, computed again; then grad_a = alpha grad b^T, grad_b = alpha a^T grad."""
    added, a, b = ctx.saved_tensors
    if ctx.activation is not None:
        x = ADDMM(added, a, b, ctx.beta, ctx.alpha, None).float()
        gradient = gradient.float() * _slope(x, ctx.activation)
    of_added = of_a = of_b = None
    if ctx.needs_input_grad[0]:
        of_added = (gradient * ctx.beta).sum_to_size(added.shape).to(added.dtype)
    scaled = (gradient * ctx.alpha).to(a.dtype)
    if ctx.needs_input_grad[1]:
        of_a = MATMUL(scaled, b.mT, None)
    if ctx.needs_input_grad[2]:
        of_b = gradient_of_right(a, scaled, b)
    return of_added, of_a, of_b, None, None, None


def _slope(x: Tensor, activation: str) -> Tensor:
    """The activation's derivative at x."""
    if activation == "relu":
        return (x > 0).to(x.dtype)
    if activation == "silu":
        half = torch.sigmoid(x)
        return half * (1 + x * (1 - half))
    if activation == "gelu":
        return 0.5 * (1 + torch.erf(x * 0.5**0.5)) + x * torch.exp(-0.5 * x * x) * (2 * torch.pi)**-0.5
    inner = (2 / torch.pi)**0.5 * (x + 0.044715 * x**3)
    tanh = torch.tanh(inner)
    return 0.5 * (1 + tanh) + 0.5 * x * (1 - tanh * tanh) * (2 / torch.pi)**0.5 * (1 + 3 * 0.044715 * x * x)


ADDMM = Operator("addmm(Tensor added, Tensor a, Tensor b, float beta=1.0, float alpha=1.0, str? activation=None) -> Tensor",
                 Planned(_plan, is_exact), CONTRACT, _save, _backward, LOWER)
