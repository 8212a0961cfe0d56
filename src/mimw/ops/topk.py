"""`mimw.ops.topk`: torch.topk on the library's radix select, in order, with NaN as torch has them.

Input: a tensor. Output: the k largest or smallest of each of its rows along one dimension, with their places:

    values, indices = topk(x, 8)                            along the last dimension, largest first
    values, indices = topk(x, 8, dim=0, largest=False)
    torch.ops.mimw.topk(x, 8)                               the operator itself
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import NamedTuple

import torch
from torch import Tensor

from mimw.kernels import plain_topk
from mimw.kernels import topk as radix
from mimw.kernels import topk_selector as streaming
from mimw.kernels.topk.configs import MOST_A_CTA, MOST_CTAS

from .contract import Contract, Extents
from .launching import Launch, contiguous
from .notes import another_chip, takes
from .operator import Operator
from .planned import Planned

SHORT = 1024    # rows that one launch sorts whole, sooner than two launches select and sort
FEW_ROWS = 256  # so many up to the longest that it sorts
LONGEST_ROW = MOST_A_CTA * MOST_CTAS


class TopK(NamedTuple):
    """The results of `topk`, by the names that torch gives them: `.values` and `.indices`, also to be unpacked."""

    values: Tensor
    indices: Tensor


def topk(x: Tensor, k: int, dim: int = -1, largest: bool = True, sorted: bool = True, stable: bool = False) -> TopK:
    """(values, indices) of the k largest of each row of x along `dim`, as torch.topk.

    args:      x        of any shape and strides: fp16, bf16, fp32
               k        0 to the extent of `dim`
               dim      the dimension that the rows are along
               largest  or the k smallest. NaN is larger than all numbers
               sorted   in order, the largest (or smallest) first; of equal ones the first. Else in any order
               stable   of numbers equal to the last one chosen the first in the row are chosen; torch.topk, and this without it,
                        choose any. It takes a second selection, and some passes of torch's over x
    returns:   `.values` of x's type and int64 `.indices`, x's shape with k in the place of the extent of `dim`, contiguous
    computed:  rows of up to 1024, up to 256 rows of up to 4096, and all rows on GPUs other than sm_90, by sorting in
               `mimw.kernels.plain_topk`; longer ones by `mimw.kernels.topk`, those of more than 131072 numbers
               and 32 or more rows of over 16384 by `mimw.kernels.topk_selector`, then put in order by the first of these, k up to
               4096. By torch's own: the order of more than 4096 (torch.sort); more than half of rows of over 524288 numbers where k
               is over 16384, and on GPUs other than sm_90 more than 2048 of rows of over 4096 (torch.topk)
    gradients  of the values
    errors:    RuntimeError if k is out of range; IndexError for a dimension that x lacks; NotImplementedError for other types
               (torch.topk takes integers and fp64)
    """
    values, indices = TOPK(x, k, dim, largest, sorted, stable)
    return TopK(values, indices)


def _chosen(of: Extents, given: dict) -> None:
    """The results' shape; an error for a dimension or a number that x does not have."""
    x, k, dims = given["x"], of.k, max(1, given["x"].dim())
    if not -dims <= of.dim < dims:
        raise IndexError(f"topk: x has {x.dim()} dimensions, and none of number {of.dim}")
    of.dim %= dims
    extent = x.shape[of.dim] if x.dim() else 1
    CONTRACT.demand(k <= extent, lambda: f"k is {k}, and rows have {extent} numbers")
    of.chosen = (*x.shape[:of.dim], k, *x.shape[of.dim + 1:]) if x.dim() else ()


CONTRACT = Contract("topk", "x: float (*any)", "0 <= k -- it is 0 or more", "-> values: =x (*chosen)", "-> indices: i64 (*chosen)",
                    also=_chosen, says="torch.topk takes the other types")


