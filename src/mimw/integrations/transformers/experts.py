"""`experts_implementation="mimw"`: the experts of transformers' models by `mimw.ops.moe`, or by `mimw.ops.grouped_matmul`.

Input: what a model of transformers hands to its experts. Output: a row for each token. For example:

    y = experts(module, hidden_states, top_k_index, top_k_weights)          module.gate_up_proj (experts, 2 inner, hidden)
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from transformers.activations import SiLUActivation
from transformers.integrations.moe import ALL_EXPERTS_FUNCTIONS

from mimw import ops
from mimw.nn.fallback import TYPES

from .once import once

_OTHERWISE = "grouped_mm"       # transformers' own, and its default


def experts(self: nn.Module, hidden_states: Tensor, top_k_index: Tensor, top_k_weights: Tensor) -> Tensor:
    """The weighted sum of each token's experts.

    args:      self            the layer that transformers has given its layout (`use_experts_implementation`)
               hidden_states   (tokens, hidden)
               top_k_index, top_k_weights   (tokens, k)
    returns:   (tokens, hidden) of hidden_states' type
    computed:  by `ops.moe` where the experts are SwiGLU without biases, as Mixtral's; others, as those of gpt-oss with biases, gate
               and up interleaved and a clamped gate, by two `ops.grouped_matmul` and torch's operations between them; by
               transformers' grouped_mm where `reason` says so
    gradients  of all of them and of the parameters, those of the matrices wait for the sizes of groups
    """
    why = reason(self, hidden_states)
    if why is not None:
        once("experts", why)
        return ALL_EXPERTS_FUNCTIONS[_OTHERWISE](self, hidden_states, top_k_index, top_k_weights)
    if of_other_kinds(self) is None:
        return ops.moe(hidden_states, self.gate_up_proj, self.down_proj, top_k_index, top_k_weights)
    return by_parts(self, hidden_states, top_k_index, top_k_weights)


def reason(self: nn.Module, hidden_states: Tensor) -> str | None:
    """The reason why transformers' own computes experts, or None."""
    if self._is_expert_parallel:
        return "the experts are those of one rank"
    first = self.gate_up_proj if self.has_gate else self.up_proj
    if not hidden_states.dtype == first.dtype == self.down_proj.dtype or hidden_states.dtype not in TYPES:
        return "tokens and matrices are not all bf16, all fp16 or all fp32"
    return None


def of_other_kinds(self: nn.Module) -> str | None:
    """The reason why `ops.moe` does not compute experts in one call, or None."""
    if self.has_bias:
        return "the experts have biases, as those of gpt-oss, and ops.moe adds none"
    if not self.has_gate or self.has_post_expert_norm:
        return "the experts have no gate, or a norm behind them"
    if self.is_transposed or not self.is_concatenated:
        return "the matrices are transposed, or gate and up are interleaved"
    if not isinstance(getattr(self, "act_fn", None), (SiLUActivation, nn.SiLU)) or _gates_otherwise(self):
        return "the gate's activation is not SiLU alone"
    return None


def by_parts(self: nn.Module, hidden_states: Tensor, top_k_index: Tensor, top_k_weights: Tensor) -> Tensor:
    """`experts` by two grouped products: rows in the order of experts, the layer's own gate or activation, biases and norm between
    and behind them by torch, and a token's experts added up in fp32, in their order."""
    tokens, k = top_k_index.shape
    by_expert, order = torch.sort(top_k_index.reshape(-1), stable=True)
    numbers = torch.arange(self.num_experts, dtype=by_expert.dtype, device=by_expert.device)
    ends = torch.searchsorted(by_expert, numbers, right=True, out_int32=True)

    def product(rows: Tensor, name: str) -> Tensor:
        matrices = getattr(self, name)
        found = ops.grouped_matmul(rows, matrices if self.is_transposed else matrices.mT, ends)
        return found + getattr(self, f"{name}_bias").index_select(0, by_expert) if self.has_bias else found

    rows = hidden_states.index_select(0, order // k)
    inner = self._apply_gate(product(rows, "gate_up_proj")) if self.has_gate else self.act_fn(product(rows, "up_proj"))
    found = product(inner, "down_proj")
    if self.has_post_expert_norm:
        found = self.post_expert_norm(found)
    found = found.index_select(0, order.argsort()).view(tokens, k, -1).float()
    return (found * top_k_weights.float()[..., None]).sum(1).to(hidden_states.dtype)


def _gates_otherwise(self: nn.Module) -> bool:
    """True if the class has a gate of its own, with a limit, say."""
    gate = getattr(type(self), "_apply_gate", None)
    return getattr(gate, "__module__", None) != ALL_EXPERTS_FUNCTIONS.__class__.__module__


__all__ = ["by_parts", "experts", "of_other_kinds", "reason"]
