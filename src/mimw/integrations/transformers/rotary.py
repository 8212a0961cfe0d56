"""Rotary embedding of transformers' attention layers by `mimw.ops.rope`: queries and keys in one launch.

Input: a class of attention layers whose `forward` calls the function `apply_rotary_pos_emb` of its module. Output: a subclass whose
`forward` is the same code and calls ours. For example:

    q, k = apply_rotary_pos_emb(q, k, cos, sin)         (batch, heads, length, dim), tables (batch, length, dim) or half of that
    layer.__class__ = attention_of(LlamaAttention)      as `mimw.nn.patch` does
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from types import FunctionType

from torch import Tensor

from mimw import ops
from mimw.nn.fallback import reason

from .once import once

NAME = "apply_rotary_pos_emb"


def rotary_of(theirs: Callable) -> Callable:
    """A function for the place of transformers' `apply_rotary_pos_emb`, which it calls where `ops.rope` takes no tables."""

    def apply_rotary_pos_emb(q: Tensor, k: Tensor, cos: Tensor, sin: Tensor, unsqueeze_dim: int = 1) -> tuple[Tensor, Tensor]:
        """The pairs of columns i and i + dim / 2 of q and k turned, in fp32 and rounded once.

        args:      q, k       (batch, heads, length, dim) and (batch, kv_heads, length, dim): bf16, fp16 or fp32
                   cos, sin   (batch or 1, length, dim), whose second half repeats the first, as Llama's, or (..., dim / 2), as
                              gpt-oss's, of q's type
        returns:   both, of their shapes and types
        """
        why = _why(q, k, cos, sin, unsqueeze_dim)
        if why is not None:
            once("rotary embedding", why)
            return theirs(q, k, cos, sin, unsqueeze_dim=unsqueeze_dim)
        half = q.shape[-1] // 2
        return ops.rope((q, k), cos[..., :half], sin[..., :half])

    return apply_rotary_pos_emb


def _why(q: Tensor, k: Tensor, cos: Tensor, sin: Tensor, unsqueeze_dim: int) -> str | None:
    if unsqueeze_dim != 1 or q.dim() != 4 or cos.dim() != 3:
        return "queries are not (batch, heads, length, dim)"
    if cos.shape[-1] not in (q.shape[-1], q.shape[-1] // 2) or q.shape[-1] % 2:
        return "the tables turn a part of the columns"
    if not q.dtype == k.dtype == cos.dtype == sin.dtype:
        return "queries, keys and tables have several types, of which torch takes the widest"
    if cos.requires_grad or sin.requires_grad:
        return "the tables require a gradient"
    return reason(q, cos) or reason(k)


def attention_of(before: type) -> type:
    """A class of attention layers of transformers whose `forward` finds our function under the name of theirs."""
    inner = inspect.unwrap(before.forward)
    found = {**inner.__globals__, NAME: rotary_of(inner.__globals__[NAME])}
    turned = FunctionType(inner.__code__, found, inner.__name__, inner.__defaults__, inner.__closure__)
    turned.__kwdefaults__ = inner.__kwdefaults__

    class Attention(before):
        def forward(self, *args, **named):
            # A decorator of theirs gives an argument of an older name its new one; what it does besides is a warning.
            return super().forward(*args, **named) if "past_key_values" in named else turned(self, *args, **named)

    return Attention


__all__ = ["NAME", "attention_of", "rotary_of"]
