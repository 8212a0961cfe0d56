"""`experts_implementation="mimw"`: the experts of transformers' models by `mimw.ops.moe`.

Input: what a model of transformers hands to its experts. Output: a row for each token. For example:

    y = experts(module, hidden_states, top_k_index, top_k_weights)          module.gate_up_proj (experts, 2 inner, hidden)
"""

from __future__ import annotations

from torch import Tensor, nn
from transformers.activations import SiLUActivation
from transformers.integrations.moe import ALL_EXPERTS_FUNCTIONS

from mimw import ops
from mimw.nn.fallback import TYPES

from .once import once

_OTHERWISE = "grouped_mm"       # transformers' own, and its default


def experts(self: nn.Module, hidden_states: Tensor, top_k_index: Tensor, top_k_weights: Tensor) -> Tensor:
    """The weighted sum of each token's experts, by `ops.moe` where the experts are SwiGLU without biases, else by grouped_mm.

    args:      self            the layer that transformers has given its layout (`use_experts_implementation`)
               hidden_states   (tokens, hidden)
               top_k_index, top_k_weights   (tokens, k)
    returns:   (tokens, hidden) of hidden_states' type
    gradients  of all of them and of the matrices, those of which wait for the sizes of groups
    """
    why = reason(self, hidden_states)
    if why is not None:
        once("experts", why)
        return ALL_EXPERTS_FUNCTIONS[_OTHERWISE](self, hidden_states, top_k_index, top_k_weights)
    return ops.moe(hidden_states, self.gate_up_proj, self.down_proj, top_k_index, top_k_weights)


def reason(self: nn.Module, hidden_states: Tensor) -> str | None:
    """The reason why transformers' own computes experts; None if `ops.moe` does."""
    if self.has_bias:
        return "the experts have biases, as those of gpt-oss, and ops.moe adds none"
    if not self.has_gate or self.has_post_expert_norm:
        return "the experts have no gate, or a norm behind them"
    if self.is_transposed or not self.is_concatenated:
        return "the matrices are transposed, or gate and up are interleaved"
    if not isinstance(getattr(self, "act_fn", None), (SiLUActivation, nn.SiLU)) or _gates_otherwise(self):
        return "the gate's activation is not SiLU alone"
    if self._is_expert_parallel:
        return "the experts are those of one rank"
    if not hidden_states.dtype == self.gate_up_proj.dtype == self.down_proj.dtype or hidden_states.dtype not in TYPES:
        return "tokens and matrices are not all bf16, all fp16 or all fp32"
    return None


def _gates_otherwise(self: nn.Module) -> bool:
    """True if the class has a gate of its own, with a limit, say."""
    gate = getattr(type(self), "_apply_gate", None)
    return getattr(gate, "__module__", None) != ALL_EXPERTS_FUNCTIONS.__class__.__module__


__all__ = ["experts", "reason"]
