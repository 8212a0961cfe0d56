"""The loss of language models by `mimw.ops.cross_entropy`: without the fp32 copy of all logits that transformers makes.

Input: what a model of transformers hands to its loss. Output: the loss, fp32. For example:

    model.loss_function = causal_lm_loss
    model(ids, labels=ids).loss.backward()
"""

from __future__ import annotations

from typing import Any

from torch import Tensor
from torch.nn.functional import pad

from mimw import ops


def causal_lm_loss(logits: Tensor, labels: Tensor | None, vocab_size: int, num_items_in_batch: Tensor | int | None = None,
                   ignore_index: int = -100, shift_labels: Tensor | None = None, **others: Any) -> Tensor:
    """The mean cross entropy of each token's logits with the next token.

    args:      logits   (batch, length, vocab_size): bf16, fp16 or fp32, read as they are: sums and exponents are of fp32
               labels   (batch, length): the tokens themselves
               num_items_in_batch   the sum is divided by it; by default by the number of labels that count
               ignore_index   labels that do not count
               shift_labels   (batch, length): the next tokens, in place of labels
    returns:   a number of fp32
    gradients  of the logits, of their type
    """
    if shift_labels is None:
        shift_labels = shifted(labels, ignore_index)
    rows, classes = logits.reshape(-1, vocab_size), shift_labels.reshape(-1).to(logits.device)
    if num_items_in_batch is None:
        return ops.cross_entropy(rows, classes, ignore_index=ignore_index)
    if isinstance(num_items_in_batch, Tensor):
        num_items_in_batch = num_items_in_batch.to(logits.device)
    return ops.cross_entropy(rows, classes, ignore_index=ignore_index, reduction="sum") / num_items_in_batch


def shifted(labels: Tensor, ignore_index: int = -100) -> Tensor:
    """The next token of each, (batch, length), and ignore_index behind the last."""
    return pad(labels, (0, 1), value=ignore_index)[..., 1:]


__all__ = ["causal_lm_loss", "shifted"]
