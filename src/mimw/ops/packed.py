"""Where packed sequences begin and end, as numbers of the host, which waits for them once a tensor.

Input: cu_seqlens, a tensor of integers. Output: its numbers. For example:

    ends = ends_of(CONTRACT, cu_seqlens, 500)       (0, 70, 500); RuntimeError unless they ascend from 0 to at most 500

Layers of one model are called with the same tensor: the numbers of the last few are kept, as long as the tensor lives and torch has
written nothing into it.
"""

from __future__ import annotations

from weakref import ref

from torch import Tensor

from .contract import Contract

_KEPT: list[tuple[ref, int, tuple[int, ...]]] = []      # the tensor, its version, its numbers
_MOST = 8


def ends_of(contract: Contract, cu_seqlens: Tensor | None, length: int) -> tuple[int, ...] | None:
    """The numbers; None of None.

    errors:    RuntimeError unless they ascend from 0 to at most `length`
    """
    if cu_seqlens is None:
        return None
    ends = _numbers(cu_seqlens)
    ascend = ends[0] == 0 and ends[-1] <= length and all(one <= other for one, other in zip(ends, ends[1:]))
    shown = list(ends) if len(ends) <= 12 else f"[{', '.join(map(str, ends[:6]))}, ..., {ends[-1]}]"
    contract.demand(ascend, lambda: f"cu_seqlens is {shown}; it must ascend from 0, and end at {length} rows or before")
    return ends


def _numbers(tensor: Tensor) -> tuple[int, ...]:
    if not tensor.is_cuda or tensor.is_inference():     # there is nothing to wait for, or no version
        return tuple(tensor.tolist())
    for kept, version, numbers in _KEPT:
        if kept() is tensor and version == tensor._version:
            return numbers
    numbers = tuple(tensor.tolist())
    _KEPT.append((ref(tensor), tensor._version, numbers))
    del _KEPT[:-_MOST]
    return numbers


__all__ = ["ends_of"]
