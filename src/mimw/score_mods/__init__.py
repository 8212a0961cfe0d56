"""Functions of a score, as torch's flex attention has them, for our kernels of attention: recorded, derived, written.

Input: `score_mod(score, batch, head, q_idx, kv_idx)`, a function of torch. Output: a `ScoreMod`, a text and the tensors that it
reads, and for a launch functions of kernels. For example:

    mod = record(lambda score, b, h, q, k: torch.where(documents[q] == documents[k], score, -float("inf")))
    mod.text, mod.tables            "where(i0[q] == i0[k], s, -inf)", (documents, )
    for_kernels(mod.text, mod.tables, Box(1, 8, 512, 512)).gradient         a jit function of (score, derivative)

traced.py and rules.py record, nodes.py has expressions and text.py their texts, derive.py the derivative, ranges.py bounds of whole
numbers, split.py windows in masks; written.py and functions.py make kernels' functions of it, computed.py is torch's way.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import register_pytree_node

from ..errors import ScoreModError
from .computed import computed
from .derive import derivative
from .functions import functions
from .nodes import FLOAT, in_order
from .ranges import Box, depends_on, tables_of
from .split import hidden, split
from .tables import MOST, Table, for_launch, plain, types_of
from .text import parsed, shown
from .traced import traced
from .written import written


@dataclass(frozen=True, eq=False)
class ScoreMod:
    """A function of a score: its text (text.py), and the tensors that the text numbers."""

    text: str
    tables: tuple[Tensor, ...] = ()

    def padded(self) -> tuple[Tensor | None, ...]:
        """The tensors, with None up to as many as an operator takes."""
        return (*self.tables, *[None] * (MOST - len(self.tables)))


register_pytree_node(ScoreMod, lambda mod: (list(mod.tables), mod.text), lambda tables, text: ScoreMod(text, tuple(tables)),
                     serialized_type_name="mimw.score_mods.ScoreMod")


@dataclass(frozen=True)
class ForKernels:
    """For a launch: a function of the score, one that gives the derivative as well, the tables, None for none, and whether one of
    these is read at indices that depend on query and key, so that each score has an element of its own."""

    value: Any
    gradient: Any
    tables: tuple[Table, ...] | None
    gathers: bool


def record(function: Callable | ScoreMod, device: torch.device | str = "cpu") -> ScoreMod:
    """Record a function once, for any number of calls of `mimw.ops.attention`, also in functions that torch.compile compiles.

    args:      function  of (score, batch, head, q_idx, kv_idx), as torch's flex attention calls it: the score, float32, times the
                         scale, and whole numbers. It may add, multiply, divide, compare, choose by torch.where, and take abs,
                         exp, exp2, log, log2, sqrt, rsqrt, sigmoid, tanh, sin, cos, minimum, maximum, clamp; of whole numbers also
                         //, %, &, |; and read up to four tensors at an index for each of their dimensions. Numbers that it captures
                         are those of now, tensors what they hold at each call
               device    of these tensors
    returns:   a ScoreMod; one that is given is given back
    errors:    ScoreModError with the reason for a function that does something else
    """
    return function if isinstance(function, ScoreMod) else _recorded(function, device)


@torch.compiler.disable(reason="a score_mod is recorded outside of what torch.compile compiles: mimw.score_mods.record(function)")
def _recorded(function: Callable, device: torch.device | str) -> ScoreMod:
    roots, tables = traced(function, "cpu" if torch.device(device).type == "meta" else device)
    if [one.kind for one in roots] != [FLOAT]:
        raise ScoreModError("a score_mod's result is no float32 tensor of no dimensions")
    return ScoreMod(shown(*roots), tuple(tables))


def for_kernels(text: str, tables: Sequence[Tensor], box: Box) -> ForKernels:
    """Functions for kernels at the extents of a call.

    errors:    ScoreModError for a text that is none, and for tables that are not those that it reads
    """
    made = functions(text_for_kernels(text, tables, box))
    gathers = any(node.op == "look" and depends_on(node, "q") and depends_on(node, "k") for node in in_order(parsed(text)))
    return ForKernels(made.score_mod, made.gradient, for_launch(tables) or None, gathers)


def text_for_kernels(text: str, tables: Sequence[Tensor], box: Box) -> str:
    """The Python text of these functions; of the tables shapes and types are read. Errors as there."""
    root = parsed(text)
    return written(root, box, types_of(root, tables))


def by_torch(text: str, score: Tensor, indices: Sequence[Tensor], tables: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
    """(the score that takes the place of `score`, its derivative), by torch; `indices` are batch, head, query and key."""
    root = parsed(text)
    return tuple(one.expand_as(score) for one in computed([root, derivative(root)], score, indices, tables))


def mask_by_torch(text: str, indices: Sequence[Tensor], tables: Sequence[Tensor]) -> Tensor:
    """A text of a truth value, by torch, in the shape to which its indices broadcast."""
    *_, key = indices
    return computed([parsed(text)], key.new_zeros((), dtype=torch.float32), indices, tables)[0]


__all__ = ["Box", "ForKernels", "ScoreMod", "ScoreModError", "by_torch", "computed", "depends_on", "for_kernels", "hidden",
           "mask_by_torch", "plain", "record", "shown", "split", "tables_of", "text_for_kernels", "traced"]
