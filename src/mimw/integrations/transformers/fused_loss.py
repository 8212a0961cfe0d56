"""Language models of transformers whose loss comes from hidden states: in training, logits never stand in memory as a whole.

Input: a model `...ForCausalLM`. Output: the same model, whose call with labels computes the loss piece by piece. For example:

    report = fuse_loss(model)                   report.undo() gives the model its class back
    model(ids, labels=ids).loss.backward()      in training; the output has no logits
    model.eval()(ids, labels=ids).logits        exact, as ever; model(..., fused_loss=True) leaves them out in evaluation, too
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from functools import cache, wraps
from itertools import islice
from typing import Any

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel
from transformers.loss.loss_utils import ForCausalLMLoss

from mimw.nn import Linear, Report
from mimw.nn.functional import linear_cross_entropy
from mimw.nn.patch import Replaced

from .loss import causal_lm_loss, shifted
from .once import once

_LOSSES = (ForCausalLMLoss, causal_lm_loss)
_CAPPED = """if self.config.final_logit_softcapping is not None:
    logits = logits / self.config.final_logit_softcapping
    logits = torch.tanh(logits)
    logits = logits * self.config.final_logit_softcapping"""
_HOOKS = "_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks"


def fuse_loss(model: PreTrainedModel) -> Report:
    """Let a language model compute its loss from hidden states by `mimw.nn.functional.linear_cross_entropy`.

    args:      model   of a class whose `forward` makes logits by `lm_head` for its loss and its output alone, as those of Llama,
                       Mistral, Mixtral, Qwen and gpt-oss, or bounds them as Gemma 2 does in between; before DDP or FSDP
    returns:   a report, whose `undo()` gives the model its class back. From then on `model(..., labels=x, fused_loss=None)`:
               fused_loss   True: the loss from hidden states; False: from logits; None: the former in training. Without
                            labels nothing changes
               the output   of a fused call has the loss, fp32, and no logits: `logits` is None, and a tuple lacks them
    computed:  whole logits all the same, with a reason in the log, for another loss function than that of causal language models,
               and for an `lm_head` that is no plain linear layer, has hooks, or has another number of rows than the vocabulary
    gradients  of hidden states and of lm_head's parameters; as the function's
    errors:    NotImplementedError for a model whose `forward` does something else with logits, as Cohere's, which scales them
    """
    before = type(model)
    why = uses_of_logits(before)
    if why is not None:
        raise NotImplementedError(f"fuse_loss: {before.__name__} {why}; give it model.loss_function = causal_lm_loss, which reads "
                                  "whole logits")
    model.__class__ = _fused(before)
    return Report([Replaced("", before, type(model), model)], [])


@cache
def uses_of_logits(cls: type) -> str | None:
    """The reason why the logits of a class's `lm_head` are not for its loss and its output alone, or None; that they are bounded in
    between, as `config.final_logit_softcapping` says, is no reason."""
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(inspect.unwrap(cls.forward))))
    except (OSError, TypeError):
        return "has no source that could be read"
    if any(isinstance(node, ast.Name) and node.id == "super" for node in ast.walk(tree)):
        return "calls another class's forward"
    if "labels" not in inspect.signature(cls.forward).parameters:
        return "takes no labels"
    tree = _WithoutCap().visit(tree)
    made = [node.value for node in ast.walk(tree) if isinstance(node, ast.Assign)
            and any(isinstance(at, ast.Name) and at.id == "logits" for target in node.targets for at in ast.walk(target))]
    if len(made) != 1 or not isinstance(made[0], ast.Call) or ast.unparse(made[0].func) != "self.lm_head":
        return "computes its logits by more than lm_head"
    handed = {id(one) for node in ast.walk(tree) if isinstance(node, ast.Call) for one in _handed_on(node)}
    names = (node for node in ast.walk(tree) if isinstance(node, ast.Name) and node.id == "logits")
    read = [node for node in names if isinstance(node.ctx, ast.Load)]
    return None if all(id(one) in handed for one in read) else "computes with its logits"


class _WithoutCap(ast.NodeTransformer):
    """Leaves out the statement that bounds logits."""

    def visit_If(self, node: ast.If) -> ast.AST | None:
        return None if ast.unparse(node) == _CAPPED else self.generic_visit(node)


def _handed_on(call: ast.Call) -> list[ast.expr]:
    """The arguments in which a call takes logits as they are: of the loss, and of the output."""
    if ast.unparse(call.func) == "self.loss_function":
        return [*islice(call.args, 1)] + [one.value for one in call.keywords if one.arg == "logits"]
    return [one.value for one in call.keywords if one.arg == "logits" and "Output" in ast.unparse(call.func)]


class _Uncapped:
    """A model's configuration for a `forward` whose logits nobody is to bound."""

    final_logit_softcapping = None

    def __init__(self, config: Any):
        self.config_with_cap = config

    def __getattr__(self, name: str) -> Any:
        return getattr(self.config_with_cap, name)


