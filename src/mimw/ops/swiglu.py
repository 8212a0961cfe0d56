"""`mimw.ops.swiglu`: gate sigmoid(gate) up in one pass, with a derivative in one pass.

Input: gate and up of one shape and type. Output: y of that shape. For example:

    y = swiglu(gate, up)
    y = swiglu(*x.chunk(2, -1))                 the halves of one product, which are not copied
    torch.ops.mimw.swiglu(gate, up)             the operator itself
"""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor

from mimw.kernels import swiglu as library

from .contract import Contract, Extents
from .launching import Launch
from .operator import Operator
from .planned import Planned

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


def _plan(of: Extents, *given: Tensor) -> Callable[..., Tensor | tuple[Tensor, Tensor]]:
    """Of gate and up, or of these and the gradient."""
    if given[0].numel() == 0:
        return lambda gate, *_: of.empty(gate)
    rows, arguments = [_rows(one) for one in given], library.arguments if len(given) == 2 else library.gradient_arguments
    moved = [two.data_ptr() != one.data_ptr() for two, one in zip(rows, given)]
    launch = Launch(given[0], *arguments(*rows, *(rows[0].new_empty(rows[0].shape) for _ in rows[1:])))

    def plan(*given: Tensor) -> Tensor | tuple[Tensor, Tensor]:
        outs = of.empty(given[0])
        launch(*(_rows(one) if move else one for one, move in zip(given, moved)), *(outs if len(given) == 3 else [outs]))
        return outs

    return plan


SWIGLU_BACKWARD = Operator("swiglu_backward(Tensor gate, Tensor up, Tensor dy) -> (Tensor, Tensor)", Planned(_plan), BACKWARD)
SWIGLU = Operator("swiglu(Tensor gate, Tensor up) -> Tensor", Planned(_plan), CONTRACT,
                  lambda ctx, inputs, output: ctx.save_for_backward(*inputs),
                  lambda ctx, dy: SWIGLU_BACKWARD(*ctx.saved_tensors, dy))
