"""`mimw.ops.layer_norm` and `mimw.ops.rms_norm`: torch's, on the library's kernels, with a residual added on the way.

Input: rows, and what scales and shifts them. Output: the normalised rows, and with a residual the sum, too. For example:

    y = layer_norm(x, (4096, ), weight, bias)
    y, total = rms_norm(x, (4096, ), weight, residual=r)        total = x + r, y = rms_norm(total)
    torch.ops.mimw.layer_norm(x, weight, bias, 1e-5, 1)         the operator itself: (y, mean, rstd)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

import torch
from torch import Tensor
from torch.fx import Proxy

from mimw.kernels import norm, norm_backward
from mimw.kernels.norm.configs import plain_configuration

from .contract import Contract, Extents, by
from .gradients_of_norms import save as save_for_second
from .gradients_of_norms import second
from .launching import Launch, is_hopper, zeros
from .operator import Operator
from .planned import Planned

_FP32_EPS = torch.finfo(torch.float32).eps


def _contract(name: str, added: bool) -> Contract:
    """The contract of one of the four norms: of a sum or not, centred or not."""
    residual, total = ["residual: float (*rows, *n)"], ["-> total: =x+residual (*rows, *n)"]
    bias, mean = (["bias?: float (*n)"], ["-> mean: fp32 (*rows)"]) if name == "layer_norm" else ([], [])
    return Contract(name, "x: float (*rows, *n[dims])", *residual * added, "weight?: float (*n)", *bias, "-> y: =x (*rows, *n)",
                    *total * added, *mean, "-> rstd: fp32 (*rows)")


CONTRACTS = {(name, added): _contract(name, added) for name in ("layer_norm", "rms_norm") for added in (False, True)}
BACKWARD = Contract("norm_backward", "x: float (*rows, *n[dims])", "dy: any (*rows, *n)", "weight?: float (*n)",
                    "rstd: fp32 (*rows)", "-> dx: =x (*rows, *n)", "-> dw: =weight|=x (*n) if dw", "-> db: =weight|=x (*n) if db")


def layer_norm(x: Tensor, normalized_shape: Sequence[int] | int, weight: Tensor | None = None, bias: Tensor | None = None,
               eps: float = 1e-5, residual: Tensor | None = None) -> Tensor | tuple[Tensor, Tensor]:
    """(x - mean) / sqrt(variance + eps) weight + bias over the last dimensions, as torch.nn.functional.layer_norm.

    args:      x                 (..., *normalized_shape): bf16, fp16 or fp32, any strides, any extents, also 0
               normalized_shape  the last dimensions of x, or the only last one as a number
               weight, bias      of that shape, of any of these types, or None
               eps               added to the variance
               residual          of x's shape, of any of these types: x + residual is normalised, rounded to the wider of the types
    returns:   y of x's shape and type, contiguous; with a residual (y, x + residual)
    computed:  by `mimw.kernels.norm`, with statistics in fp32: on sm_90 many long rows by bulk copies into a ring, few long ones by
               clusters
    gradients  of x, residual, weight and bias, the same in every run; second derivatives, and those of them, by torch's
               operations
    errors:    RuntimeError where shapes or devices do not fit each other; NotImplementedError for other types
    """
    dims = _dims("layer_norm", x, normalized_shape)
    if residual is None:
        return LAYER_NORM(x, weight, bias, eps, dims)[0]
    return ADD_LAYER_NORM(x, residual, weight, bias, eps, dims)[:2]


def rms_norm(x: Tensor, normalized_shape: Sequence[int] | int, weight: Tensor | None = None, eps: float | None = None,
             residual: Tensor | None = None) -> Tensor | tuple[Tensor, Tensor]:
    """x / sqrt(mean of squares + eps) weight over the last dimensions, as torch.nn.functional.rms_norm.

    As `layer_norm`; eps is by default that of torch for all these types: 2^-23, the difference of 1 and the next number of fp32.
    """
    dims, eps = _dims("rms_norm", x, normalized_shape), _FP32_EPS if eps is None else eps
    if residual is None:
        return RMS_NORM(x, weight, eps, dims)[0]
    return ADD_RMS_NORM(x, residual, weight, eps, dims)[:2]


def _dims(name: str, x: Tensor, normalized_shape: Sequence[int] | int) -> int:
    shape = (normalized_shape, ) if isinstance(normalized_shape, int) else tuple(normalized_shape)
    if not shape or not isinstance(x, Proxy) and (tuple(x.shape[x.dim() - len(shape):]) != shape or x.dim() < len(shape)):
        raise RuntimeError(f"{name}: normalized_shape is {shape}, and x is {by(x)}; it must be the last dimensions of x")
    return len(shape)


def _two(x: Tensor, dims: int) -> Tensor:
    """The tensor as (rows, columns), columns side by side."""
    n = prod(x.shape[x.dim() - dims:])
    two = x.reshape(-1, n) if n and x.numel() else x.new_empty(prod(x.shape[:x.dim() - dims]), n)
    return two if n <= 1 or two.stride(1) == 1 else two.contiguous()


def _line(x: Tensor | None) -> Tensor | None:
    return None if x is None else x.reshape(-1).contiguous()


def _plan(of: Extents, x: Tensor, residual: Tensor | None, weight: Tensor | None, bias: Tensor | None, eps: float, dims: int,
          centred: bool) -> Callable:
    if x.numel() == 0:
        return lambda x, *_: _of_nothing(of.empty(x), centred)
    prepared = _two(x, dims), None if residual is None else _two(residual, dims), _line(weight), _line(bias)
    moved = [old is not None and new.data_ptr() != old.data_ptr() for old, new in zip((x, residual, weight, bias), prepared)]
    y, *totals = outs = of.empty(x)
    *totals, rstd = totals
    mean = totals.pop().reshape(-1) if centred else None
    y, total, rstd = _two(y, dims), _two(totals.pop(), dims) if totals else None, rstd.reshape(-1)
    two, res, w, b = prepared

    def made(chosen=None):
        return norm.arguments(two, w, b, y, res, total, mean, rstd, eps, centred, chosen, counter=zeros(x))

    kernel, grid, args, meta = made()
    if not is_hopper(x):
        kernel, grid, args, meta = made(plain_configuration(*two.shape))
    launch = Launch(x, kernel, grid, args, meta)
    drawn = sum(isinstance(one, Tensor) for one in args) > len(outs) + sum(one is not None for one in prepared)
    ways = [(move, at < 2) for at, (move, one) in enumerate(zip(moved, prepared)) if one is not None]

    def plan(*tensors: Tensor | None) -> tuple[Tensor, ...]:
        given = [one if not move else _two(one, dims) if of_rows else _line(one)
                 for one, (move, of_rows) in zip((one for one in tensors if one is not None), ways)]
        outs = of.empty(tensors[0])
        launch(*given, *outs, *([zeros(tensors[0])] if drawn else []))
        return outs

    return plan


def _of_nothing(outs: tuple[Tensor, ...], centred: bool) -> tuple[Tensor, ...]:
    """Rows without columns have no mean, as torch has it."""
    for one in outs[-1 - centred:]:
        one.fill_(float("nan"))
    return outs


def _plan_backward(of: Extents, x: Tensor, dy: Tensor, weight: Tensor | None, mean: Tensor | None, rstd: Tensor,
                   more: Tensor | None, dw: bool, db: bool, dims: int) -> Callable:
    if x.numel() == 0:
        return lambda x, *_: tuple(one.zero_() for one in of.empty(x))
    given = x, dy, more, weight
    prepared = [None if one is None else _line(one) if at == 3 else _two(one, dims) for at, one in enumerate(given)]
    moved = [one is not None and new.data_ptr() != one.data_ptr() for one, new in zip(given, prepared)]
    two, dy_two, more_two, line = prepared
    dx, dw_out, db_out = (one.reshape(-1) for one in of.empty(x))
    (rows, columns), dx = two.shape, dx.reshape(two.shape)
    chosen = norm_backward.chosen_for(two, dy_two, line, dx, more_two)
    if not is_hopper(x):
        chosen = plain_configuration(rows, columns)
    parts_shape = 2, norm_backward.parts_of(rows, columns, chosen) if dw or db else 0, columns
    parts = torch.empty(parts_shape, dtype=torch.float32, device=x.device)
    made = norm_backward.arguments(two, dy_two, line, None if mean is None else mean.reshape(-1), rstd.reshape(-1), dx,
                                   dw_out if dw else None, db_out if db else None, parts, more_two, chosen)
    if not is_hopper(x):
        made = [(*launch, _alone(meta)) for *launch, meta in made]
    launches, apart = [Launch(x, *one) for one in made], len(made) == 3     # three: the sums are made by a launch of their own

    def plan(x: Tensor, dy: Tensor, weight: Tensor | None, mean: Tensor | None, rstd: Tensor, more: Tensor | None) -> tuple:
        x, dy, more, weight = (one if not move else _line(one) if at == 3 else _two(one, dims)
                               for at, (one, move) in enumerate(zip((x, dy, more, weight), moved)))
        outs, parts = of.empty(x), torch.empty(parts_shape, dtype=torch.float32, device=x.device)
        sums = [part for part, wanted in zip(parts, (dw, db)) if wanted]
        statistics = [one for one in (mean, rstd) if one is not None]
        launches[0](*(one for one in (x, dy, more, weight) if one is not None), *statistics, outs[0], *([] if apart else sums))
        if apart:
            launches[1](x, dy, *statistics, *sums)
        if sums:
            launches[-1](*sums, *(out for out, wanted in zip(outs[1:], (dw, db)) if wanted))
        return outs

    return plan


def _alone(meta: dict) -> dict:
    """Compile-time arguments of a launch that begins behind the one ahead of it; AMD's chips have no such option to turn off."""
    meta = {name: value for name, value in meta.items() if name != "launch_pdl"}
    return meta | {"EARLY": False} if "EARLY" in meta else meta


