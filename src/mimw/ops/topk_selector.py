"""`mimw.ops.topk_selector`: the places of the k largest in a window of each row (the indexer of DeepSeek's sparse attention).

Input: a matrix of scores, and where each row's window begins and ends. Output: int32 places, in any order:

    places = topk_selector(scores, 2048, starts, ends)      -1 behind those of a window with fewer than 2048
    places = topk_selector(scores, 2048)                    of whole rows
    torch.ops.mimw.topk_selector(scores, starts, ends, 2048)        the operator itself
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from mimw.kernels import topk_selector as library
from mimw.kernels.topk_selector.configs import Configuration, candidates

from .contract import Contract, Extents
from .launching import Launch, is_amd, is_hopper
from .operator import Operator
from .planned import Planned

CONTRACT = Contract(
    "topk_selector", "x: fp32|bf16|fp16|fp64 (rows, length)", "starts?: int (rows)", "ends?: int (rows)",
    "(starts is None) == (ends is None) -- give both starts and ends, or neither", f"0 <= k <= {library.MOST} -- k may be 0 to "
    f"{library.MOST}", f"length <= {library.LONGEST} -- rows may have {library.LONGEST} numbers", "-> places: i32 (rows, k)")


def topk_selector(x: Tensor, k: int, starts: Tensor | None = None, ends: Tensor | None = None) -> Tensor:
    """The columns of the k largest of x[row, starts[row]:ends[row]], in any order; of equal ones any.

    args:      x       (rows, length): fp32, bf16, fp16 or fp64, which is rounded to fp32; any strides. NaN is the largest
               k       0 to 16384, also more than the length
               starts, ends   (rows), int32 or int64, cut to 0 and the length; by default whole rows
    returns:   int32 (rows, k): columns of x, then -1 where a window has fewer than k
    computed:  by `mimw.kernels.topk_selector`, on sm_90 few long rows by clusters
    errors:    RuntimeError where shapes or devices do not fit, or k is out of range; NotImplementedError for other types
    """
    return TOPK_SELECTOR(x, starts, ends, k)


def _plan(of: Extents, x: Tensor, starts: Tensor | None, ends: Tensor | None, k: int) -> Callable[..., Tensor]:
    found = of.empty(x)
    if found.numel() == 0 or x.shape[1] == 0:
        return lambda x, *_: of.empty(x).fill_(-1)
    rows, *windows = _ready(x, starts, ends)
    chosen = None if is_hopper(x) else Configuration(candidates=candidates(k), pinned=not is_amd(x))
    launch = Launch(x, library.kernel, *library.arguments(rows, *windows, found, None, chosen))

    def plan(x: Tensor, starts: Tensor | None, ends: Tensor | None) -> Tensor:
        (rows, *windows), found = _ready(x, starts, ends), of.empty(x)
        launch(rows, *(one for one in windows if one is not None), found)
        return found

    return plan


def _ready(x: Tensor, starts: Tensor | None, ends: Tensor | None) -> tuple[Tensor | None, ...]:
    """Rows side by side, of a type that the kernel takes; int32 windows."""
    x = x.float() if x.dtype is torch.float64 else x
    x = x if x.stride(1) == 1 or x.shape[1] == 1 else x.contiguous()
    return x, *(one if one is None else one.to(torch.int32).contiguous() for one in (starts, ends))


TOPK_SELECTOR = Operator("topk_selector(Tensor x, Tensor? starts, Tensor? ends, int k) -> Tensor", Planned(_plan), CONTRACT)
