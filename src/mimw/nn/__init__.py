"""Modules of torch over the operators of `mimw.ops`: drop-in replacements of those of `torch.nn`.

Input: a model, or the arguments of a module of `torch.nn`. Output: modules with the same parameters and state dict. For example:

    from mimw import nn
    norm = nn.RMSNorm(4096)
    report = nn.patch(model)            the model's own modules compute by mimw from here on; report.undo() gives them back

A module of torch's name takes its arguments, has its parameters and their names, and is an instance of it. What no kernel of ours
takes, such as fp64, goes to torch's own `forward`; `module.reason(x)` says why.
"""

try:
    import torch  # noqa: F401
except ImportError as error:
    raise ImportError("mimw.nn are modules of torch, which is not installed: pip install 'mimw[torch]'") from error

from . import functional
from .linear import Linear
from .losses import CrossEntropyLoss, LinearCrossEntropyLoss
from .moe import MoE
from .norms import LayerNorm, RMSNorm
from .patch import Report, patch
from .rotary import RotaryEmbedding
from .rules import Rule, register_rule
from .swiglu import SwiGLU

__all__ = [
    "CrossEntropyLoss", "LayerNorm", "Linear", "LinearCrossEntropyLoss", "MoE", "RMSNorm", "Report", "RotaryEmbedding", "Rule",
    "SwiGLU", "functional", "patch", "register_rule",
]
