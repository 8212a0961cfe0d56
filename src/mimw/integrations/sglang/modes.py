"""Modes of SGLang, and of the GPU, in which hooks leave all calls to it.

Input: a tensor of a call. Output: a reason, or None. For example:

    reason(x)               "results are to be the same in every batch" under --enable-deterministic-inference
"""

from __future__ import annotations

from torch import Tensor

from mimw.integrations.contracts import names_of
from mimw.ops.chips import is_hopper

_PLACE = "sglang.srt.batch_invariant_ops.batch_invariant_ops"
STANDS_ON = names_of(f"{_PLACE}:", "is_batch_invariant_mode_enabled")


def reason(x: Tensor, sm_90: bool = False) -> str | None:
    """The reason why SGLang computes all calls like this one; `sm_90` asks for that chip, too."""
    if batch_invariant():
        return "results are to be the same in every batch"
    if sm_90 and x.is_cuda and not is_hopper(x):
        return "the GPU is no sm_90"
    return None


def batch_invariant() -> bool:
    """True where SGLang promises the same bits in every batch."""
    from sglang.srt.batch_invariant_ops.batch_invariant_ops import is_batch_invariant_mode_enabled
    return is_batch_invariant_mode_enabled()


__all__ = ["STANDS_ON", "batch_invariant", "reason"]
