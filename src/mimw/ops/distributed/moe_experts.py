"""`mimw.ops.distributed.moe_experts`: what this rank's experts make of dispatched rows, by expert or where they have come.

Input: rows in blocks of experts, or numbers of rows, and the matrices of this rank's experts. Output: a row for each. For example:

    block = block_of(4096 * 8, 128)                                         32768 rows of 128 experts: blocks of 128
    rows, ends, _, handle = moe_dispatch(x, expert_ids, 256, block=block)
    out = moe_combine(moe_experts(rows, ends, w_gate_up, w_down, block), handle, weights)
    torch.ops.mimw.moe_experts(rows, ends, w_gate_up, w_down, None, 128)    the operator itself; with scales moe_experts_scaled
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor

from mimw.kernels.moe import configuration, product
from mimw.kernels.moe.gathered import BM, gathered_product

from ..contract import Contract
from ..grouped_matmul import GROUPED
from ..launching import is_exact, is_hopper, programs
from ..operator import Operator
from ..plans import Plans, look
from ..products import rows_for_tma
from ..steps import in_steps
from ..swiglu import SWIGLU
from .moe_experts_scaled import MOE_EXPERTS_SCALED

BLOCKS = {16: 8, 32: 22, 64: 40, BM: 128}       # rows a block, and rows of an expert that its configuration is for
CONTRACT = Contract(
    "moe_experts", "rows: float (held, hidden)", "w_down: =rows (experts, hidden, inner)",
    "w_gate_up: =rows (experts, 2 * inner, hidden)",
    "ends: i32 (experts)", "sources?: i32 (listed)",
    f"block in {tuple(BLOCKS)} and (sources is None or block == {BM}) and (held if sources is None else listed) % block == 0 -- "
    f"rows must be whole blocks of {', '.join(map(str, BLOCKS))} rows, with sources {BM}",
    "-> y: =rows (held if sources is None else listed, hidden)")


def block_of(rows: int, experts: int) -> int:
    """How many rows a block should have, for so many rows in all of so many experts."""
    return configuration(max(1, rows), experts).bm


def moe_experts(rows: Tensor, ends: Tensor, w_gate_up: Tensor, w_down: Tensor, block: int, sources: Tensor | None = None, *,
                scale: Tensor | None = None, w_gate_up_scale: Tensor | None = None, w_down_scale: Tensor | None = None,
                dtype: torch.dtype = torch.bfloat16, programs: int = 0) -> Tensor:
    """y[i] = w_down[e] (silu(gate) up), where e is the expert of row i, and gate and up are the halves of w_gate_up[e] times row i,
    which is rows[i], or rows[sources[i]].

    args:      rows, ends      of `moe_dispatch`, or of `moe_dispatch_rows` with its sources: bf16, fp16 or fp32
               w_gate_up       (experts of this rank, 2 inner, hidden) of rows' type, gates first
               w_down          (experts of this rank, hidden, inner) of rows' type
               block           that of the dispatch: 16, 32, 64 or 128, with sources 128; as `block_of` says
                               Or rows and matrices of one fp8 type, e4m3 or e5m2, without sources, inner a multiple of 128, with
               scale           fp32, what each 128 numbers of a row count: (rows, cdiv(hidden, 128)), or more columns, which are of
                               no use: as they came with the rows
               w_gate_up_scale, w_down_scale   fp32, any strides: (experts, 2 inner / 128, cdiv(hidden, 128)) and (experts,
                               cdiv(hidden, 128), inner / 128)
               dtype           of the result where there are scales: bf16, fp16 or fp32
               programs        multiprocessors that the products may have, 0 for all: others may have a launch beside them
    returns:   (as many as rows, or as sources; hidden) of rows' type, or of `dtype`. What is behind the last block, or only fills
               one up, is of no use
    computed:  on sm_90 by the two products of `mimw.kernels.moe`, where TMA can read the matrices: gate and up are never written.
               Threads copy rows by number to where the tensor cores read them, which costs the first product 17 %, more than
               copying the rows before does: sources are for rows that cannot be copied. With scales a launch before turns those of
               the rows around, one between the products quantises gate times up, 128 numbers a scale; sums of 128 of K are scaled
               and added in fp32. A row's bits depend on that row alone, not on block or programs. Else, and for fp32 while
               torch.get_float32_matmul_precision() is "highest", by `grouped_matmul`. Nothing waits for the device
    gradients  none
    errors:    RuntimeError where extents, types or devices do not fit; NotImplementedError for other types
    """
    scales = scale, w_gate_up_scale, w_down_scale
    if scales == (None, None, None):
        return MOE_EXPERTS(rows, ends, w_gate_up, w_down, sources, block, programs)
    if any(one is None for one in scales) or sources is not None:
        raise RuntimeError("moe_experts: scale, w_gate_up_scale and w_down_scale belong together, without sources")
    return MOE_EXPERTS_SCALED(rows, ends, w_gate_up, w_down, *scales, block, str(dtype).removeprefix("torch."), programs)


def _run(rows: Tensor, ends: Tensor, w_gate_up: Tensor, w_down: Tensor, sources: Tensor | None, block: int,
         count: int = 0) -> Tensor:
    given, exact = (rows, ends, w_gate_up, w_down), is_exact(rows)
    key = *map(look, given), block, None if sources is None else look(sources), exact, count
    plan = _PLANS[key]
    if plan is None:    # one that is made while a graph is recorded holds numbers that are there at replays alone
        made = _plan if rows.is_cuda and torch.cuda.is_current_stream_capturing() else partial(_PLANS.made, key)
        plan = made(*given, sources, block, exact, count)
    return plan(*given, sources)


def _plan(rows: Tensor, ends: Tensor, w_gate_up: Tensor, w_down: Tensor, sources: Tensor | None, block: int,
          exact: bool, count: int) -> Callable:
    of = CONTRACT.check(rows=rows, ends=ends, w_gate_up=w_gate_up, w_down=w_down, sources=sources, block=block)
    hidden, inner, size = of.hidden, of.inner, rows.itemsize
    places, _ = of.y.shape
    if 0 in (rows.numel(), places, inner):
        return lambda rows, *_: rows.new_zeros(places, hidden)
    aligned = rows_for_tma(w_gate_up) and rows_for_tma(w_down) and hidden * size % 16 == inner * size % 16 == 0
    if exact or not is_hopper(rows) or not aligned or not rows.is_contiguous():
        return composed
    multiprocessors, chosen = count or programs(rows), configuration(BLOCKS[block], 1)
    begins = torch.arange(0, places, block, dtype=torch.int32, device=rows.device)

    def arrays_of(rows: Tensor, ends: Tensor, w_gate_up: Tensor, w_down: Tensor, sources: Tensor | None) -> dict:
        return dict(rows=rows, w_gate_up=w_gate_up, w_down=w_down, sources=sources, held=rows.new_empty(places, inner),
                    out=rows.new_empty(places, hidden), total=ends[-1:],
                    experts=torch.searchsorted(ends, begins, right=True, out_int32=True))

    def make(arrays: dict) -> list[tuple]:
        lists = arrays["experts"] if sources is None else sources, arrays["experts"], arrays["total"]
        if sources is None:
            first = product(rows, w_gate_up, arrays["held"], *lists, 1, inner, places, multiprocessors, chosen, True, False)
        else:
            first = gathered_product(rows, w_gate_up, arrays["held"], *lists, multiprocessors)
        second = product(arrays["held"], w_down, arrays["out"], *lists, 1, hidden, places, multiprocessors, chosen, False, False)
        return [first, second]

    return in_steps(arrays_of, make, rows, ends, w_gate_up, w_down, sources)


_PLANS = Plans(_plan)


def composed(rows: Tensor, ends: Tensor, w_gate_up: Tensor, w_down: Tensor, sources: Tensor | None) -> Tensor:
    """The same by operators of the parts."""
    if sources is not None:
        rows = rows.index_select(0, sources.clamp(0, len(rows) - 1))
    gate, up = GROUPED(rows, w_gate_up.mT, ends, None).chunk(2, 1)
    return GROUPED(SWIGLU(gate, up), w_down.mT, ends, None)


MOE_EXPERTS = Operator("moe_experts(Tensor rows, Tensor ends, Tensor w_gate_up, Tensor w_down, Tensor? sources, int block, "
                       "int programs=0) -> Tensor", _run, CONTRACT)


__all__ = ["BLOCKS", "MOE_EXPERTS", "block_of", "moe_experts"]
