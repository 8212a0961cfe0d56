"""What a mask function of transformers says: read off the function itself, so that no (queries, keys) mask need be made.

Input: a function of (batch, head, query, key) positions that transformers' `masking_utils` has put together. Output: the same as
numbers, or None for a function that another has written, or that no kernel of ours can follow. For example:

    read(causal_mask_function)                          Pattern(left=None, right=0, packed=None)
    read(sliding_window_causal_mask_function(128))      Pattern(left=127, right=0, packed=None)
    read(lambda batch, head, query, key: key < 3)       None
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import FunctionType

import torch
from torch import Tensor
from transformers import masking_utils

_OF_NOTHING = torch.zeros(1, 1, dtype=torch.int64)
# The code that each maker's inner function has. A function with the same code differs in the values of its closure alone.
_AND = masking_utils.and_masks(masking_utils.causal_mask_function).__code__
_SLIDING = masking_utils.sliding_window_overlay(1).__code__
_SLIDING_BOTH = masking_utils.sliding_window_bidirectional_overlay(1).__code__
_PACKED = masking_utils.packed_sequence_mask_function(_OF_NOTHING).__code__
_REMAPPED = masking_utils.remap_positions_for_packed_sequence(masking_utils.causal_mask_function, _OF_NOTHING).__code__


@dataclass(frozen=True)
class Pattern:
    """A query at position p sees keys p - left to p + right, None being no bound; in packed rows those of its own sequence."""

    left: int | None = None
    right: int | None = None
    packed: Tensor | None = None        # (batch, length): equal numbers for positions of one sequence
    remapped: bool = False              # bounds count positions within sequences: the same as indices if `packed` tells them apart


def read(function: Callable) -> Pattern | None:
    """The pattern of a mask function, or None."""
    found = _read(function)
    return None if found is None or found.remapped and found.packed is None else found


def _read(function: Callable) -> Pattern | None:
    if function is masking_utils.causal_mask_function:
        return Pattern(right=0)
    if function is masking_utils.bidirectional_mask_function:
        return Pattern()
    if type(function) is not FunctionType or function.__closure__ is None:
        return None
    code = function.__code__
    held = dict(zip(code.co_freevars, (cell.cell_contents for cell in function.__closure__)))
    if code is _SLIDING:
        return Pattern(left=held["sliding_window"] - 1)
    if code is _SLIDING_BOTH:
        return Pattern(held["sliding_window"], held["sliding_window"])
    if code is _PACKED:
        return Pattern(packed=held["packed_sequence_mask"])
    if code is _REMAPPED:
        inner = _read(held["mask_function"])
        return None if inner is None or inner.packed is not None else Pattern(inner.left, inner.right, remapped=True)
    return _both(held["mask_functions"]) if code is _AND else None


def _both(functions: tuple[Callable, ...]) -> Pattern | None:
    """The keys that all of them let through."""
    parts = [_read(function) for function in functions]
    if None in parts or sum(part.packed is not None for part in parts) > 1:
        return None
    left, right = (min((bound for bound in bounds if bound is not None), default=None)
                   for bounds in zip(*((part.left, part.right) for part in parts)))
    packed = next((part.packed for part in parts if part.packed is not None), None)
    return Pattern(left, right, packed, any(part.remapped for part in parts))


__all__ = ["Pattern", "read"]
