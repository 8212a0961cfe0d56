"""Gradients of LayerNorm and RMSNorm for Hopper, of a residual and of w and b: bf16, fp16 and fp32, rows of any length.

Input: x, or the sum that was normalised, and dy (rows, N); w (N); mean and rstd (rows) as the forward launch left them. Output: dx
(rows, N), dw and db (N), the same in every run. For example:

    arguments(x, dy, w, mean, rstd, dx, dw, db, parts)          [(kernel, grid, args, meta), ...], numpy or torch, in this order
"""

from __future__ import annotations

from ..contract import Contract
from ..contract.memory import address, strides
from ..norm import UNIT_BYTES, Configuration
from ..norm.configs import ROOM
from ..powers import power_of_two
from .configs import PROGRAMS, configuration, direct_configuration, ring_configuration
from .direct import Read, Shape, norm_backward_direct, weight_parts
from .kernel import GradientForm, Units
from .kernel import norm_backward as kernel
from .reduce import add_parts

__all__ = ["CONTRACT", "Configuration", "add_parts", "arguments", "configuration", "direct_configuration", "kernel",
           "norm_backward_direct", "parts_of", "ring_configuration", "weight_parts"]

CONTRACT = Contract(
    "x: float (rows, N) rows", "dy: float (rows, N) rows", "dx: float (rows, N) rows", "more?: float (rows, N) rows",
    "weight?: float (N) rows", "dw?: float (N) rows", "db?: float (N) rows", "mean?: fp32 (rows)", "rstd: fp32 (rows)")
PARTS = Contract("parts: fp32 (2, count, N)")       # of dw and db

COLUMNS = 128       # of a program of `weight_parts`
ADDED = 8192        # numbers that a program of `add_parts` takes at a time


def at_a_time(rows: int, chosen: Configuration) -> int:
    """Rows of a block of the ring: as many as are asked for, or the largest half of them that divides the number of rows."""
    return next(some for some in (4, 2, 1) if some <= chosen.rows and rows % some == 0)


def parts_of(rows: int, n: int, chosen: Configuration, room: int | None = None) -> int:
    """How many sums over some of the rows there are for each column of dw and db."""
    if chosen.form == "ring":
        return chosen.clusters(rows // at_a_time(rows, chosen), room) * chosen.consumers
    if chosen.chunks > 1:
        return max(1, min(-(-rows // 16), 4 * ROOM[1] * COLUMNS // n))
    return min(-(-rows // chosen.rows), max(1, (room or PROGRAMS) // chosen.ctas))


def unit_of(*arrays) -> int:
    """Elements of 16 bytes of the narrowest type."""
    return UNIT_BYTES // min(array.dtype.itemsize for array in arrays if array is not None)


def bulk_takes(x, dy, weight, dx, more=None) -> bool:
    """Whether rows lie so that bulk copies move them."""
    unit, matrices = unit_of(x, dy, more, weight), [matrix for matrix in (x, dy, dx, more) if matrix is not None]
    return (x.shape[1] % unit == 0 and not any(strides(matrix)[0] % unit for matrix in matrices)
            and not any(address(array) % UNIT_BYTES for array in (*matrices, weight) if array is not None))


def chosen_for(x, dy, weight, dx, more=None) -> Configuration:
    """The configuration for these arrays."""
    staged = sum(array.dtype.itemsize for array in (x, dy, more) if array is not None)
    return configuration(*map(int, x.shape), x.dtype.itemsize, -(-staged // x.dtype.itemsize),
                         0 if weight is None else weight.dtype.itemsize, bulk_takes(x, dy, weight, dx, more))


def arguments(x, dy, weight, mean, rstd, dx, dw, db, parts=None, more=None, chosen: Configuration | None = None,
              room: int | None = None) -> list[tuple]:
    """[(kernel, grid, args, meta), ...]: the launches, in order, that compute the gradients.

    args:      x         (rows, N), what was normalised (with a residual the sum); dy (rows, N), the gradient of y; dx (rows, N)
               weight    (N) or None
               mean      (rows) fp32, or None for RMSNorm; rstd (rows) fp32
               dw, db    (N), gradients of weight and bias; None where not wanted
               parts     (2, parts_of(...), N) fp32, for the sums over some of the rows; needed where dw or db is wanted
               more      (rows, N) or None: a gradient that is added to dx, as that of the sum x + residual
               chosen    by default the one for rows, N and type
               room      clusters that the GPU runs at a time; by default those of an H200
    errors:    ValueError where a shape, a type or a stride does not fit, with the numbers
    """
    of = CONTRACT.check(x=x, dy=dy, dx=dx, more=more, weight=weight, dw=dw, db=db, mean=mean, rstd=rstd)
    rows, n = of.rows, of.N
    unit = unit_of(x, dy, more, weight)
    chosen = chosen or chosen_for(x, dy, weight, dx, more)
    chosen.check(n, bulk_takes(x, dy, weight, dx, more),
                 f"{[strides(matrix)[0] for matrix in (x, dy, dx, more) if matrix is not None]}")
    dw_parts, db_parts, count = None, None, parts_of(rows, n, chosen, room)
    if dw is not None or db is not None:
        PARTS.check(parts=parts, count=count, N=n)
        dw_parts, db_parts = None if dw is None else parts[0], None if db is None else parts[1]
    launches = _rows(x, dy, weight, mean, rstd, dx, dw_parts, db_parts, more, chosen, count, unit, rows, n)
    if dw is not None or db is not None:
        many, columns, warps, both = 32 if count > 8 else 8, 64, 4, chosen.apart and dw is not None and db is not None
        if chosen.apart:
            many = min(128, power_of_two(count))
            columns, warps = min(256, ADDED // many), 8
        launches.append((add_parts, (-(-n // columns), 1 + both), (dw_parts, db_parts, dw, db, count, n),
                         dict(ROWS_EACH=many, COLUMNS=columns, EARLY=True, APART=both, launch_pdl=True, num_warps=warps)))
    return launches


def _rows(x, dy, weight, mean, rstd, dx, dw, db, more, chosen, count, unit, rows, n) -> list[tuple]:
    """The launches that make dx, and the sums dw and db over some of the rows."""
    x_row, dy_row, dx_row = (strides(matrix)[0] for matrix in (x, dy, dx))
    more_row = 0 if more is None else strides(more)[0]
    meta, centred = chosen.options(), mean is not None
    if chosen.form == "ring":
        each = at_a_time(rows, chosen)
        meta["FORM"] = GradientForm(*chosen.ring(unit, n), centred, each, chosen.held, chosen.ahead, chosen.apart)
        units = Units(rows // each, *(step // unit for step in (n, x_row, dy_row, more_row, dx_row)))
        return [(kernel, (chosen.ctas * (count // chosen.consumers), ),
                 (x, dy, more, weight, mean, rstd, dx, dw, db, units), meta)]
    fused = chosen.chunks == 1
    meta |= dict(FORM=chosen.direct(), CENTRED=centred)
    clusters = count if fused else -(-rows // chosen.rows)
    arrays = (x, dy, more, weight, mean, rstd, dx, *((dw, db) if fused else (None, None)))
    shape = Shape(rows, n, x_row, dy_row, more_row, dx_row)
    launches = [(norm_backward_direct, (chosen.ctas * clusters, ), (*arrays, shape), meta)]
    if not fused and (dw is not None or db is not None):
        launches.append((weight_parts, (-(-n // COLUMNS), count), (x, dy, mean, rstd, dw, db, Read(rows, n, x_row, dy_row)),
                         dict(ROWS_EACH=16, COLUMNS=COLUMNS, CENTRED=centred, num_warps=4)))
    return launches