def _plan(of: Extents, x: Tensor, k: int, dim: int, largest: bool, sorted: bool, stable: bool) -> Callable[..., tuple]:
    dim, shape = of.dim, of.chosen
    if prod(shape) == 0:
        return of.empty
    rows, k = _rows(x, dim), k if x.dim() else 1     # of a number without dimensions torch gives the number, for k = 0, too
    whole = dim >= x.dim() - 1
    select, by_address = _selection(rows, k, largest, sorted, stable, shape if whole else (rows.shape[0], k))
    viewed = by_address and rows.data_ptr() == x.data_ptr()
    moved = () if whole else (*x.movedim(dim, -1).shape[:-1], k)

    def plan(x: Tensor) -> tuple[Tensor, Tensor]:
        found = select(x if viewed else _rows(x, dim))
        if whole:
            return found if by_address else tuple(one.view(shape) for one in found)
        return tuple(one.view(moved).movedim(-1, dim).contiguous() for one in found)

    return plan


def _rows(x: Tensor, dim: int) -> Tensor:
    """The matrix whose rows are chosen from."""
    if x.dim() == 0:
        return x.view(1, 1)
    return x.movedim(dim, -1).reshape(-1, x.shape[dim])


Select = Callable[[Tensor], tuple[Tensor, Tensor]]


def _selection(x: Tensor, k: int, largest: bool, sorted: bool, stable: bool, shape: tuple) -> tuple[Select, bool]:
    """A function from a matrix like x to values and int64 indices of its rows. The second result is True if the
    function takes the tensor that x is a view of and gives results of `shape`; else it takes and gives matrices."""
    m, n = x.shape
    if not takes("topk", (n <= SHORT or n <= plain_topk.LONGEST and m <= FEW_ROWS) and "rows are so short that sorting is quicker",
                 another_chip(x)):
        if n > plain_topk.LONGEST < 2 * k:
            if stable:
                return lambda x: _first_sorted(x, k, largest, sorted), False
            return lambda x: torch.topk(x, k, -1, largest, sorted), False
        return _by_sorting(x, k, largest, shape), True
    if stable:
        return lambda x: (_first_sorted if n > _COUNTED else _of_equal_ones_the_first)(x, k, largest, sorted), False
    if x.stride(1) != 1:
        return lambda x: TOPK.run(x.contiguous(), k, -1, largest, sorted), False
    if streaming.streamed(m, n) and k <= streaming.MOST and n <= streaming.LONGEST:
        return _by_radix(x, k, largest, sorted, shape, True), True
    if n > LONGEST_ROW:
        return lambda x: _in_parts(x, k, largest, sorted), False
    return _by_radix(x, k, largest, sorted, shape), True


def _by_radix(x: Tensor, k: int, largest: bool, sorted: bool, shape: tuple, streamed: bool = False) -> Select:
    """Selected by one of the kernels for Hopper, then put in order."""
    m, order, found, strides = x.shape[0], None, torch.int64, contiguous(shape)
    if sorted and 1 < k <= plain_topk.LONGEST:
        found = torch.int32
        order = _by_sorting(x.new_empty(m, k), k, largest, shape, x.new_empty((m, k), dtype=found))
    empty = x.new_empty(m, k), x.new_empty((m, k), dtype=found)
    if streamed:
        launch = Launch(x, streaming.kernel, *streaming.arguments(x, None, None, *empty[::-1], largest=largest))
    else:
        launch = Launch(x, radix.kernel, *radix.arguments(x, *empty, largest=largest, nan=True))

    def select(x: Tensor) -> tuple[Tensor, Tensor]:
        values, indices = x.new_empty_strided(shape, strides), x.new_empty_strided(shape, strides, dtype=found)
        launch(x, *((indices, values) if streamed else (values, indices)))
        if order is not None:
            return order(values, indices)
        if sorted and k > 1:
            values, places = torch.sort(values, dim=-1, descending=largest, stable=True)
            indices = indices.gather(-1, places)
        return values, indices

    return select


