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

from .launching import Launch
from .operator import Operator
from .plans import Plans, look

TYPES = (torch.bfloat16, torch.float16, torch.float32)


def swiglu(gate: Tensor, up: Tensor) -> Tensor:
    """gate sigmoid(gate) up, as torch.nn.functional.silu(gate) * up without rounding between.

    args:      gate, up   of one shape and type: bf16, fp16 or fp32, any strides, any extents, also 0
    returns:   of their shape and type, contiguous
    computed:  in fp32 by `mimw.kernels.swiglu`, plain Triton
    gradients  of both; no second derivative
    errors:    RuntimeError where shapes, types or devices differ; NotImplementedError for other types
    """
    return SWIGLU(gate, up)


def _checked(gate: Tensor, up: Tensor) -> None:
    if gate.dtype not in TYPES:
        raise NotImplementedError(f"swiglu: gate is {gate.dtype}; it may be {', '.join(map(str, TYPES))}")
    if gate.dtype != up.dtype or gate.device != up.device:
        raise RuntimeError(f"swiglu: gate is {gate.dtype} on {gate.device}, up {up.dtype} on {up.device}; they must be alike")
    torch._check(gate.shape == up.shape,
                 lambda: f"swiglu: gate is {tuple(gate.shape)} and up {tuple(up.shape)}; they must be alike")


def _fake(gate: Tensor, up: Tensor) -> Tensor:
    _checked(gate, up)
    return torch.empty(gate.shape, dtype=gate.dtype, device=gate.device)


def _rows(x: Tensor) -> Tensor:
    """As (rows, columns), columns side by side."""
    two = x.reshape(-1, x.shape[-1] if x.dim() else 1)
    return two if two.shape[1] == 1 or two.stride(1) == 1 else two.contiguous()


def _plan(arguments: Callable, results: int, *given: Tensor) -> Callable[..., tuple[Tensor, ...]]:
    """`given` are read, and as many `results` of the first one's shape are filled."""
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
    if given[0].numel() == 0:
        return tuple(torch.empty(given[0].shape, dtype=given[0].dtype, device=given[0].device) for _ in range(results))
    key = results, *map(look, given)
    return (_PLANS[key] or _PLANS.made(key, arguments, results, *given))(*given)


def _run(gate: Tensor, up: Tensor) -> Tensor:
    _checked(gate, up)
    return _computed(library.arguments, 1, gate, up)[0]


SWIGLU_BACKWARD = Operator("swiglu_backward(Tensor gate, Tensor up, Tensor dy) -> (Tensor, Tensor)",
                           lambda *given: _computed(library.gradient_arguments, 2, *given),
                           lambda gate, up, dy: (_fake(gate, up), _fake(gate, up)))
SWIGLU = Operator("swiglu(Tensor gate, Tensor up) -> Tensor", _run, _fake,
                  lambda ctx, inputs, output: ctx.save_for_backward(*inputs),
                  lambda ctx, dy: SWIGLU_BACKWARD(*ctx.saved_tensors, dy))
