"""Softmax and log-softmax over the last dimension for Hopper, and their gradient: bf16, fp16 and fp32, rows of any length.

Input: x (rows, N). Output: y (rows, N), of x's type or another one. For example:

    arguments(x, y)                             (kernel, grid, args, meta) of a launch or `mimw.simulate`, numpy or torch
    gradient_arguments(y, dy, dx)               the same of the gradient
"""

from __future__ import annotations

from ..contract import Contract
from ..contract.memory import address, strides
from ..norm import UNIT_BYTES
from ..norm.ring import RingForm
from .configs import Configuration, configuration, gradient_configuration
from .direct import softmax_direct, softmax_gradient
from .gradient import softmax_gradient_ring
from .kernel import softmax as kernel

__all__ = ["CONTRACT", "GRADIENT", "Configuration", "arguments", "configuration", "gradient_arguments", "gradient_configuration",
           "kernel", "softmax_direct", "softmax_gradient", "softmax_gradient_ring"]

CONTRACT = Contract("x: float (rows, N) rows", "y: float (rows, N) rows")
GRADIENT = Contract("y: float (rows, N) rows", "dy: float (rows, N) rows", "dx: float (rows, N) rows")


def arguments(x, y, log: bool = False, chosen: Configuration | None = None, room: int | None = None) -> tuple:
    """(kernel, grid, args, meta) of the launch that computes the softmax of each row.

    args:      x, y    (rows, N), columns contiguous; fp16, bf16 or fp32, each of its own type
               log     the logarithm of the softmax
               chosen  by default the one for rows, N and type
               room    clusters that the GPU runs at a time; by default those of an H200
    errors:    ValueError where a shape, a type or a stride does not fit, with the numbers
    """
    of = CONTRACT.check(x=x, y=y)
    rows, n = of.rows, of.N
    unit = UNIT_BYTES // x.dtype.itemsize
    x_row, y_row = strides(x)[0], strides(y)[0]
    bulk = not (n % unit or x_row % unit or y_row % unit or address(x) % UNIT_BYTES or address(y) % UNIT_BYTES)
    chosen = chosen or configuration(rows, n, x.dtype.itemsize, bulk)
    if chosen.form == "direct":
        grid, meta = direct_launch(rows, n, chosen)
        return softmax_direct, grid, (x, y, rows, n, x_row, y_row), meta | dict(LOG=log)
    meta = ring_launch(n, unit, bulk, [x_row, y_row], chosen) | dict(LOG=log)
    return kernel, (chosen.ctas * chosen.clusters(rows, room), ), (x, y, rows, n // unit, x_row // unit, y_row // unit), meta


def gradient_arguments(y, dy, dx, log: bool = False, chosen: Configuration | None = None, room: int | None = None) -> tuple:
    """(kernel, grid, args, meta) of the launch that fills dx, of the softmax y of x, or of its logarithm, and the gradient dy of y.

    args:      y, dy, dx   (rows, N), columns contiguous; fp16, bf16 or fp32, each of its own type
    errors:    ValueError where a shape, a type or a stride does not fit, with the numbers
    """
    of = GRADIENT.check(y=y, dy=dy, dx=dx)
    rows, n = of.rows, of.N
    steps = [strides(matrix)[0] for matrix in (y, dy, dx)]
    unit = UNIT_BYTES // min(y.dtype.itemsize, dy.dtype.itemsize)
    bulk = not (n % unit or any(step % unit for step in steps) or any(address(matrix) % UNIT_BYTES for matrix in (y, dy, dx)))
    chosen = chosen or gradient_configuration(rows, n, max(y.dtype.itemsize, dy.dtype.itemsize), bulk)
    if chosen.form == "direct":
        grid, meta = direct_launch(rows, n, chosen)
        return softmax_gradient, grid, (y, dy, dx, rows, n, *steps), meta | dict(LOG=log)
    meta = ring_launch(n, unit, bulk, steps, chosen) | dict(LOG=log)
    grid = (chosen.ctas * chosen.clusters(rows, room), )
    return softmax_gradient_ring, grid, (y, dy, dx, rows, n // unit, *(step // unit for step in steps)), meta


def ring_launch(n: int, unit: int, bulk: bool, steps: list[int], chosen: Configuration, whole: bool = True) -> dict:
    """Compile-time arguments of a ring form, for rows of n elements that are so many apart; not `whole`: their parts are not."""
    chosen.check(n, bulk, " and ".join(map(str, steps)))
    return chosen.options(FORM=RingForm(*chosen.ring(unit, n, whole)))


def direct_launch(rows: int, n: int, chosen: Configuration) -> tuple[tuple[int], dict]:
    """Grid and compile-time arguments of a direct form."""
    chosen.check(n, False, "")
    return (chosen.ctas * -(-rows // chosen.rows), ), chosen.options(FORM=chosen.direct())
