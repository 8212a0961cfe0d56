"""Weights of e4m3 that are held between calls: for inference, where a weight stays as it is from one call to the next.

Input: the weight of a linear layer, and the type in which it is quantised. Output: `quantised(weight)`, computed once. For example:

    small, scale = of(layer.weight, torch.bfloat16)         the second time the same two tensors, if nobody has changed the weight
    forget(layer.weight)                                    forget() is for all weights

A weight is known to be the same by torch's version counter, its storage, its place in this and its type. Two writers leave the
counter as it is: fused optimizers, behind whose step all is forgotten, and writes through `weight.data`, which nothing shows: so a
layer holds its weight only if its owner asks for that.
"""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.multiprocessing.reductions import StorageWeakRef
from torch.optim.optimizer import register_optimizer_step_post_hook
from torch.utils._python_dispatch import _len_torch_dispatch_stack
from torch.utils.weak import WeakTensorKeyDictionary

from .fp8 import quantised

_HELD = WeakTensorKeyDictionary()
_PLAIN = frozenset((Tensor, torch.nn.Parameter))


class _Held(NamedTuple):
    key: tuple[Any, ...]
    storage: StorageWeakRef         # while it is there, no other storage gets this one's number
    made: tuple[Tensor, Tensor]


def of(weight: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor] | None:
    """`quantised(weight.to(dtype))`, held until the weight changes; None where what is held could be used for another weight: in a
    graph that is being traced or captured, in modes and transforms of torch, and for a weight of inference mode, whose changes
    torch does not count."""
    if torch.compiler.is_compiling() or not _counts(weight):
        return None
    stream = torch.cuda.current_stream(weight.device).cuda_stream if weight.is_cuda else 0
    key = (weight._version, weight.untyped_storage()._cdata, weight.data_ptr(), weight.shape, weight.stride(), weight.dtype, dtype,
           stream)
    held = _HELD.get(weight)
    if held is None or held.key != key or held.storage.expired():
        with torch.inference_mode(False), torch.no_grad():
            held = _Held(key, StorageWeakRef(weight.untyped_storage()), quantised(weight.to(dtype)))
        _forget_behind_optimizers()
        _HELD[weight] = held
    return held.made


def _counts(weight: Tensor) -> bool:
    """True if a change of the weight can be seen, and what is made of it is a tensor of its own."""
    return (type(weight) in _PLAIN and weight.is_leaf and not weight.is_inference() and not weight.is_meta
            and _len_torch_dispatch_stack() == 0 and not torch.jit.is_tracing()
            and torch._C._functorch.peek_interpreter_stack() is None
            and not (weight.is_cuda and torch.cuda.is_current_stream_capturing()))


def forget(weight: Tensor | None = None) -> None:
    """Let the next call quantise this weight anew, or all of them."""
    if weight is None:
        _HELD.clear()
    else:
        _HELD.pop(weight, None)


@cache
def _forget_behind_optimizers() -> None:
    register_optimizer_step_post_hook(lambda *_: forget())


__all__ = ["forget", "of"]
