"""The calls of servers in their layout: rows of tokens, halves of one tensor, one table of cosines and sines.

Input: tensors as vLLM and SGLang hold them. Output: the results of `mimw.ops`, or a reason to let the server compute. For example:

    names = chosen("MIMW_VLLM", ("rms_norm", "rotary"))         {"rms_norm"} where MIMW_VLLM=rms_norm
    if taken("rms_norm", norm_reason(x, weight)):
        y = norm(x, weight, 1e-6)
"""

from __future__ import annotations

import logging
import os

import torch
from torch import Tensor

from mimw import ops
from mimw.errors import MimwError

_LOG = logging.getLogger("mimw.integrations")
_TYPES = (torch.bfloat16, torch.float16, torch.float32)
_said: set[tuple[str, str]] = set()


class UnknownSwitch(MimwError, ValueError):
    """A variable of the environment names an operator that no adaptor has."""


def chosen(variable: str, offered: tuple[str, ...]) -> set[str]:
    """The operators that the variable names, separated by commas: all of them by default and for `all`, none for `none`.

    errors:    UnknownSwitch for a name that is not offered
    """
    text = os.environ.get(variable, "all").strip()
    if text in ("all", "none", ""):
        return set(offered) if text == "all" else set()
    names = {one.strip() for one in text.split(",") if one.strip()}
    if unknown := sorted(names - set(offered)):
        raise UnknownSwitch(f"{variable}={text} names {', '.join(unknown)}, which no adaptor computes; "
                            f"write some of {', '.join(offered)} with commas between, or all, or none")
    return names


def taken(operator: str, reason: str | None) -> bool:
    """True where mimw computes a call, for want of a reason against it; each reason is logged once for each operator."""
    if reason is None:
        return True
    if not torch.compiler.is_compiling() and (operator, reason) not in _said:
        _said.add((operator, reason))
        _LOG.info("%s is left to the server: %s", operator, reason)
    return False


def _type_reason(*tensors: Tensor | None) -> str | None:
    for one in tensors:
        if one is not None and one.dtype not in _TYPES:
            return f"a tensor is {one.dtype}; kernels take bf16, fp16 and fp32"
    return None


def norm_reason(x: Tensor, weight: Tensor | None, residual: Tensor | None = None, variance_size: int | None = None) -> str | None:
    """The reason why the server computes a norm of RMS, or None."""
    if variance_size is not None:
        return "the mean of squares is over a part of the columns"
    if residual is not None and residual.dtype != x.dtype:
        return f"the residual is {residual.dtype} and x {x.dtype}; their sum has the type of the residual"
    return _type_reason(x, weight)


def norm(x: Tensor, weight: Tensor | None, eps: float, residual: Tensor | None = None) -> Tensor | tuple[Tensor, Tensor]:
    """The norm of RMS over the last dimension; with a residual (norm of x + residual, x + residual), both new tensors.

    shapes:    x, residual (..., n); weight (n): bf16, fp16, fp32
    """
    return ops.rms_norm(x, x.shape[-1], weight, eps, residual=residual)


def halves_reason(x: Tensor) -> str | None:
    """The reason why the server computes SwiGLU of the halves of x, or None."""
    if x.shape[-1] % 2:
        return "the last dimension is odd, so it has no halves"
    return _type_reason(x)


def silu_and_mul(x: Tensor) -> Tensor:
    """silu(x[..., :d]) * x[..., d:] of x (..., 2 d), rounded once."""
    half = x.shape[-1] // 2
    return ops.swiglu(x[..., :half], x[..., half:])


def rotary_reason(query: Tensor, key: Tensor | None, cache: Tensor) -> str | None:
    """The reason why the server turns query and key, or None."""
    if key is not None and key.dtype != query.dtype:
        return f"keys are {key.dtype} and queries {query.dtype}"
    if key is not None and key.numel() and query.numel() and key.data_ptr() == query.data_ptr():
        return "queries and keys begin at one address"
    if cache.device != query.device:
        return f"the table is on {cache.device} and queries on {query.device}"
    return _type_reason(query, key, cache)


def rotate_(positions: Tensor, query: Tensor, key: Tensor | None, head: int, cache: Tensor, neox: bool) -> None:
    """Turn query and key in place, as the kernels of both servers do.

    shapes:    positions (tokens); query (tokens, heads * head) or (tokens, heads, head), and key so; cache (positions, R): cosines
               in its first R / 2 columns, sines behind them. `neox`: columns i and i + R / 2 are a pair, else 2i and 2i + 1
    """
    positions, half = positions.flatten(), cache.shape[-1] // 2
    xs = tuple(one.view(positions.shape[0], -1, head).transpose(0, 1) for one in (query, key) if one is not None)
    ops.rope(xs if key is not None else xs[0], cache[:, :half], cache[:, half:], positions, interleaved=not neox, inplace=True)


def block_scaled_mm(a: Tensor, weight: Tensor, scale_a: Tensor, scale: Tensor, out_dtype: torch.dtype) -> Tensor:
    """a @ weight.T of fp8 matrices with scales of 1 x 128 and 128 x 128.

    shapes:    a (M, K), weight (N, K): fp8; scale_a (M, cdiv(K, 128)), scale (cdiv(N, 128), cdiv(K, 128)): fp32 -> (M, N)
    """
    return ops.scaled_mm(a, weight.t(), scale_a, scale.t(), out_dtype=out_dtype)


__all__ = ["UnknownSwitch", "block_scaled_mm", "chosen", "halves_reason", "norm", "norm_reason", "rotary_reason", "rotate_",
           "silu_and_mul", "taken"]
