"""Models of Hugging Face transformers on the operators of `mimw.ops`: `attn_implementation="mimw"`, and experts, too.

Input: transformers 5. Output: "mimw" among its implementations of attention and of experts. For example:

    import mimw.integrations.transformers                       registers
    model = AutoModelForCausalLM.from_pretrained(name, attn_implementation="mimw", experts_implementation="mimw")
    model.set_attn_implementation("mimw")                       of a model that is there
"""

from __future__ import annotations

try:
    from transformers import AttentionInterface, AttentionMaskInterface
    from transformers.integrations.moe import ExpertsInterface
except ImportError as error:
    raise ImportError("mimw.integrations.transformers needs transformers 5 (tested: 5.24.0), which is not installed or is older: "
                      "pip install 'transformers>=5.24'") from error

from .attention import attention
from .experts import experts
from .fused_loss import fuse_loss
from .loss import causal_lm_loss
from .masks import Mask, mask_of
from .rules import register_rules

NAME = "mimw"


def register(name: str = NAME) -> None:
    """Give transformers our attention, its masks and our experts under a name, and `mimw.nn.patch` the rules; done on import.

    args:      name   for `attn_implementation=` and `experts_implementation=`
    """
    AttentionInterface.register(name, attention)
    AttentionMaskInterface.register(name, mask_of)
    ExpertsInterface.register(name, experts)
    register_rules()


register()

__all__ = ["NAME", "Mask", "attention", "causal_lm_loss", "experts", "fuse_loss", "mask_of", "register"]
