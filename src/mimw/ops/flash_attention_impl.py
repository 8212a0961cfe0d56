"""Our attention as an implementation of torch's flash attention, which torch's own scaled_dot_product_attention then calls.

Input: a torch that has `torch.nn.attention.register_flash_attention_impl`, as 2.10 and later have. Output: its list has "mimw". For
example:

    import mimw.ops
    torch.nn.attention.activate_flash_attention_impl("mimw")
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.FLASH_ATTENTION):     # else torch may prefer cuDNN
        o = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
    torch.nn.attention.restore_flash_attention_impl()                                       # since torch 2.11

Packed and nested tensors, torch's `_flash_attention_forward`, stay with torch's kernel.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import attention as registry

from .attention import ATTENTION
from .attention_backward import ATTENTION_BACKWARD
from .held import held

NAME = "mimw"


class Active:
    """The kernels in torch's dispatcher, until they are removed."""

    def __init__(self) -> None:
        self._library: torch.library.Library | None = torch.library.Library("aten", "IMPL")
        for name, kernel in _KERNELS.items():
            for device in ("CUDA", "CPU"):      # the CPU's are simulated
                self._library.impl(name, kernel, device)

    def remove(self) -> None:
        """Give the dispatcher back what it had."""
        self._library = None


def _forward(query: Tensor, key: Tensor, value: Tensor, dropout_p: float = 0.0, is_causal: bool = False,
             return_debug_mask: bool = False, *, scale: float | None = None) -> tuple:
    _refuse(dropout_p, return_debug_mask)
    o, lse = ATTENTION(query, key, value, is_causal, scale)
    if o.stride() != query.stride():        # torch's graphs expect the result to lie as empty_like(query) does
        o = torch.empty_like(query).copy_(o)
    random = (torch.zeros(shape, dtype=torch.uint64, device=query.device) for shape in (2, ()))
    return o, lse, None, None, query.shape[2], key.shape[2], *random, query.new_empty(0)


def _backward(grad_out: Tensor, query: Tensor, key: Tensor, value: Tensor, out: Tensor, logsumexp: Tensor, cum_seq_q, cum_seq_k,
              max_q: int, max_k: int, dropout_p: float, is_causal: bool, philox_seed: Tensor, philox_offset: Tensor, *,
              scale: float | None = None) -> tuple[Tensor, Tensor, Tensor]:
    _refuse(dropout_p, False)
    return ATTENTION_BACKWARD(grad_out, query, key, value, out, logsumexp, None, is_causal, scale)


def _refuse(dropout_p: float, return_debug_mask: bool) -> None:
    torch._check(dropout_p == 0 and not return_debug_mask, lambda: "mimw's flash attention has no dropout and no debug mask: "
                 "torch.nn.attention.restore_flash_attention_impl() goes back to torch's")


_KERNELS = {"_scaled_dot_product_flash_attention": held(_forward),
            "_scaled_dot_product_flash_attention_backward": held(_backward)}
if hasattr(registry, "register_flash_attention_impl"):      # since torch 2.10
    registry.register_flash_attention_impl(NAME, register_fn=held(Active))


__all__ = ["NAME", "Active"]
