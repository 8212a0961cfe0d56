"""Rules of `mimw.nn.patch` for modules of transformers: norms, MLPs and attention layers of Llama and of models alike.

Input: a model of transformers. Output: its RMSNorms by `ops.rms_norm`, its gated MLPs by `ops.swiglu`, the rotary embedding in its
attention layers by `ops.rope`. For example:

    import mimw.integrations.transformers           registers the rules
    report = mimw.nn.patch(model)                   and torch.nn.Linear, as ever
    print(report)                                   what stayed, and why
"""

from __future__ import annotations

from torch import Tensor, nn
from transformers.activations import SiLUActivation

from mimw import ops
from mimw.nn import Rule, register_rule
from mimw.nn.fallback import reason
from mimw.nn.rules import of_types
from mimw.nn.traced import leaf

from .rotary import attention_of

# Models whose RMSNorm has Llama's attributes, and Llama's or gpt-oss's forward, and whose attention layers call Llama's function of
# rotary embedding, or gpt-oss's; and those with Llama's MLP. A test compares.
NORMS = {"llama": "Llama", "mistral": "Mistral", "mixtral": "Mixtral", "qwen2": "Qwen2", "qwen3": "Qwen3", "gpt_oss": "GptOss"}
MLPS = {"llama": "Llama", "mistral": "Mistral", "qwen2": "Qwen2", "qwen3": "Qwen3"}


def norm_of(before: type) -> type:
    """A class of RMSNorms of transformers that computes by `ops.rms_norm`; scaled in fp32 and rounded once."""

    class RMSNorm(before):
        @leaf
        def forward(self, hidden_states: Tensor) -> Tensor:
            # Where the types differ, classes differ in the type that they return.
            if hidden_states.dtype != self.weight.dtype or reason(hidden_states) is not None:
                return super().forward(hidden_states)
            return ops.rms_norm(hidden_states, hidden_states.shape[-1], self.weight, self.variance_epsilon)

    return _named(RMSNorm, before)


def mlp_of(before: type) -> type:
    """A class of Llama's MLPs that computes gate and up in one pass by `ops.swiglu`."""

    class MLP(before):
        @leaf
        def forward(self, x: Tensor) -> Tensor:
            gate, up = self.gate_proj(x), self.up_proj(x)
            return self.down_proj(ops.swiglu(gate, up) if reason(gate) is None else self.act_fn(gate) * up)

    return _named(MLP, before)


def _named(cls: type, before: type) -> type:
    cls.__name__ = cls.__qualname__ = f"Mimw{before.__name__}"
    return cls


def _of_activation(module: nn.Module) -> str | None:
    return None if isinstance(module.act_fn, (SiLUActivation, nn.SiLU)) else "its activation is not SiLU"


def register_rules() -> None:
    """Let `mimw.nn.patch` know them; done on import. Experts follow `experts_implementation="mimw"`, not a rule."""
    for folder, name in NORMS.items():
        register_rule(Rule(f"transformers.models.{folder}.modeling_{folder}.{name}RMSNorm", norm_of, of_types))
        register_rule(Rule(f"transformers.models.{folder}.modeling_{folder}.{name}Attention",
                           lambda before: _named(attention_of(before), before)))
    for folder, name in MLPS.items():
        register_rule(Rule(f"transformers.models.{folder}.modeling_{folder}.{name}MLP", mlp_of, _of_activation))


__all__ = ["MLPS", "NORMS", "mlp_of", "norm_of", "register_rules"]
