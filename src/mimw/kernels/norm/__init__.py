"""LayerNorm and RMSNorm for Hopper, with a residual added on the way: bf16, fp16 and fp32, rows of any length, statistics in fp32.

Input: x (rows, N), and optionally weight (N), bias (N), residual (rows, N). Output: y (rows, N), and with a residual the sum. For
example:

    arguments(x, weight, bias, y)                   (kernel, grid, args, meta) of a launch or `mimw.simulate`, numpy or torch
"""

from __future__ import annotations

from ..contract import Contract
from ..contract.memory import address, strides
from .configs import UNIT_BYTES, Configuration, configuration, direct_configuration, ring_configuration
from .direct import Shape, norm_direct
from .kernel import NormForm, Units
from .kernel import norm as kernel

CONTRACT = Contract(
    "x: float (rows, N) rows", "y: float (rows, N) rows", "residual?: float (rows, N) rows", "total?: float (rows, N) rows",
    "weight?: float (N) contiguous", "bias?: float (N) contiguous", "mean?: fp32 (rows)", "rstd?: fp32 (rows)",
    "(residual is None) == (total is None) -- residual and total go together: total takes x + residual")
REGISTERS = 65536   # of an SM

__all__ = ["CONTRACT", "Configuration", "arguments", "configuration", "direct_configuration", "kernel", "norm_direct",
           "ring_configuration"]


def arguments(x, weight, bias, y, residual=None, total=None, mean=None, rstd=None, eps: float = 1e-5, centred: bool = True,
              chosen: Configuration | None = None, room: int | None = None, counter=None) -> tuple:
    """(kernel, grid, args, meta) of the launch that normalises the rows of x, or of x + residual.

    args:      x         (rows, N), columns contiguous, fp16, bf16 or fp32
               weight    (N), bias (N): contiguous, of any of these types, or None
               y         (rows, N), columns contiguous, of any of these types
               residual  (rows, N) or None; total (rows, N) takes x + residual, rounded to its type, from which y is computed
               mean      (rows), rstd (rows): fp32 or None, filled with the mean and 1 / sqrt(variance + eps)
               centred   LayerNorm; else RMSNorm, whose mean is not taken off
               chosen    by default the one for rows, N and type
               room      clusters that the GPU runs at a time; by default those of an H200
               counter   (1) int32, 0 before and after a launch, for configurations whose rows are drawn; without it they take
                         equal shares. One launch at a time may use it
    errors:    ValueError where a shape, a type or a stride does not fit, with the numbers
    """
    of = CONTRACT.check(x=x, weight=weight, bias=bias, y=y, residual=residual, total=total, mean=mean, rstd=rstd)
    rows, n, matrices = of.rows, of.N, [matrix for matrix in (x, y, residual, total) if matrix is not None]
    vectors = [vector for vector in (weight, bias) if vector is not None]
    unit = UNIT_BYTES // min(array.dtype.itemsize for array in (x, residual, weight, bias) if array is not None)
    steps = [strides(matrix)[0] for matrix in (x, residual, y, total) if matrix is not None]
    bulk = n % unit == 0 and not any(step % unit for step in steps) and not any(
        address(array) % UNIT_BYTES for array in (*matrices, *vectors))
    if chosen is None:
        kept = sum(vector.dtype.itemsize for vector in vectors)
        chosen = configuration(rows, n, x.dtype.itemsize, 1 if residual is None else 2, kept, bulk)
    x_row, residual_row, y_row, total_row = (0 if matrix is None else strides(matrix)[0] for matrix in (x, residual, y, total))
    arrays = x, residual, weight, bias, y, total, mean, rstd
    meta = chosen.options()
    chosen.check(n, bulk, f"{steps}")
    if chosen.form == "direct":
        meta |= dict(FORM=chosen.direct(), CENTRED=centred) | ({"launch_pdl": True} if chosen.early else {})
        grid = chosen.ctas * -(-rows // chosen.rows)
        return norm_direct, (grid, ), (*arrays, Shape(rows, n, x_row, residual_row, y_row, total_row), eps), meta
    if chosen.resident > 1:
        threads = 32 * (chosen.warps * chosen.consumers + 4)
        meta["maxnreg"] = REGISTERS // (threads * chosen.resident) // 8 * 8
    units = Units(rows, *(step // unit for step in (n, x_row, residual_row, y_row, total_row)))
    drawn, clusters = counter if chosen.drawn and chosen.stages % chosen.consumers == 0 else None, chosen.clusters(rows, room)
    behind, head = (min(some, chosen.stages, rows // clusters) for some in (chosen.behind, chosen.stages))
    meta["FORM"] = NormForm(*chosen.ring(unit, n), centred, chosen.keep, 0 if drawn is None else head, behind)
    return kernel, (chosen.ctas * clusters, ), (*arrays, drawn, units, eps), meta
