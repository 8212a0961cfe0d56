"""`mimw.ops.softmax` and `mimw.ops.log_softmax`: torch's, on the library's kernels.

Input: a tensor and a dimension of it. Output: a tensor of its shape. For example:

    y = softmax(x, -1)
    y = log_softmax(x, 1, dtype=torch.float32)              of x in fp32
    torch.ops.mimw.softmax(x, -1, torch.float32)            the operator itself
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from mimw.kernels import softmax as library
from mimw.kernels.norm.configs import plain_configuration

from .contract import Contract, Extents
from .launching import Launch, is_hopper
from .operator import Operator
from .plans import Plans, look


def _in_range(of: Extents, given: dict) -> None:
    """IndexError for a dimension that x does not have, as torch has it."""
    dims = max(given["x"].dim(), 1)
    if not -dims <= of.dim < dims:
        raise IndexError(f"softmax: dim is {of.dim}, and x has {given['x'].dim()} dimensions")


CONTRACT = Contract("softmax", "x: float (*any)", "dtype?: float", "-> y: dtype|=x (*any)", also=_in_range)
BACKWARD = Contract("softmax_backward", "y: float (*any)", "dy: any (*any)", "dtype: float", "-> dx: dtype (*any)")


def softmax(x: Tensor, dim: int, dtype: torch.dtype | None = None) -> Tensor:
    """exp(x) over its sum along `dim`, as torch.softmax, with fp32 maxima and sums.

    args:      x       bf16, fp16 or fp32, any strides, any extents, also 0, or a number
               dim     a dimension of x, also counted from the end
               dtype   of the result: any of these types, by default x's; x itself is not rounded to it before
    returns:   of x's shape. A row of -inf alone gives NaN
    computed:  by `mimw.kernels.softmax`: on sm_90 many long rows by bulk copies into a ring, few long ones by clusters; along
               another dimension than the last one of a copy
    gradients  of x; no second derivative
    errors:    IndexError for a dimension that x does not have; NotImplementedError for other types
    """
    return SOFTMAX(x, dim, dtype)


def log_softmax(x: Tensor, dim: int, dtype: torch.dtype | None = None) -> Tensor:
    """The logarithm of `softmax`, x - log of the sum of exp(x), as torch.log_softmax; arguments and errors as `softmax`."""
    return LOG_SOFTMAX(x, dim, dtype)


def _rows(x: Tensor, dim: int) -> Tensor:
    """The tensor as (rows, columns), columns side by side, with `dim` as the columns."""
    last = x.movedim(dim, -1) if x.dim() else x.reshape(1)
    two = last.reshape(-1, last.shape[-1])
    return two if two.shape[1] == 1 or two.stride(1) == 1 else two.contiguous()


def _run(x: Tensor, dim: int, log: bool, dtype: torch.dtype | None) -> Tensor:
    key = look(x), dim, log, dtype
    return (_PLANS[key] or _PLANS.made(key, x, dim, log, dtype))(x)


def _is_last(x: Tensor, dim: int) -> bool:
    return x.dim() == 0 or dim % x.dim() == x.dim() - 1


def _plan(x: Tensor, dim: int, log: bool, dtype: torch.dtype | None) -> Callable[[Tensor], Tensor]:
    dtype = CONTRACT.check(x=x, dim=dim, dtype=dtype).y.dtype
    if x.numel() == 0:
        return lambda x: torch.empty(x.shape, dtype=dtype, device=x.device)
    rows, last = _rows(x, dim), _is_last(x, dim)
    moved, y = rows.data_ptr() != x.data_ptr(), torch.empty(rows.shape, dtype=dtype, device=x.device)
    chosen = None if is_hopper(x) else plain_configuration(*rows.shape)
    launch = Launch(x, *library.arguments(rows, y, log, chosen))

    def plan(x: Tensor) -> Tensor:
        y = torch.empty(x.shape if last else rows_shape, dtype=dtype, device=x.device)
        launch(_rows(x, dim) if moved else x, y)
        return y if last else _back(y, x, dim)

    rows_shape = tuple(rows.shape)
    return plan


def _back(rows: Tensor, x: Tensor, dim: int) -> Tensor:
    """Rows in x's shape, contiguous."""
    return rows.reshape(x.movedim(dim, -1).shape).movedim(-1, dim).contiguous()


_PLANS = Plans(_plan)


def _run_backward(y: Tensor, dy: Tensor, dim: int, log: bool, dtype: torch.dtype) -> Tensor:
    key = look(y), look(dy), dim, log, dtype
    return (_GRADIENT_PLANS[key] or _GRADIENT_PLANS.made(key, y, dy, dim, log, dtype))(y, dy)


def _plan_backward(y: Tensor, dy: Tensor, dim: int, log: bool, dtype: torch.dtype) -> Callable[[Tensor, Tensor], Tensor]:
    if y.numel() == 0:
        return lambda y, dy: torch.empty(y.shape, dtype=dtype, device=y.device)
    rows, last = [_rows(one, dim) for one in (y, dy)], _is_last(y, dim)
    moved = [two.data_ptr() != one.data_ptr() for two, one in zip(rows, (y, dy))]
    dx = torch.empty(rows[0].shape, dtype=dtype, device=y.device)
    chosen = None if is_hopper(y) else plain_configuration(*dx.shape)
    launch = Launch(y, *library.gradient_arguments(*rows, dx, log, chosen))
    rows_shape = tuple(dx.shape)

    def plan(y: Tensor, dy: Tensor) -> Tensor:
        dx = torch.empty(y.shape if last else rows_shape, dtype=dtype, device=y.device)
        launch(*(_rows(one, dim) if move else one for one, move in zip((y, dy), moved)), dx)
        return dx if last else _back(dx, y, dim)

    return plan


_GRADIENT_PLANS = Plans(_plan_backward)


SOFTMAX_BACKWARD = Operator("softmax_backward(Tensor y, Tensor dy, int dim, bool log, ScalarType dtype) -> Tensor", _run_backward,
                            BACKWARD)


def _operator(name: str, log: bool) -> Operator:
    """The softmax or its logarithm."""

    def run(x: Tensor, dim: int, dtype: torch.dtype | None = None) -> Tensor:
        return _run(x, dim, log, dtype)

    def save(ctx, inputs, output) -> None:
        x, ctx.dim, _ = inputs
        ctx.dtype = x.dtype
        ctx.save_for_backward(output)

    def backward(ctx, dy: Tensor) -> tuple:
        return SOFTMAX_BACKWARD(ctx.saved_tensors[0], dy, ctx.dim, log, ctx.dtype), None, None

    schema = f"{name}(Tensor x, int dim, ScalarType? dtype=None) -> Tensor"
    return Operator(schema, run, CONTRACT, save, backward, autocast=torch.float32)


SOFTMAX, LOG_SOFTMAX = _operator("softmax", False), _operator("log_softmax", True)
