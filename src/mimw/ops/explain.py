"""`mimw.ops.explain`: the kernels that a call of an operator would launch, or why torch would compute it.

Input: an operator and the arguments of a call. Output: a line of text. For example:

    explain(ops.matmul, a, b)                                       "matmul: by gemm"
    explain(ops.scaled_dot_product_attention, q, k, v, bias)        "scaled_dot_product_attention: by torch, as attn_mask is ..."
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from unittest import mock

from .launching import Launch
from .scaled_dot_product_attention import reason, scaled_dot_product_attention

REASONS = {scaled_dot_product_attention: reason}     # of functions that leave some calls to torch's own: why, or None


def explain(operator: Callable, *args: Any, **options: Any) -> str:
    """The kernels that a call launches, by their packages in `mimw.kernels`, or the reason why torch computes it; nothing is
    launched or simulated.

    args:      operator        a function of `mimw.ops`
               args, options   of the call
    returns:   a line. As nothing is computed, an operator that decides by what a kernel has written may be told wrong, as by
               `mimw.compile_ahead`
    errors:    those of the call
    """
    why = REASONS[operator](*args, **options) if operator in REASONS else None
    if why is not None:
        return f"{operator.__name__}: by torch, as {why}"
    kernels: dict[str, None] = {}

    def note(launch: Launch, *tensors: Any) -> None:
        kernels[launch.package] = None

    with mock.patch.object(Launch, "__call__", note):
        operator(*args, **options)
    return f"{operator.__name__}: by {', '.join(kernels) or 'torch'}"


__all__ = ["explain"]
