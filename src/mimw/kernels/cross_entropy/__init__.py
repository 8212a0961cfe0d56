"""Cross entropy of rows of logits for Hopper, with the logits' gradient in their place: bf16, fp16 and fp32, rows of any length.

Input: x (rows, N), a target for each row. Output: fp32 losses and logarithms of sums, and the gradient, perhaps in x. For
example:

    arguments(x, targets, losses, lses)                 (kernel, grid, args, meta) of a launch or `mimw.simulate`, numpy or torch
    arguments(x, targets, losses, lses, dx=x)           the same, and x becomes its own gradient
    gradient_arguments(x, targets, lses, dlosses, dx)   the gradient from the logarithms, later
"""

from __future__ import annotations

from ..contract import Contract
from ..contract.memory import address, strides
from ..norm import UNIT_BYTES
from ..softmax import direct_launch, ring_launch
from .configs import Configuration, configuration
from .direct import Numbers, Shape, cross_entropy_direct
from .gradient import Steps, Weights, cross_entropy_gradient, scale_rows
from .kernel import cross_entropy as kernel

__all__ = ["CONTRACT", "GRADIENT", "SCALED", "Configuration", "arguments", "configuration", "cross_entropy_direct",
           "cross_entropy_gradient", "gradient_arguments",
           "kernel", "scale_arguments", "scale_rows"]

WIDEST = 8192       # columns of a block of the plain kernels
ROWS = "x: float (rows, N) rows", "targets: int (rows) contiguous", "lses: fp32 (rows) contiguous"
CONTRACT = Contract(*ROWS, "losses: fp32 (rows) contiguous", "dx?: float (rows, N) rows", "count?: fp32 (1)")
GRADIENT = Contract(*ROWS, "dlosses: any (rows)", "dx: float (rows, N) rows")
SCALED = Contract("x: float (rows, N) rows", "factors: any (rows)")


def arguments(x, targets, losses, lses, dx=None, count=None, scale: float = 1.0, smoothing: float = 0.0, z: float = 0.0,
              ignored: int = -100, chosen: Configuration | None = None, room: int | None = None, cap: float | None = None) -> tuple:
    """(kernel, grid, args, meta) of the launch that fills losses and lses, and dx with the gradient of their sum times `scale`.

    args:      x          (rows, N), columns contiguous; fp16, bf16 or fp32
               targets    (rows), int32 or int64: a column each, or `ignored`; for others the loss is NaN
               losses     (rows), fp32: lse - x[target] + z lse^2, of an ignored row 0
               lses       (rows), fp32: log(sum of exp(x))
               dx         (rows, N), of x's type or another one; x itself, which it overwrites; or None
               count      (1), fp32, or None: what `scale` is divided by
               smoothing  share of the weight that is spread over all columns, 0 to 1
               chosen     by default the one for rows, N and type
               room       clusters that the GPU runs at a time; by default those of an H200
               cap        x becomes cap tanh(x / cap) first (softcap.py), and dx is the gradient of x itself; None: it does not
    errors:    ValueError where a shape, a type or a stride does not fit, with the numbers
    """
    of = CONTRACT.check(x=x, dx=dx, targets=targets, losses=losses, lses=lses, count=count)
    rows, n = of.rows, of.N
    unit = UNIT_BYTES // x.dtype.itemsize
    x_row, dx_row = strides(x)[0], 0 if dx is None else strides(dx)[0]
    # Edges of x and dx are alike, where there are any.
    edges = bool(n % unit or x_row % unit or dx_row % unit)
    bulk = not address(x) % UNIT_BYTES and (dx is None or not edges or not (address(dx) % UNIT_BYTES or (x_row - dx_row) % unit))
    chosen = chosen or configuration(rows, n, x.dtype.itemsize, bulk)
    numbers = Numbers(float(scale), float(smoothing), float(z), ignored)
    bound = {} if cap is None else dict(cap=float(cap))
    args = x, targets, losses, lses, dx, count, Shape(rows, n, x_row, dx_row), numbers
    if chosen.form == "direct":
        grid, meta = direct_launch(rows, n, chosen)
        return cross_entropy_direct, grid, args, meta | dict(SMOOTH=smoothing > 0) | bound
    if edges and chosen.chunk > n - 2 * (unit - 1):
        raise ValueError(f"rows of {n} elements, {x_row} apart, have too few between their edges for a chunk of {chosen.chunk}")
    meta = ring_launch(n, unit, bulk, [x_row, dx_row], chosen, not edges) | dict(SMOOTH=smoothing > 0, EDGES=edges) | bound
    return kernel, (chosen.ctas * chosen.clusters(rows, room), ), args, meta


def gradient_arguments(x, targets, lses, dlosses, dx, smoothing: float = 0.0, z: float = 0.0, ignored: int = -100,
                       cap: float | None = None, classes: int = 0) -> tuple:
    """(kernel, grid, args, meta) of the launch that fills dx, which may be x, from the logarithms and the losses' gradients;
    those may be one number for all, by a stride of 0. Of more `classes` than N the columns are a part, which may lack the target:
    then that is N or more. Other arrays, and errors, as `arguments`."""
    of = GRADIENT.check(x=x, dx=dx, targets=targets, lses=lses, dlosses=dlosses)
    rows, n = of.rows, of.N
    block = min(WIDEST, max(128, 1 << (n - 1).bit_length()))
    steps = Steps(*(strides(array)[0] for array in (x, dlosses, dx)))
    args = x, targets, lses, dlosses, dx, n, steps, Weights(float(smoothing), smoothing / (classes or n), float(z), ignored)
    meta = dict(BLOCK=block, num_warps=8 if block > 1024 else 4) | ({} if cap is None else dict(cap=float(cap)))
    return cross_entropy_gradient, (rows * -(-n // block), ), args, meta


def scale_arguments(x, factors, programs: int) -> tuple:
    """(kernel, grid, args, meta) of the launch that multiplies row i of x (rows, N) by factors[i] where that is not 1, in place."""
    of = SCALED.check(x=x, factors=factors)
    rows, n = of.rows, of.N
    block = min(WIDEST, max(128, 1 << (n - 1).bit_length()))
    args = x, factors, rows, n, strides(x)[0], strides(factors)[0]
    return scale_rows, (min(rows, 4 * programs), ), args, dict(BLOCK=block, num_warps=8 if block > 1024 else 4)
