"""`mimw.ops.swiglu`: gate sigmoid(gate) up in one pass, with a derivative in one pass.

Input: gate and up of one shape and type. Output: y of that shape. For example:

    y = swiglu(gate, up)
    y = swiglu(*x.chunk(2, -1))                 the halves of one product, which are not copied
    torch.ops.mimw.swiglu(gate, up)             the operator itself
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from mimw.kernels import swiglu as library

from .contract import Contract
from .launching import Launch
from .operator import Operator
from .plans import Plans, look

CONTRACT = Contract("swiglu", "gate: float (*any)", "up: =gate (*any)", "-> y: =gate (*any)")
BACKWARD = Contract("swiglu", "gate: float (*any)", "up: =gate (*any)", "dy: any (*any)", "-> dgate: =gate (*any)",
                    "-> dup: =gate (*any)")


def swiglu(gate: Tensor, up: Tensor) -> Tensor:
    """gate sigmoid(gate) up, as torch.nn.functional.silu(gate) * up without rounding between.

    args:      gate, up   of one shape and type: bf16, fp16 or fp32, any strides, any extents, also 0
    returns:   of their shape and type, contiguous
    computed:  in fp32 by `mimw.kernels.swiglu`, plain Triton
    gradients  of both; no second derivative
    errors:    RuntimeError where shapes, types or devices differ; NotImplementedError for other types
    """
    return SWIGLU(gate, up)


def _rows(x: Tensor) -> Tensor:
    """The tensor as (rows, columns), columns side by side."""
    two = x.reshape(-1, x.shape[-1] if x.dim() else 1)
    return two if two.shape[1] == 1 or two.stride(1) == 1 else two.contiguous()


def _plan(arguments: Callable, results: int, *given: Tensor) -> Callable[..., tuple[Tensor, ...]]:
    """`given` are read, and as many `results` of the first one's shape are filled."""
    (CONTRACT if results == 1 else BACKWARD).check(**dict(zip(("gate", "up", "dy"), given)))
    if given[0].numel() == 0:
        return lambda like, *_: tuple(torch.empty(like.shape, dtype=like.dtype, device=like.device) for _ in range(results))
    rows, like = [_rows(one) for one in given], given[0]
    moved = [two.data_ptr() != one.data_ptr() for two, one in zip(rows, given)]
    outs = [torch.empty(rows[0].shape, dtype=like.dtype, device=like.device) for _ in range(results)]
    launch = Launch(like, *arguments(*rows, *outs))

    def plan(*given: Tensor) -> tuple[Tensor, ...]:
        outs = tuple(torch.empty(given[0].shape, dtype=given[0].dtype, device=given[0].device) for _ in range(results))
        launch(*(_rows(one) if move else one for one, move in zip(given, moved)), *outs)
        return outs

    return plan


_PLANS = Plans(_plan)


def _computed(arguments: Callable, results: int, *given: Tensor) -> tuple[Tensor, ...]:
    key = results, *map(look, given)
    return (_PLANS[key] or _PLANS.made(key, arguments, results, *given))(*given)


def _run(gate: Tensor, up: Tensor) -> Tensor:
    return _computed(library.arguments, 1, gate, up)[0]


SWIGLU_BACKWARD = Operator("swiglu_backward(Tensor gate, Tensor up, Tensor dy) -> (Tensor, Tensor)",
                           lambda *given: _computed(library.gradient_arguments, 2, *given), BACKWARD)
SWIGLU = Operator("swiglu(Tensor gate, Tensor up) -> Tensor", _run, CONTRACT,
                  lambda ctx, inputs, output: ctx.save_for_backward(*inputs),
                  lambda ctx, dy: SWIGLU_BACKWARD(*ctx.saved_tensors, dy))
