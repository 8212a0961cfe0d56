"""The rules of `mimw.nn.patch`: which class of modules computes by which class of ours, and when it does not.

Input: a class, by its full name, so that its package need not be imported. Output: a row of RULES. For example:

    register_rule(Rule("torch.nn.modules.normalization.RMSNorm", lambda cls: RMSNorm))
    register_rule(Rule("models.Norm", faster, reason=lambda module: None if module.bias is None else "it has a bias"))
    rule_of(module)             the rule of its class itself; a subclass may compute something else
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from torch import nn

from . import fallback
from .linear import Linear
from .losses import CrossEntropyLoss
from .norms import LayerNorm, RMSNorm


def _no_reason(module: nn.Module) -> str | None:
    return None


def _nothing(module: nn.Module) -> Mapping[str, Any]:
    return {}


@dataclass(frozen=True)
class Rule:
    """A class whose instances `patch` replaces.

    of          the class's module and qualified name, "torch.nn.modules.linear.Linear"
    into        given the class, a subclass of it whose instances have the same attributes: `patch` sets `__class__` to it
    reason      given a module, why it stays as it is, or None
    attributes  given a module, what is set on it besides, and deleted again by `undo`: names that it has not
    """

    of: str
    into: Callable[[type], type]
    reason: Callable[[nn.Module], str | None] = _no_reason
    attributes: Callable[[nn.Module], Mapping[str, Any]] = _nothing


RULES: dict[str, Rule] = {}


def register_rule(rule: Rule) -> None:
    """Let `patch` know a class; a later rule of the same class replaces the earlier one."""
    RULES[rule.of] = rule


def full_name(cls: type) -> str:
    """torch.nn.Linear is "torch.nn.modules.linear.Linear"."""
    return f"{cls.__module__}.{cls.__qualname__}"


def rule_of(module: nn.Module) -> Rule | None:
    """The rule of the module's own class, or None."""
    return RULES.get(full_name(type(module)))


def of_types(module: nn.Module) -> str | None:
    """The reason why kernels do not take the module's parameters, or None."""
    found = (fallback.of_type(parameter) for parameter in module.parameters(recurse=False))
    return next((why.replace("the tensor", "a parameter") for why in found if why is not None), None)


for _class, _reason in ((Linear, of_types), (RMSNorm, of_types), (LayerNorm, of_types), (CrossEntropyLoss, _no_reason)):
    register_rule(Rule(full_name(_class.__base__), lambda cls, ours=_class: ours, _reason))

_ATTENTION = ("torch computes it by one function from its matrices; with need_weights=False that calls "
              "scaled_dot_product_attention, whose kernel torch.nn.attention.activate_flash_attention_impl('mimw') replaces")
register_rule(Rule(full_name(nn.MultiheadAttention), lambda cls: cls, lambda module: _ATTENTION))


__all__ = ["RULES", "Rule", "full_name", "of_types", "register_rule", "rule_of"]
