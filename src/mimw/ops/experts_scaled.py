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

from .experts import checked, composed, planned
from .launching import is_hopper, programs
from .matmul import FP8
from .moe_align import MOST_EXPERTS
from .operator import Operator
from .plans import Plans, look
from .products import rows_for_tma

BLOCK = 128


def _checked(x: Tensor, w_gate_up: Tensor, w_down: Tensor, ids: Tensor, weights: Tensor, gate_up_scale: Tensor, down_scale: Tensor,
             activation: str) -> None:
    checked(x, w_gate_up, w_down, ids, weights, activation, FP8)
    if w_gate_up.dtype != w_down.dtype:
        raise RuntimeError(f"moe: w_gate_up is {w_gate_up.dtype} and w_down {w_down.dtype}; with scales both are of one fp8 type")
    experts, hidden, inner = w_down.shape
    torch._check(inner % BLOCK == 0, lambda: f"moe: inner is {inner}; with scales it must be a multiple of {BLOCK}")
    wanted = dict(w_gate_up_scale=(experts, 2 * inner // BLOCK, -(-hidden // BLOCK)),
                  w_down_scale=(experts, -(-hidden // BLOCK), inner // BLOCK))
    for (name, shape), scale in zip(wanted.items(), (gate_up_scale, down_scale)):
        if scale.dtype is not torch.float32 or scale.device != x.device:
            raise RuntimeError(f"moe: {name} is {scale.dtype} on {scale.device}; it must be torch.float32 on {x.device}")
        torch._check(tuple(scale.shape) == shape, lambda: f"moe: {name} is {tuple(scale.shape)}; it must be {shape}")


def _fake(x: Tensor, w_gate_up: Tensor, w_down: Tensor, ids: Tensor, weights: Tensor, gate_up_scale: Tensor, down_scale: Tensor,
          activation: str = "swiglu") -> Tensor:
    _checked(x, w_gate_up, w_down, ids, weights, gate_up_scale, down_scale, activation)
    return torch.empty(x.shape, dtype=x.dtype, device=x.device)


def _run(x: Tensor, w_gate_up: Tensor, w_down: Tensor, ids: Tensor, weights: Tensor, gate_up_scale: Tensor, down_scale: Tensor,
         activation: str = "swiglu") -> Tensor:
    given = x if x.stride(-1) == 1 else x.contiguous(), w_gate_up, w_down, ids, weights, gate_up_scale, down_scale
    key = *map(look, given), activation
    return (_PLANS[key] or _PLANS.made(key, given, activation))(*given)


def _plan(given: tuple[Tensor, ...], activation: str) -> Callable[..., Tensor]:
    _checked(*given, activation)
    x, w_gate_up, w_down, ids, *_ = given
    (experts, hidden, inner), (tokens, k) = w_down.shape, ids.shape
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
                      'Tensor w_gate_up_scale, Tensor w_down_scale, str activation="swiglu") -> Tensor', _run, _fake)
