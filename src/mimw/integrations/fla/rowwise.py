"""fla's SwiGLU, norms and rotary embedding by `mimw.ops`, with fla's parameters.

Input: the arguments of functions of `fla.modules`. Output: the results of these functions. For example:

    swiglu(x, y)                                            x sigmoid(x) y
    norm(x, weight, None, is_rms_norm=True)                 (y, None, rstd, x)
    rotary(x, cos, sin)                                     x as (batch, length, heads, dim)

A norm of x + residual is computed of the sum rounded to its type, where fla takes the sum before it is rounded.
"""

from __future__ import annotations

import torch
from torch import Tensor

from mimw import ops  # noqa: F401 -- registers the operators

from .tensors import refused

_OPS = torch.ops.mimw


def swiglu_refused(x: Tensor, y: Tensor, output_contiguous: bool = False) -> str | None:
    return refused(x, y, alike=True)


def swiglu(x: Tensor, y: Tensor, output_contiguous: bool = False) -> Tensor:
    return _OPS.swiglu(x, y)


def swiglu_gradients_refused(x: Tensor, y: Tensor, g: Tensor, use_weight: bool = False,
                             output_contiguous: bool = False) -> str | None:
    return swiglu_refused(x, y) or refused(g)


def swiglu_gradients(x: Tensor, y: Tensor, g: Tensor, use_weight: bool = False, output_contiguous: bool = False) -> tuple:
    """(dx, dy), and for a product that follows the result itself."""
    found = _OPS.swiglu_backward(x, y, g)
    return (*found, _OPS.swiglu(x, y)) if use_weight else tuple(found)


def norm_refused(x: Tensor, weight: Tensor | None, bias: Tensor | None, eps: float = 1e-5, residual: Tensor | None = None,
                 out_dtype: torch.dtype | None = None, residual_dtype: torch.dtype | None = None, is_rms_norm: bool = False,
                 num_groups: int = 1) -> str | None:
    if num_groups != 1:
        return f"mimw normalises whole rows, and there are {num_groups} groups"
    if is_rms_norm and bias is not None:
        return "mimw's RMSNorm has no bias"
    if out_dtype not in (None, x.dtype):
        return f"mimw's results have the type of x, and {out_dtype} is asked for"
    if (residual.dtype if residual is not None else residual_dtype) not in (None, x.dtype):
        return "mimw's sums have the type of x, and the residual's is another"
    return refused(x, weight, bias, residual)


def norm(x: Tensor, weight: Tensor | None, bias: Tensor | None, eps: float = 1e-5, residual: Tensor | None = None,
         out_dtype: torch.dtype | None = None, residual_dtype: torch.dtype | None = None, is_rms_norm: bool = False,
         num_groups: int = 1) -> tuple[Tensor, Tensor | None, Tensor, Tensor]:
    """(y, mean or None, rstd, x or x + residual)."""
    if residual is None:
        found = _OPS.rms_norm(x, weight, eps, 1) if is_rms_norm else _OPS.layer_norm(x, weight, bias, eps, 1)
        y, total, rest = found[0], x, found[1:]
    else:
        found = (_OPS.add_rms_norm(x, residual, weight, eps, 1) if is_rms_norm else
                 _OPS.add_layer_norm(x, residual, weight, bias, eps, 1))
        y, total, rest = found[0], found[1], found[2:]
    mean, rstd = (None, *rest) if is_rms_norm else rest
    return y, mean, rstd, total


def norm_gradients_refused(dy: Tensor, x: Tensor, weight: Tensor | None, bias: Tensor | None, mean: Tensor | None = None,
                           rstd: Tensor | None = None, dres: Tensor | None = None, has_residual: bool = False,
                           is_rms_norm: bool = False, x_dtype: torch.dtype | None = None, recompute_output: bool = False,
                           num_groups: int = 1) -> str | None:
    if recompute_output:
        return "mimw's gradients of norms do not compute the result again"
    return norm_refused(x, weight, bias, out_dtype=x_dtype, is_rms_norm=is_rms_norm, num_groups=num_groups) or refused(dy, dres)


def norm_gradients(dy: Tensor, x: Tensor, weight: Tensor | None, bias: Tensor | None, mean: Tensor | None = None,
                   rstd: Tensor | None = None, dres: Tensor | None = None, has_residual: bool = False, is_rms_norm: bool = False,
                   x_dtype: torch.dtype | None = None, recompute_output: bool = False, num_groups: int = 1) -> tuple:
    """(dx, dw, db, the residual's), of which the last is dx itself, as fla has it."""
    dx, dw, db = _OPS.norm_backward(x, dy, weight, mean, rstd, dres, weight is not None, bias is not None, 1)
    return (dx, None if weight is None else dw.to(weight.dtype), None if bias is None else db.to(bias.dtype),
            dx if has_residual else None)


def rotary_refused(x: Tensor, cos: Tensor, sin: Tensor, seqlen_offsets: int | Tensor = 0, cu_seqlens: Tensor | None = None,
                   interleaved: bool = False, inplace: bool = False, conjugate: bool = False,
                   chunk_indices: Tensor | None = None) -> str | None:
    if cu_seqlens is not None or isinstance(seqlen_offsets, Tensor):
        return "mimw's rotary embedding takes one offset for all sequences, and these are packed or have their own"
    if not 0 <= seqlen_offsets <= cos.shape[0] - x.shape[1]:
        return f"the tables have {cos.shape[0]} rows, and positions go from {seqlen_offsets} to {seqlen_offsets + x.shape[1] - 1}"
    return refused(x, cos, sin)


def rotary(x: Tensor, cos: Tensor, sin: Tensor, seqlen_offsets: int | Tensor = 0, cu_seqlens: Tensor | None = None,
           interleaved: bool = False, inplace: bool = False, conjugate: bool = False,
           chunk_indices: Tensor | None = None) -> Tensor:
    """x turned, or x itself if `inplace`; `conjugate` turns it back."""
    cos, sin = cos[seqlen_offsets:], sin[seqlen_offsets:]
    if inplace:
        _OPS.rope_(x.transpose(1, 2), cos, sin, None, interleaved, conjugate)
        return x
    return _OPS.rope(x.transpose(1, 2), cos, sin, None, interleaved, conjugate).transpose(1, 2)


__all__ = ["norm", "norm_gradients", "norm_gradients_refused", "norm_refused", "rotary", "rotary_refused", "swiglu",
           "swiglu_gradients", "swiglu_gradients_refused", "swiglu_refused"]
