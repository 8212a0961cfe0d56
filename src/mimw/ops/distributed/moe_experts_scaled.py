"""The operators behind `moe_experts` and `moe` for fp8: what experts with scales make of rows with scales; tokens in fp8.

Input: rows of fp8 in blocks of experts, with a scale for each 128 numbers, and matrices with one for each 128 x 128. Output: a row
for each, of bf16 or another wide type. For example:

    narrow, scale = MOE_QUANTISED(x, "float8_e4m3fn")
    rows, ends, scale, handle = moe_dispatch(narrow, expert_ids, 256, scale=scale, block=128)
    torch.ops.mimw.moe_experts_scaled(rows, ends, w_gate_up, w_down, scale, w_gate_up_scale, w_down_scale, 128, "bfloat16")

They are operators of their own since autocast casts all of an operator's tensors, and scales are fp32.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from mimw.kernels.moe import blocked_launches, blocked_room_for, quantise_arguments

from ..contract import Contract, Extents
from ..experts_scaled import SCALES, TENSORS
from ..grouped_matmul import GROUPED
from ..launching import Launch, is_hopper, programs
from ..operator import Operator
from ..planned import Planned
from ..plans import Plans, look
from ..products import rows_for_tma
from ..steps import in_steps
from ..swiglu import SWIGLU

STEP = 128                  # numbers of a row that share a scale
BESIDE = 4                  # scales of a row are a multiple of so many: 16 bytes, as rows travel
BLOCKS = (16, 32, 64, 128)
WIDE = ("bfloat16", "float16", "float32")
CONTRACT = Contract("moe_experts", *TENSORS, *SCALES, "rows: fp8 (places, hidden)",
                    "rows.dtype == w_down.dtype -- with scales rows are of the matrices' type", "ends: i32 (experts)",
                    "scale: fp32 (places, scales)", f"offered: dtype in {WIDE} -- rows of results may be {', '.join(WIDE)}",
                    f"scales >= cdiv(hidden, {STEP}) -- there must be a scale for each {STEP} numbers of a row",
                    f"block in {BLOCKS} and places % block == 0 -- rows must be whole blocks of {', '.join(map(str, BLOCKS))} rows",
                    "-> y: dtype (places, hidden)")
TOKENS = Contract("moe", "x: float (tokens, hidden)", "dtype: fp8", "-> rows: dtype (tokens, hidden)",
                  f"-> scales: fp32 (tokens, cdiv(hidden, {STEP * BESIDE}) * {BESIDE})")


def columns_of(hidden: int) -> int:
    """How many scales travel with a row."""
    return -(-hidden // (STEP * BESIDE)) * BESIDE


# ---- tokens ---------------------------------------------------------------------------------------------------------


def _narrow(x: Tensor, dtype: str) -> tuple[Tensor, Tensor]:
    """Empty: the rows in fp8, and their scales, of which those behind the last are 0."""
    rows = x.new_empty(x.shape, dtype=getattr(torch, dtype))
    columns = columns_of(x.shape[1])
    made = x.new_empty if columns == -(-x.shape[1] // STEP) else x.new_zeros
    return rows, made((x.shape[0], columns), dtype=torch.float32)


def _plan_tokens(of: Extents, x: Tensor, dtype: str) -> Callable:
    if x.numel() == 0:
        return lambda x: _narrow(x, dtype)
    ready = _side_by_side(x)
    launch = Launch(x, *quantise_arguments(ready, *_narrow(x, dtype), programs(x)))

    def plan(x: Tensor) -> tuple[Tensor, Tensor]:
        found = _narrow(x, dtype)
        launch(_side_by_side(x), *found)
        return found

    return plan


def _side_by_side(x: Tensor) -> Tensor:
    return x if x.stride(-1) == 1 else x.contiguous()


MOE_QUANTISED = Operator("moe_quantised(Tensor x, str dtype) -> (Tensor, Tensor)", Planned(_plan_tokens), TOKENS)


# ---- experts --------------------------------------------------------------------------------------------------------


def _run(rows: Tensor, ends: Tensor, w_gate_up: Tensor, w_down: Tensor, scale: Tensor, gate_up_scale: Tensor, down_scale: Tensor,
         block: int, dtype: str, count: int = 0, drawn: bool = False, halves: tuple[int, int] | None = None) -> Tensor:
    given = rows, ends, w_gate_up, w_down, scale, gate_up_scale, down_scale
    key = *map(look, given), block, dtype, count, drawn, halves
    return (_PLANS[key] or _PLANS.made(key, given, *key[7:]))(*given)


def _plan(given: tuple[Tensor, ...], block: int, dtype: str, count: int, drawn: bool,
          halves: tuple[int, int] | None) -> Callable:
    of = CONTRACT.check(**MOE_EXPERTS_SCALED.named(*given, block, dtype))
    rows, ends, w_gate_up, w_down, scale, *of_weights = given
    hidden, inner, places, wide = of.hidden, of.inner, of.places, of.y.dtype
    if 0 in (rows.numel(), inner):
        return lambda rows, *_: rows.new_zeros(rows.shape, dtype=wide)
    aligned = rows_for_tma(w_gate_up) and rows_for_tma(w_down) and rows_for_tma(rows) and hidden % 16 == 0
    if not is_hopper(rows) or not aligned or not rows.is_contiguous() or not scale.is_contiguous():
        return lambda *given: composed(*given, wide)
    types = {None: wide, "fp8": w_down.dtype, "int32": torch.int32, "float32": torch.float32}
    sizes = {name: (shape, types[type_]) for name, (shape, type_) in blocked_room_for(places, inner, hidden, block).items()}
    names = "rows", "ends", "w_gate_up", "w_down", "scale", "gate_up_scale", "down_scale"

    def arrays_of(*given: Tensor) -> dict:
        found = dict(zip(names, given)) | {"total": given[1][-1:], "out": given[0].new_empty(places, hidden, dtype=wide)}
        for name, (shape, type_) in sizes.items():
            found[name] = given[0].new_empty(shape, dtype=type_)
        return found

    return in_steps(arrays_of, lambda arrays: blocked_launches(
        rows, scale, ends, w_gate_up, w_down, *of_weights, arrays["out"], arrays, count or programs(rows), block, drawn,
        arrays["total"], halves), *given)


_PLANS = Plans(_plan)


def composed(rows: Tensor, ends: Tensor, w_gate_up: Tensor, w_down: Tensor, scale: Tensor, gate_up_scale: Tensor,
             down_scale: Tensor, dtype: torch.dtype) -> Tensor:
    """The same by products of the wide type, with rows and matrices that are scaled first."""
    wide = (one.repeat_interleave(STEP, 1)[:, :w.shape[1]].repeat_interleave(STEP, 2)[..., :w.shape[2]]
            for w, one in zip((w_gate_up, w_down), (gate_up_scale, down_scale)))
    gate_up, down = ((w.float() * one).to(dtype) for w, one in zip((w_gate_up, w_down), wide))
    rows = (rows.float() * scale.repeat_interleave(STEP, 1)[:, :rows.shape[1]]).to(dtype)
    gate, up = GROUPED(rows, gate_up.mT, ends, None).chunk(2, 1)
    return GROUPED(SWIGLU(gate, up), down.mT, ends, None)


MOE_EXPERTS_SCALED = Operator(
    "moe_experts_scaled(Tensor rows, Tensor ends, Tensor w_gate_up, Tensor w_down, Tensor scale, Tensor w_gate_up_scale, "
    "Tensor w_down_scale, int block, str dtype, int programs=0, bool drawn=False) -> Tensor", _run, CONTRACT)


__all__ = ["MOE_EXPERTS_SCALED", "MOE_QUANTISED", "columns_of"]
