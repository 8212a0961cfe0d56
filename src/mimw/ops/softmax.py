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

from .contract import Contract, Extents, Result
from .launching import Launch, is_hopper
from .operator import Operator
from .planned import Planned


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


def _is_last(x: Tensor, dim: int) -> bool:
    return x.dim() == 0 or dim % x.dim() == x.dim() - 1


def _plan(result: Result, arguments: Callable, log: bool, dim: int, *given: Tensor) -> Callable[..., Tensor]:
    """Of x, or of y and its gradient."""
    x, dtype = given[0], result.dtype
    if x.numel() == 0:
        return lambda x, *_: result.empty(x)
    rows, last = [_rows(one, dim) for one in given], _is_last(x, dim)
    moved = [two.data_ptr() != one.data_ptr() for two, one in zip(rows, given)]
    like = torch.empty(rows[0].shape, dtype=dtype, device=x.device)
    shape = x.shape if last else tuple(like.shape)
    launch = Launch(x, *arguments(*rows, like, log, None if is_hopper(x) else plain_configuration(*like.shape)))

    def plan(*given: Tensor) -> Tensor:
        x = given[0]
        y = torch.empty(shape, dtype=dtype, device=x.device)
        launch(*(_rows(one, dim) if move else one for one, move in zip(given, moved)), y)
        return y if last else _back(y, x, dim)

    return plan


def _back(rows: Tensor, x: Tensor, dim: int) -> Tensor:
    """Rows in x's shape, contiguous."""
    return rows.reshape(x.movedim(dim, -1).shape).movedim(-1, dim).contiguous()


SOFTMAX_BACKWARD = Operator(
    "softmax_backward(Tensor y, Tensor dy, int dim, bool log, ScalarType dtype) -> Tensor",
    Planned(lambda of, y, dy, dim, log, _: _plan(of.dx, library.gradient_arguments, log, dim, y, dy)), BACKWARD)


def _operator(name: str, log: bool) -> Operator:
    """The softmax or its logarithm."""

    def make(of: Extents, x: Tensor, dim: int, dtype: torch.dtype | None) -> Callable[[Tensor], Tensor]:
        return _plan(of.y, library.arguments, log, dim, x)

    def save(ctx, inputs, output) -> None:
        x, ctx.dim, _ = inputs
        ctx.dtype = x.dtype
        ctx.save_for_backward(output)

    def backward(ctx, dy: Tensor) -> tuple:
        return SOFTMAX_BACKWARD(ctx.saved_tensors[0], dy, ctx.dim, log, ctx.dtype), None, None

    schema = f"{name}(Tensor x, int dim, ScalarType? dtype=None) -> Tensor"
    return Operator(schema, Planned(make), CONTRACT, save, backward, autocast=torch.float32)


SOFTMAX, LOG_SOFTMAX = _operator("softmax", False), _operator("log_softmax", True)