class _Headless:
    """A model for its `forward`, with a head that gives hidden states as they are, and a loss that takes these."""

    def __init__(self, model: PreTrainedModel, caps: bool):
        self.model_with_head = model
        self.softcap = getattr(model.config, "final_logit_softcapping", None) if caps else None
        self.config = model.config if self.softcap is None else _Uncapped(model.config)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.model_with_head, name)

    def lm_head(self, hidden: Tensor) -> Tensor:
        return hidden

    def loss_function(self, logits: Tensor, labels: Tensor | None, vocab_size: int, num_items_in_batch: Tensor | int | None = None,
                      ignore_index: int = -100, shift_labels: Tensor | None = None, **others: Any) -> Tensor:
        """`causal_lm_loss` of the logits of hidden states, which are what comes as `logits`."""
        head, classes = self.model_with_head.lm_head, shifted(labels, ignore_index) if shift_labels is None else shift_labels
        loss = linear_cross_entropy(logits.reshape(-1, logits.shape[-1]), head.weight, classes.reshape(-1).to(logits.device),
                                    linear_bias=head.bias, reduction="mean" if num_items_in_batch is None else "sum",
                                    ignore_index=ignore_index, dtype=torch.float32, softcap=self.softcap)
        if num_items_in_batch is None:
            return loss
        return loss / (num_items_in_batch.to(loss.device) if isinstance(num_items_in_batch, Tensor) else num_items_in_batch)


def _caps(cls: type) -> bool:
    """True of a class whose `forward` bounds logits."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(inspect.unwrap(cls.forward))))
    return any(ast.unparse(node) == _CAPPED for node in ast.walk(tree) if isinstance(node, ast.If))


@cache
def _fused(before: type) -> type:
    at = list(inspect.signature(before.forward).parameters).index("labels") - 1     # without self
    caps = _caps(before)

    class Fused(before):
        @wraps(before.forward)
        def forward(self, *args, fused_loss: bool | None = None, **named):
            labelled = named.get("labels") is not None or len(args) > at and args[at] is not None
            wanted = labelled and (self.training if fused_loss is None else fused_loss)
            why = _why(self) if wanted else None
            if why is not None:
                once("fused loss", why)
            if not wanted or why is not None:
                return before.forward(self, *args, **named)
            return_dict = named.pop("return_dict", None)
            found = before.forward(_Headless(self, caps), *args, return_dict=True, **named)
            found = type(found)(**{name: value for name, value in found.items() if name != "logits"})
            return found if (self.config.return_dict if return_dict is None else return_dict) else found.to_tuple()

    # The name is what transformers writes into a saved model's configuration.
    Fused.__name__, Fused.__qualname__, Fused.__module__ = before.__name__, before.__qualname__, before.__module__
    return Fused


def _why(model: PreTrainedModel) -> str | None:
    """The reason why a call's loss comes from whole logits, or None."""
    head = model.lm_head
    if model.loss_function not in _LOSSES:
        return "the model has a loss function of its own"
    if type(head) not in (nn.Linear, Linear) or getattr(head, "fp8", False) or getattr(head, "activation", None) is not None:
        return f"lm_head is a {type(head).__name__} that does more than a product"
    if "forward" in vars(head) or any(getattr(head, name) for name in _HOOKS):
        return "lm_head has hooks, or a forward of its own"
    if head.weight.shape[0] != model.config.get_text_config().vocab_size:
        return "lm_head has another number of rows than the vocabulary"
    return None


__all__ = ["fuse_loss", "uses_of_logits"]