NORM_BACKWARD = Operator(
    "norm_backward(Tensor x, Tensor dy, Tensor? weight, Tensor? mean, Tensor rstd, Tensor? more, bool dw, bool db, int dims) -> "
    "(Tensor, Tensor, Tensor)", Planned(_plan_backward), BACKWARD, save_for_second, second)


def _operator(name: str, centred: bool, added: bool) -> Operator:
    """One of the four norms: of a sum or not, centred or not. Its outputs are y, the sum, the mean and 1 / deviation, of these
    those that there are; its derivative is NORM_BACKWARD."""
    inputs = ["Tensor x", *["Tensor residual"] * added, "Tensor? weight", *["Tensor? bias"] * centred, "float eps", "int dims"]

    def split(args: tuple) -> tuple:
        """(x, residual, weight, bias, eps, dims), None for what the operator does not have."""
        args = list(args)
        if not added:
            args.insert(1, None)
        if not centred:
            args.insert(3, None)
        return tuple(args)

    def save(ctx, inputs, output):
        x, residual, weight, bias, _, dims = split(inputs)
        ctx.save_for_backward(output[1] if added else x, weight, output[-2] if centred else None, output[-1])
        ctx.dims, ctx.types = dims, (x.dtype, residual.dtype if added else None)
        ctx.weight_at, ctx.bias_at = 1 + added, 2 + added
        ctx.set_materialize_grads(False)
        ctx.mark_non_differentiable(*output[1 + added:])

    def backward(ctx, dy, *rest):
        x, weight, mean, rstd = ctx.saved_tensors
        more = rest[0] if added else None
        dw = weight is not None and ctx.needs_input_grad[ctx.weight_at]
        db = centred and ctx.needs_input_grad[ctx.bias_at]
        if dy is None:
            dx, dw_out, db_out = more, None, None
        else:
            dx, dw_out, db_out = NORM_BACKWARD(x, dy, weight, mean, rstd, more, dw, db, ctx.dims)
        of_rows = [None if dx is None else dx.to(type_) for type_ in ctx.types if type_ is not None]
        return *of_rows, dw_out if dw else None, *([db_out if db else None] if centred else [])

    return Operator(f"{name}({', '.join(inputs)}) -> ({', '.join(['Tensor'] * (2 + centred + added))})",
                    Planned(lambda of, *args: _plan(of, *split(args), centred)), CONTRACTS[name.removeprefix("add_"), added], save,
                    backward, autocast=torch.float32)


LAYER_NORM, ADD_LAYER_NORM = _operator("layer_norm", True, False), _operator("add_layer_norm", True, True)
RMS_NORM, ADD_RMS_NORM = _operator("rms_norm", False, False), _operator("add_rms_norm", False, True)
