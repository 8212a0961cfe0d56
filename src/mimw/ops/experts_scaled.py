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

from .contract import Contract, Extents
from .experts import FLOPS, ROUTES, arrays_for, composed
from .launching import programs
from .moe_align import MOST_EXPERTS
from .notes import another_chip, takes
from .operator import Operator
from .planned import Planned
from .products import rows_for_tma
from .steps import in_steps

BLOCK = 128
TENSORS = ("w_down: fp8 (experts, hidden, inner)", "w_gate_up: fp8 (experts, 2 * inner, hidden)",
           "w_gate_up.dtype == w_down.dtype -- with scales both are of one fp8 type",
           f"inner % {BLOCK} == 0 -- with scales inner must be a multiple of {BLOCK}")
SCALED = "w_gate_up_scale", "w_down_scale"
SCALES = (f"{SCALED[0]}: fp32 (experts, 2 * inner // {BLOCK}, cdiv(hidden, {BLOCK}))",
          f"{SCALED[1]}: fp32 (experts, cdiv(hidden, {BLOCK}), inner // {BLOCK})")
CONTRACT = Contract("moe", "x: float (tokens, hidden)", *TENSORS, *SCALES, *ROUTES, "-> out: =x (tokens, hidden)", flops=FLOPS)


def _plan(of: Extents, *given) -> Callable[..., Tensor]:
    x, w_gate_up, w_down, *_ = tensors = given[:-1]
    experts, hidden, inner, tokens, k = of.experts, of.hidden, of.inner, of.tokens, of.k
    if 0 in (tokens, k, hidden, inner):
        return lambda x, *_: of.empty(x).zero_()
    aligned = rows_for_tma(w_gate_up) and rows_for_tma(w_down) and hidden % 16 == 0
    if not takes("moe", another_chip(x), not aligned and
                 "TMA cannot read the tensors as they lie",
                 experts > MOST_EXPERTS and f"there are more than {MOST_EXPERTS} experts",
                 tokens * k + experts * 128 >= 1 << 31 and "there are too many rows"):
        return _composed
    types = {None: x.dtype, "fp8": w_down.dtype, "int32": torch.int32, "float32": torch.float32}
    rooms = {name: (shape, types[type_])
             for name, (shape, type_) in library.scaled_room_for(tokens, k, experts, inner, hidden).items()}
    names, order = list(MOE_SCALED.named())[:7], ("x", "w_gate_up", "w_down", *SCALED, "expert_ids", "expert_weights", "out")
    return in_steps(arrays_for(of, rooms, names), lambda arrays: library.scaled_launches(
        *(arrays[name] for name in order), arrays, programs(x)), *tensors)


def _composed(x: Tensor, w_gate_up: Tensor, w_down: Tensor, ids: Tensor, weights: Tensor, *scales: Tensor) -> Tensor:
    """The same by products of x's type, with matrices that are scaled first."""
    wide = (scale.repeat_interleave(BLOCK, 1)[:, :w.shape[1]].repeat_interleave(BLOCK, 2)[..., :w.shape[2]]
            for w, scale in zip((w_gate_up, w_down), scales))
    return composed(x, *((w.float() * scale).to(x.dtype) for w, scale in zip((w_gate_up, w_down), wide)), ids, weights)


MOE_SCALED = Operator("moe_scaled(Tensor x, Tensor w_gate_up, Tensor w_down, Tensor expert_ids, Tensor expert_weights, "
                      'Tensor w_gate_up_scale, Tensor w_down_scale, str activation="swiglu") -> Tensor', Planned(_plan), CONTRACT)
