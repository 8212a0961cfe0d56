"""The operator behind `mimw.ops.moe` for fp8 weights with a scale for each 128 x 128.

Input: what `moe` takes, with both scales. Output: a row for each token. For example:

    y = moe(x, w_gate_up, w_down, ids, weights, w_gate_up_scale=gate_up_scale, w_down_scale=down_scale)
    torch.ops.mimw.moe_scaled(x, w_gate_up, w_down, ids, weights, gate_up_scale, down_scale)        the operator itself

It is an operator of its own since autocast casts all of an operator's tensors, and scales are fp32.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from mimw.kernels import moe as library

from .contract import Contract
from .experts import FLOPS, ROUTES, composed, planned
from .launching import is_hopper, programs
from .moe_align import MOST_EXPERTS
from .operator import Operator
from .plans import Plans, look
from .products import rows_for_tma

BLOCK = 128
TENSORS = (
    "w_down: fp8 (experts, hidden, inner)", "w_gate_up: fp8 (experts, 2 * inner, hidden)",
    "w_gate_up.dtype == w_down.dtype -- with scales both are of one fp8 type",
    f"inner % {BLOCK} == 0 -- with scales inner must be a multiple of {BLOCK}")
SCALES = (f"w_gate_up_scale: fp32 (experts, 2 * inner // {BLOCK}, cdiv(hidden, {BLOCK}))",
          f"w_down_scale: fp32 (experts, cdiv(hidden, {BLOCK}), inner // {BLOCK})")
CONTRACT = Contract("moe", "x: float (tokens, hidden)", *TENSORS, *SCALES, *ROUTES, "-> out: =x (tokens, hidden)", flops=FLOPS)


def _run(x: Tensor, w_gate_up: Tensor, w_down: Tensor, ids: Tensor, weights: Tensor, gate_up_scale: Tensor, down_scale: Tensor,
         activation: str = "swiglu") -> Tensor:
    given = x if x.stride(-1) == 1 else x.contiguous(), w_gate_up, w_down, ids, weights, gate_up_scale, down_scale
    key = *map(look, given), activation
    return (_PLANS[key] or _PLANS.made(key, given, activation))(*given)


def _plan(given: tuple[Tensor, ...], activation: str) -> Callable[..., Tensor]:
    of = CONTRACT.check(**MOE_SCALED.named(*given, activation))
    x, w_gate_up, w_down, ids, *_ = given
    experts, hidden, inner, tokens, k = of.experts, of.hidden, of.inner, of.tokens, of.k
    if 0 in (tokens, k, hidden, inner):
        return lambda x, *_: torch.zeros(x.shape, dtype=x.dtype, device=x.device)
    aligned = rows_for_tma(w_gate_up) and rows_for_tma(w_down) and hidden % 16 == 0
    if not is_hopper(x) or not aligned or experts > MOST_EXPERTS or tokens * k + experts * 128 >= 1 << 31:
        return _composed
    types = {None: x.dtype, "fp8": w_down.dtype, "int32": torch.int32, "float32": torch.float32}
    rooms = {name: (shape, types[type_])
             for name, (shape, type_) in library.scaled_room_for(tokens, k, experts, inner, hidden).items()}

    def make(arrays: list[Tensor], out: Tensor, work: dict) -> list[tuple]:
        x, w_gate_up, w_down, ids, weights, *scales = arrays
        return library.scaled_launches(x, w_gate_up, w_down, *scales, ids, weights, out, work, programs(x))

    return planned(given, 3, rooms, make)


def _composed(x: Tensor, w_gate_up: Tensor, w_down: Tensor, ids: Tensor, weights: Tensor, *scales: Tensor) -> Tensor:
    """The same by products of x's type, with matrices that are scaled first."""
    wide = (scale.repeat_interleave(BLOCK, 1)[:, :w.shape[1]].repeat_interleave(BLOCK, 2)[..., :w.shape[2]]
            for w, scale in zip((w_gate_up, w_down), scales))
    return composed(x, *((w.float() * scale).to(x.dtype) for w, scale in zip((w_gate_up, w_down), wide)), ids, weights)


_PLANS = Plans(_plan)

MOE_SCALED = Operator("moe_scaled(Tensor x, Tensor w_gate_up, Tensor w_down, Tensor expert_ids, Tensor expert_weights, "
                      'Tensor w_gate_up_scale, Tensor w_down_scale, str activation="swiglu") -> Tensor', _run, CONTRACT)
