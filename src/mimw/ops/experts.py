"""The operator behind `mimw.ops.moe`, with its derivative; and what it shares with the one for fp8 weights (experts_scaled.py).

Input: tokens, the experts' matrices, and for each token its experts and their weights. Output: a row for each token. For example:

    MOE(x, w_gate_up, w_down, expert_ids, expert_weights)       the same as torch.ops.mimw.moe(...)
    arrays_for(of, rooms, names)(x, ...)                        the arrays of a call by name
    composed(x, w_gate_up, w_down, expert_ids, expert_weights)  by the operators of the parts
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import torch
from torch import Tensor

from mimw.kernels import moe as library

from .contract import Contract, Extents
from .grouped_matmul import GROUPED, PER_GROUP
from .launching import is_exact, programs
from .moe_align import MOST_EXPERTS
from .notes import another_chip, takes
from .operator import LOWER, Operator
from .planned import Planned
from .products import rows_for_tma
from .steps import in_steps
from .swiglu import SWIGLU, SWIGLU_BACKWARD

ACTIVATION = "offered: activation in ('swiglu', ) -- it may be 'swiglu'; for others compose grouped_matmul"
ROUTES = "expert_ids: int (tokens, k)", "expert_weights: float (tokens, k)", ACTIVATION, (
    "experts > 0 or tokens * k == 0 -- there are no experts to choose from")
FLOPS = "6 * tokens * k * hidden * inner"
CONTRACT = Contract("moe", "x: float (tokens, hidden)", "w_down: =x (experts, hidden, inner)",
                    "w_gate_up: =x (experts, 2 * inner, hidden)", *ROUTES, "-> out: =x (tokens, hidden)", flops=FLOPS)


def _plan(of: Extents, x: Tensor, w_gate_up: Tensor, w_down: Tensor, ids: Tensor, weights: Tensor, activation: str,
          exact: bool) -> Callable:
    experts, hidden, inner, tokens, k = of.experts, of.hidden, of.inner, of.tokens, of.k
    if 0 in (tokens, k, hidden, inner):
        return lambda x, *_: of.empty(x).zero_()
    aligned = rows_for_tma(w_gate_up) and rows_for_tma(w_down) and hidden * x.itemsize % 16 == inner * x.itemsize % 16 == 0
    if not takes("moe", another_chip(x), exact and "fp32 is to be exact (torch.get_float32_matmul_precision)", not aligned and
                 "TMA cannot read the tensors as they lie",
                 experts > MOST_EXPERTS and f"there are more than {MOST_EXPERTS} experts",
                 tokens * k + experts * 256 >= 1 << 31 and "there are too many rows"):
        return composed
    shapes = library.room_for(tokens, k, experts, inner, hidden)
    rooms = {name: (shape, x.dtype if name in ("inner", "rows") else torch.int32) for name, shape in shapes.items()}
    names = "x", "w_gate_up", "w_down", "expert_ids", "expert_weights"
    return in_steps(arrays_for(of, rooms, names), lambda arrays: library.launches(
        *(arrays[name] for name in (*names, "out")), arrays, programs(x)), x, w_gate_up, w_down, ids, weights)


def arrays_for(of: Extents, rooms: dict[str, tuple], names: Iterable[str]) -> Callable[..., dict[str, Tensor]]:
    """A function that gives the arrays of a call: what is given, by these names, with x and the ids as kernels read them; the
    result; and rooms of these shapes and types, of which those of int32 are cut out of one, each at a multiple of 16 bytes."""
    lists = {name: shape[0] for name, (shape, type_) in rooms.items() if type_ is torch.int32}
    sizes = [size for length in lists.values() for size in (length, -length % 4)]
    wide = {name: room for name, room in rooms.items() if name not in lists}

    def arrays_of(*given: Tensor) -> dict[str, Tensor]:
        found, x = dict(zip(names, given)), given[0]
        found |= dict(x=x if x.stride(-1) == 1 else x.contiguous(), expert_ids=found["expert_ids"].contiguous(), out=of.empty(x))
        found.update(zip(lists, torch.empty(sum(sizes), dtype=torch.int32, device=x.device).split_with_sizes(sizes)[::2]))
        for name, (shape, type_) in wide.items():
            found[name] = torch.empty(shape, dtype=type_, device=x.device)
        return found

    return arrays_of


def _by_expert(ids: Tensor, experts: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """(the slots in the order of experts, the tokens of these, where each slot is among them, where experts end)."""
    flat = ids.flatten().long()
    _, order = torch.sort(flat, stable=True)
    back = torch.empty_like(order).scatter_(0, order, torch.arange(order.shape[0], device=ids.device))
    counts = torch.zeros(experts, dtype=torch.int64, device=ids.device).scatter_add_(0, flat, torch.ones_like(flat))
    return order, order // ids.shape[1], back, counts.cumsum(0).to(torch.int32)


def _summed(rows: Tensor, back: Tensor, k: int, weights: Tensor | None = None) -> Tensor:
    """For each token the sum of its k rows, in fp32, in their order."""
    mine = rows.index_select(0, back).view(-1, k, rows.shape[1]).float()
    return (mine if weights is None else mine * weights.float()[..., None]).sum(1).to(rows.dtype)


def composed(x: Tensor, w_gate_up: Tensor, w_down: Tensor, ids: Tensor, weights: Tensor) -> Tensor:
    """The same by the operators of its parts."""
    _, tokens, back, ends = _by_expert(ids, w_down.shape[0])
    gate, up = GROUPED(x.index_select(0, tokens), w_gate_up.mT, ends, None).chunk(2, 1)
    return _summed(GROUPED(SWIGLU(gate, up), w_down.mT, ends, None), back, ids.shape[1], weights)


def _backward(ctx, gradient: Tensor) -> tuple:
    """Rows are a token's for one of its experts, in the order of experts; with y = w_down h of such a row and weight w,
    dh = w w_down^T dout, dw = dout . y = (w_down^T dout) . h, and the rest is that of two products."""
    x, w_gate_up, w_down, ids, weights = ctx.saved_tensors
    of_x, of_gate_up, of_down, _, of_weights = ctx.needs_input_grad[:5]
    order, tokens, back, ends = _by_expert(ids, w_down.shape[0])
    rows = x.index_select(0, tokens)
    gate, up = GROUPED(rows, w_gate_up.mT, ends, None).chunk(2, 1)
    h = SWIGLU(gate, up)
    dy = gradient.to(x.dtype).index_select(0, tokens)
    weight = weights.flatten().index_select(0, order)[:, None]
    dh = GROUPED(dy, w_down, ends, None)
    dweights = ddown = dgate_up = dx = None
    if of_weights:
        dots = (dh.float() * h.float()).sum(1)
        dweights = dots.index_select(0, back).view(ids.shape).to(weights.dtype)
    if of_down:
        ddown = PER_GROUP((dy * weight).to(x.dtype), h, ends)
    if of_x or of_gate_up:
        dboth = torch.cat(SWIGLU_BACKWARD(gate, up, (dh * weight).to(x.dtype)), 1)
        dgate_up = PER_GROUP(dboth, rows, ends) if of_gate_up else None
        dx = _summed(GROUPED(dboth, w_gate_up, ends, None), back, ids.shape[1]) if of_x else None
    return dx, dgate_up, ddown, None, dweights, None


MOE = Operator('moe(Tensor x, Tensor w_gate_up, Tensor w_down, Tensor expert_ids, Tensor expert_weights, str activation="swiglu") '
               "-> Tensor", Planned(_plan, is_exact), CONTRACT,
               lambda ctx, inputs, output: ctx.save_for_backward(*inputs[:5]), _backward, LOWER, kept=("expert_weights", ))


__all__ = ["FLOPS", "MOE", "ROUTES", "arrays_for", "composed"]
