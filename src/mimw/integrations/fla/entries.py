"""Which functions of fla mimw computes, a line each.

Input: nothing. Output: the entries that `register` registers by default. For example:

    [entry.name for entry in ENTRIES]       ["swiglu_fwd", "swiglu_fwdbwd", "layer_norm_fwd", ...]

A kernel of linear attention joins by a line, of the operation and the function that fla decorates by `dispatch`:

    Entry("gla", "fla.ops.gla.chunk:chunk_gla_fwd_o_gk", linear.outputs, linear.outputs_refused)
"""

from __future__ import annotations

from . import attention, losses, rowwise
from .backend import Entry

ENTRIES = (
    Entry("", "fla.modules.activations.ops:swiglu_fwd", rowwise.swiglu, rowwise.swiglu_refused),
    Entry("", "fla.modules.activations.ops:swiglu_fwdbwd", rowwise.swiglu_gradients, rowwise.swiglu_gradients_refused),
    Entry("", "fla.modules.norm.layernorm:layer_norm_fwd", rowwise.norm, rowwise.norm_refused),
    Entry("", "fla.modules.norm.layernorm:layer_norm_bwd", rowwise.norm_gradients, rowwise.norm_gradients_refused),
    Entry("", "fla.modules.rotary.ops:rotary_embedding_fwdbwd", rowwise.rotary, rowwise.rotary_refused),
    Entry("", "fla.modules.fused_cross_entropy.ops:cross_entropy_fwd", losses.cross_entropy, losses.cross_entropy_refused),
    Entry("", "fla.modules.fused_cross_entropy.ops:cross_entropy_bwd", losses.gradient, losses.gradient_refused),
    Entry("attn", "fla.ops.attn.parallel:parallel_attn_fwd", attention.forward, attention.forward_refused),
    Entry("attn", "fla.ops.attn.parallel:parallel_attn_bwd", attention.backward, attention.backward_refused),
)

__all__ = ["ENTRIES"]