def _by_sorting(x: Tensor, k: int, largest: bool, shape: tuple,
                places: Tensor | None = None) -> Callable[..., tuple[Tensor, Tensor]]:
    """Blocks of a row sorted, then the first of each, until one block is left."""
    m, launches = x.shape[0], []
    while True:
        count = plain_topk.blocks(x.shape[1])
        like = x.new_empty(m, count * k), x.new_empty((m, count * k), dtype=torch.int64 if count == 1 else torch.int32)
        given = tuple(shape if count == 1 else like[0].shape)
        launch = Launch(x, plain_topk.kernel, *plain_topk.arguments(x, places, *like, largest))
        launches.append((launch, given, contiguous(given), like[1].dtype))
        if count == 1:
            break
        x, places = like

    def select(values: Tensor, places: Tensor | None = None) -> tuple[Tensor, Tensor]:
        for launch, shape, strides, dtype in launches:
            out = values.new_empty_strided(shape, strides), values.new_empty_strided(shape, strides, dtype=dtype)
            launch(values, out[1] if places is None else places, *out)
            values, places = out
        return values, places

    return select


def _first_sorted(x: Tensor, k: int, largest: bool, sorted: bool) -> tuple[Tensor, Tensor]:
    """All sorted by torch, then the first."""
    values, indices = (one[:, :k] for one in torch.sort(x, dim=-1, descending=largest, stable=True))
    if sorted:
        return values.contiguous(), indices.contiguous()
    indices = indices.sort(-1).values
    return x.gather(-1, indices), indices


_COUNTED = 1 << 24      # columns that fp32 tells apart


def _of_equal_ones_the_first(x: Tensor, k: int, largest: bool, sorted: bool) -> tuple[Tensor, Tensor]:
    """The elements beyond the last one that is chosen, and of those equal to it the first: chosen by their columns."""
    last = TOPK.run(x, k, -1, largest, False)[0].sort(-1, descending=largest).values[:, -1:]
    nan, last_nan = x.isnan(), last.isnan()
    beyond = (x > last) | nan & ~last_nan if largest else (x < last) | ~nan & last_nan
    column = torch.arange(x.shape[1], device=x.device, dtype=torch.float32)
    rank = torch.where((x == last) | nan & last_nan, -column, float("-inf")).masked_fill(beyond, float("inf"))
    indices = TOPK.run(rank, k, -1, True, False)[1].sort(-1).values
    values = x.gather(-1, indices)
    if sorted:
        values, places = torch.sort(values, dim=-1, descending=largest, stable=True)
        indices = indices.gather(-1, places)
    return values, indices


def _in_parts(x: Tensor, k: int, largest: bool, sorted: bool) -> tuple[Tensor, Tensor]:
    """Rows longer than one cluster holds: of each part the k first, then of these."""
    parts = x.split(LONGEST_ROW, -1)
    if sum(min(k, part.shape[1]) for part in parts) > x.shape[1] // 2:
        return torch.topk(x, k, -1, largest, sorted)
    found = [TOPK.run(part, min(k, part.shape[1]), -1, largest, False) for part in parts]
    values = torch.cat([values for values, _ in found], -1)
    indices = torch.cat([indices + LONGEST_ROW * number for number, (_, indices) in enumerate(found)], -1)
    values, places = TOPK.run(values, k, -1, largest, sorted)
    return values, indices.gather(-1, places)


def _save(ctx, inputs, output) -> None:
    x, _, dim, *_ = (*inputs, *(-1, ) * (len(inputs) == 2))
    ctx.set_materialize_grads(False)        # places would get zeros
    ctx.mark_non_differentiable(output[1])
    ctx.save_for_backward(output[1])
    ctx.shape, ctx.dim, ctx.count = x.shape, dim, len(inputs)


def _backward(ctx, gradient: Tensor, _) -> tuple:
    """The gradient of each value goes to its place."""
    indices, = ctx.saved_tensors
    return gradient.new_zeros(ctx.shape).scatter(ctx.dim, indices, gradient), *[None] * (ctx.count - 1)


TOPK = Operator("topk(Tensor x, int k, int dim=-1, bool largest=True, bool sorted=True, bool stable=False) -> (Tensor, Tensor)",
                Planned(_plan), CONTRACT, _save, _backward)
