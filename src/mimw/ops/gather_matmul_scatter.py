"""`mimw.ops.gather_matmul_scatter`: a product of picked rows whose rows go where they belong, as a mixture of experts needs.

Input: two matrices, and row numbers to read and to write. Output: out[target] = a[source] b, the other rows 0:

    c = gather_matmul_scatter(a, b, source, target, rows=1000)
    gather_matmul_scatter(a, b, source, target, out=c)      writes those rows of c alone
    torch.ops.mimw.gather_matmul_scatter(a, b, source, target, 1000)      the operator of the first form
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.fx import Proxy

from mimw.kernels import gather_matmul_scatter as hopper
from mimw.kernels import plain_matmul

from .contract import Contract, Extents
from .launching import Launch, is_exact, programs
from .matmul import FP8, MATMUL, TYPES, copied
from .notes import EXACT, NO_COPY, another_chip, takes
from .operator import LOWER, Operator
from .planned import Planned

TENSORS = f"a: {TYPES} (m, k)", "b: =a|fp8 (k, n)", "source: int (r)", "target: int (r)"
CONTRACT = Contract("gather_matmul_scatter", *TENSORS, "-> c: =a|bf16 (m if rows is None else rows, n)", flops="2 * r * n * k")
INTO_CONTRACT = Contract("gather_matmul_scatter", *TENSORS, f"out: {TYPES} (rows, n)", flops="2 * r * n * k")
WORTH_A_COPY = 1 << 32  # products from which copying an operand for TMA costs less than the plain kernel's slower products


def gather_matmul_scatter(a: Tensor, b: Tensor, source: Tensor, target: Tensor, rows: int | None = None,
                          out: Tensor | None = None) -> Tensor:
    """out[target[i]] = a[source[i]] @ b for each i, with fp32 sums.

    args:      a       (M, K): bf16, fp16, fp32, fp8 e4m3 or e5m2, any strides
               b       (K, N) of a's type (of fp8 the two may differ), any strides
               source  (R), int32 or int64: rows of a; one outside, or negative, counts as a row of zeros
               target  (R), int32 or int64: rows of the result; one outside, or negative, is left out. Of equal ones any may win
               rows    of the result, by default M
               out     (rows, N) to write into, any strides: rows that `target` does not name stay. By default a new tensor of a's
                       type (bf16 for fp8), these rows 0
    returns:   the result, `out` if that is given
    computed:  on sm_90 by `mimw.kernels.gather_matmul_scatter` where TMA can read a and b and write the result; else by
               `mimw.kernels.plain_matmul`, as fp32 where torch.get_float32_matmul_precision() is "highest"
    gradients  of a and b, where `out` is not given; `target` must name no row twice
    errors:    RuntimeError where extents, types or devices do not fit, and for an `out` that shares memory with another argument or
               within itself; NotImplementedError for other types
    """
    if out is None:
        return PICKED(a, b, source, target, rows)
    if rows is not None and not isinstance(out, Proxy) and rows != out.shape[0]:
        raise RuntimeError(f"gather_matmul_scatter: rows is {rows}, and out has {out.shape[0]}; leave out one of them")
    if torch.is_grad_enabled() and any(x.requires_grad is True for x in (a, b, out)):
        raise NotImplementedError("gather_matmul_scatter: writing into `out` has no derivative; leave out `out`, or use "
                                  "torch.no_grad()")
    INTO(out, a, b, source, target)
    return out


def _plan(of: Extents, a: Tensor, b: Tensor, source: Tensor, target: Tensor, rows: int | None, exact: bool) -> Callable:
    write = _plan_into(of, of.c.empty(a), a, b, source, target, exact)

    def plan(a: Tensor, b: Tensor, source: Tensor, target: Tensor) -> Tensor:
        out = of.c.empty(a).zero_()
        write(out, a, b, source, target)
        return out

    return plan


def _plan_into(of: Extents, out: Tensor, a: Tensor, b: Tensor, source: Tensor, target: Tensor, exact: bool) -> Callable:
    write = _writing(out, a, b, _numbers(source), _numbers(target), exact)
    return lambda out, a, b, source, target: write(out, a, b, _numbers(source), _numbers(target))


def _numbers(rows: Tensor) -> Tensor:
    """The row numbers as int32, contiguous; one that does not fit is outside of every matrix."""
    return rows.contiguous() if rows.dtype is torch.int32 else rows.clamp(-1, (1 << 31) - 1).to(torch.int32)


def _writing(out: Tensor, a: Tensor, b: Tensor, source: Tensor, target: Tensor, exact: bool) -> Callable:
    if out.numel() == 0 or source.numel() == 0:
        return lambda *_: None
    if takes("gather_matmul_scatter", another_chip(a), exact and EXACT, not a.numel() and "a tensor is empty",
             not _rows_for_tma(out) and "TMA cannot write the result as it lies"):
        copy_a = not _rows_for_tma(a)
        nk, kn = _rows_for_tma(b.T) and b.shape[1] > 1, _rows_for_tma(b) and a.itemsize == 2 and b.shape[1] > 1
        copy_b = not (nk or kn)
        if takes("gather_matmul_scatter", (copy_a or copy_b) and source.numel() * b.numel() < WORTH_A_COPY and NO_COPY):
            return _by_tma(out, a, b, source, target, copy_a, copy_b)
    launch = Launch(a, plain_matmul.kernel, *plain_matmul.arguments(
        a.unsqueeze(0), b.unsqueeze(0), out.unsqueeze(0), exact, (source, target)))
    return lambda out, a, b, source, target: launch(a, b, out, source, target)


def _rows_for_tma(x: Tensor) -> bool:
    row, step = x.stride()
    return step == 1 and row > 0 and row * x.itemsize % 16 == 0 and x.data_ptr() % 16 == 0


def _by_tma(out: Tensor, a: Tensor, b: Tensor, source: Tensor, target: Tensor, copy_a: bool, copy_b: bool) -> Callable:
    """The plan with the kernel for Hopper, which reads copies of what TMA cannot."""
    left, right = copied(a) if copy_a else a, copied(b.T).T if copy_b else b
    launch = Launch(a, hopper.kernel, *hopper.arguments(left, right, out, source, target, programs(a)))

    def plan(out: Tensor, a: Tensor, b: Tensor, source: Tensor, target: Tensor) -> None:
        launch(copied(a) if copy_a else a, copied(b.T) if copy_b else b, out, source, target)

    return plan


def _save(ctx, inputs, output) -> None:
    a, b, source, target, _ = inputs
    if a.dtype in FP8:
        raise NotImplementedError("gather_matmul_scatter: fp8 operands have no derivative; detach them, or multiply in bf16")
    ctx.save_for_backward(a, b, source, target)


def _backward(ctx, gradient: Tensor) -> tuple:
    """grad_a[source] += grad[target] b^T, grad_b = a[source]^T grad[target]."""
    a, b, source, target = ctx.saved_tensors
    of_a = of_b = None
    rows = _picked(gradient, target)
    if ctx.needs_input_grad[0]:
        inside = (source >= 0) & (source < a.shape[0])
        sums = a.new_zeros((a.shape[0] + 1, a.shape[1]), dtype=torch.float32)     # the last row is for those outside
        of_a = sums.index_add(0, torch.where(inside, source, a.shape[0]), MATMUL(rows, b.mT, torch.float32))[:-1].to(a.dtype)
    if ctx.needs_input_grad[1]:
        of_b = MATMUL(_picked(a, source).mT, rows, None)
    return of_a, of_b, None, None, None


def _picked(x: Tensor, rows: Tensor) -> Tensor:
    """x[rows], zeros for rows outside."""
    if x.shape[0] == 0:
        return x.new_zeros(rows.shape[0], x.shape[1])
    inside = (rows >= 0) & (rows < x.shape[0])
    return torch.where(inside[:, None], x.index_select(0, rows.clamp(0, x.shape[0] - 1)), 0)


PICKED = Operator("gather_matmul_scatter(Tensor a, Tensor b, Tensor source, Tensor target, int? rows=None) -> Tensor",
                  Planned(_plan, is_exact), CONTRACT, _save, _backward, LOWER)
INTO = Operator("gather_matmul_scatter_(Tensor(a!) out, Tensor a, Tensor b, Tensor source, Tensor target) -> ()",
                Planned(_plan_into, is_exact, of="a"), INTO_CONTRACT)
