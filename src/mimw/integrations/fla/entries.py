"""Which functions of fla mimw computes, a line each.

Input: nothing. Output: the entries that `register` registers by default. For example:

    [entry.name for entry in ENTRIES]       ["swiglu_fwd", "swiglu_fwdbwd", "layer_norm_fwd", ...]

A function has parameters of the names that fla 0.6.0 gives them, and so has what refuses; tests/integrations/test_fla_contracts.py
compares both with fla's own.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from . import attention, linear, losses, rowwise, steps


@dataclass(frozen=True)
class Entry:
    """One function of fla.

    args:      function   "fla.ops.attn.parallel:parallel_attn_fwd"
               run        takes its arguments by their names, and returns the results that it returns
               refused    takes the same arguments, and returns the reason why mimw does not compute such a call; None if it does
               operation  the name of its registry, "attn", if fla has one for several functions together; "" if it has its own
               inner      of a function for which fla asks no backend: the autograd function in its module by whose `apply` it
                          computes, which then asks. `run` and `refused` take the arguments of that
    """

    function: str
    run: Callable
    refused: Callable[..., str | None]
    operation: str = ""
    inner: str = ""

    @property
    def name(self) -> str:
        """The function's own name."""
        return self.function.rpartition(":")[2]


_RECURRENT = "FusedRecurrentFunction"
_LINEAR = "fla.modules.fused_linear_cross_entropy.ops"
ENTRIES = (
    Entry("fla.modules.activations.ops:swiglu_fwd", rowwise.swiglu, rowwise.swiglu_refused),
    Entry("fla.modules.activations.ops:swiglu_fwdbwd", rowwise.swiglu_gradients, rowwise.swiglu_gradients_refused),
    Entry("fla.modules.norm.layernorm:layer_norm_fwd", rowwise.norm, rowwise.norm_refused),
    Entry("fla.modules.norm.layernorm:layer_norm_bwd", rowwise.norm_gradients, rowwise.norm_gradients_refused),
    Entry("fla.modules.rotary.ops:rotary_embedding_fwdbwd", rowwise.rotary, rowwise.rotary_refused),
    Entry("fla.modules.fused_cross_entropy.ops:cross_entropy_fwd", losses.cross_entropy, losses.cross_entropy_refused),
    Entry("fla.modules.fused_cross_entropy.ops:cross_entropy_bwd", losses.gradient, losses.gradient_refused),
    Entry(f"{_LINEAR}:fused_linear_cross_entropy_fwd", losses.linear_cross_entropy, losses.linear_cross_entropy_refused),
    Entry(f"{_LINEAR}:fused_linear_cross_entropy_bwd", losses.linear_gradients, losses.linear_gradients_refused),
    Entry("fla.ops.attn.parallel:parallel_attn_fwd", attention.forward, attention.forward_refused, "attn"),
    Entry("fla.ops.attn.parallel:parallel_attn_bwd", attention.backward, attention.backward_refused, "attn"),
    Entry("fla.ops.gla.chunk:chunk_gla", linear.gla, linear.gla_refused, inner="ChunkGLAFunction"),
    Entry("fla.ops.simple_gla.chunk:chunk_simple_gla", linear.simple_gla, linear.simple_gla_refused,
          inner="ChunkSimpleGLAFunction"),
    Entry("fla.ops.delta_rule.chunk:chunk_delta_rule", linear.delta_rule, linear.delta_rule_refused,
          inner="ChunkDeltaRuleFunction"),
    Entry("fla.ops.gated_delta_rule.chunk:chunk_gated_delta_rule", linear.gated_delta_rule, linear.gated_delta_rule_refused,
          "gated_delta_rule"),
    Entry("fla.ops.kda.chunk:chunk_kda", linear.kda, linear.kda_refused),
    Entry("fla.ops.common.fused_recurrent:fused_recurrent", steps.recurrent, steps.recurrent_refused, inner=_RECURRENT),
    Entry("fla.ops.delta_rule.fused_recurrent:fused_recurrent_delta_rule", steps.delta_rule, steps.delta_rule_refused,
          inner=_RECURRENT),
    Entry("fla.ops.gated_delta_rule.fused_recurrent:fused_recurrent_gated_delta_rule", steps.gated_delta_rule,
          steps.gated_delta_rule_refused, inner=_RECURRENT),
    Entry("fla.ops.kda.fused_recurrent:fused_recurrent_kda_fwd", steps.kda, steps.kda_refused, "kda"),
)

__all__ = ["ENTRIES", "Entry"]
