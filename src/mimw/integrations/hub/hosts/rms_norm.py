"""RMSNorm: x / sqrt(mean(x x) + eps) weight, each row by itself.

Input: x (..., N), weight (N) of x's type. Output: y, contiguous. For example:

    y = rms_norm(x, weight)             eps 1e-6
    y = rms_norm(x, weight, 1e-5)
"""

import torch

SCHEMA = "(Tensor x, Tensor weight, float eps=1e-06) -> Tensor"
LONGEST = 16384


def outputs(x: torch.Tensor, weight: torch.Tensor, eps: float = 1e-6) -> torch.Tensor:
    """y, unfilled."""
    if not x.dim() or weight.shape != x.shape[-1:]:
        raise RuntimeError(f"rms_norm: x is {tuple(x.shape)} and weight {tuple(weight.shape)}; weight is to be as long as a row")
    if weight.dtype != x.dtype:
        raise RuntimeError(f"rms_norm: x is of {x.dtype} and weight of {weight.dtype}; they are to be of one type")
    if x.shape[-1] > LONGEST or x.shape[-1] % 16:
        raise RuntimeError(f"rms_norm: rows have {x.shape[-1]} elements; the package takes multiples of 16 up to {LONGEST}")
    return torch.empty(x.shape, dtype=x.dtype, device=x.device)


def call(forms, y: torch.Tensor, x: torch.Tensor, weight: torch.Tensor, eps: float = 1e-6) -> None:
    """Fill y. A program takes one or more whole rows, as the block of its form is long."""
    if not y.numel():
        return
    x, y = _rows(x), y.view(-1, y.shape[-1])
    rows, n = y.shape
    block = max(512, 1 << (n - 1).bit_length())
    forms(lambda facts: (-(-rows // facts["rows"]), ), {"block": block}, x_ptr=x, w_ptr=_rows(weight)[0], y_ptr=y,
          shape_rows=rows, shape_N=n, shape_x=x.stride(0), shape_residual=0, shape_y=y.stride(0), shape_total=0, eps=eps)


def _rows(x: torch.Tensor) -> torch.Tensor:
    """The tensor as (rows, columns), columns side by side; a copy where a row does not begin at a multiple of 16 bytes."""
    two = x.reshape(-1, x.shape[-1])
    if two.stride(1) == 1 and two.stride(0) % 16 == 0 and two.data_ptr() % 16 == 0:
        return two
    return two.clone(memory_format=torch.contiguous_format)
