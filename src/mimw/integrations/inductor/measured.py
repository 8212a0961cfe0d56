"""Which of two ways to compute a call is the quicker one, timed once for each shape, while torch.compile compiles.

Input: two functions and fake tensors. Output: True if ours was quicker. For example:

    is_quicker("mm", torch.ops.mimw.matmul.default, torch.ops.aten.mm.default, (a, b), of_gradients=False)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from math import inf
from typing import Any

import torch
from torch import Tensor

from mimw.ops.log import LOGGER, shown

from .torch_versions import with_figures_of_its_own, with_real_tensors

_FOUND: dict[tuple, bool] = {}
_WARM, _TIMED = 3, 10


def is_quicker(name: str, ours: Callable, theirs: Callable, given: tuple, of_gradients: bool = False,
               made: Mapping[int, Callable[[Tensor], Tensor]] = {}) -> bool:
    """True if `ours` takes less time than `theirs` for tensors like those in `given`.

    args:      name           of the call with all that is not in `given`; what was timed is kept by it
               given          arguments of both; fake tensors are replaced by random ones of the same shape, strides and type
               of_gradients   the time of forward and backward together
               made           number of an argument -> what makes another tensor of it, where random numbers would not do
    returns:   False, too, where an extent is symbolic: what is quicker at one extent may be slower at the next. True where theirs
               does not run at all, such as a template of torch's that fits into no SM. With MIMW_LOG=1 the log has both times
    """
    tensors = [one for one in given if isinstance(one, Tensor)]
    if not all(isinstance(extent, int) for one in tensors for extent in (*one.shape, *one.stride())):
        return False
    key = (name, of_gradients, torch.get_float32_matmul_precision(),
           *((tuple(x.shape), x.stride(), x.dtype, x.device) if isinstance(x, Tensor) else x for x in given))
    if key not in _FOUND:
        with with_real_tensors(), torch.set_grad_enabled(of_gradients):
            real = tuple(_like(one, of_gradients) if isinstance(one, Tensor) else one for one in given)
            real = tuple(made[at](one) if at in made else one for at, one in enumerate(real))
            by_ours, by_torch = (_seconds_or_never(one, real, of_gradients) for one in (ours, theirs))
        if by_ours == by_torch == inf:
            return False        # what is wrong with the call torch says itself
        _FOUND[key] = by_ours < by_torch
        LOGGER.info("torch.compile, %s(%s): mimw %.1f us, torch %.1f us", name.partition("\n")[0], shown(given), 1e6 * by_ours,
                    1e6 * by_torch)
    return _FOUND[key]


def forget() -> None:
    """Time again what was timed."""
    _FOUND.clear()


def seconds(function: Callable, given: tuple, of_gradients: bool) -> float:
    """The time of a call on the GPU that holds the tensors: the mean of ten, after three that count not."""
    device = next(one.device for one in given if isinstance(one, Tensor))
    with torch.cuda.device(device), while_torch_compiles():
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        for call in range(_WARM + _TIMED):
            if call == _WARM:
                start.record()
            result = function(*given)
            if of_gradients:
                result.backward(torch.ones_like(result), inputs=[x for x in given if isinstance(x, Tensor) and x.requires_grad])
        end.record()
        end.synchronize()
    return start.elapsed_time(end) / _TIMED / 1e3


def _seconds_or_never(function: Callable, given: tuple, of_gradients: bool) -> float:
    """The time; infinite for a function that does not compile or run, of which the log has the error."""
    try:
        return seconds(function, given, of_gradients)
    except Exception as error:
        LOGGER.info("torch.compile, while it was timed: %s: %s", type(error).__name__, str(error).strip().partition("\n")[0])
        return inf


@contextmanager
def while_torch_compiles() -> Iterator[None]:
    """Inside, a function that torch.compile has made may be called, forward and backward, while torch compiles another one.

    Gradients run in this thread, which holds torch's lock of compiling: such a function compiles its backward pass at the first
    call, and would wait for that lock in autograd's own thread, as this thread for the gradients."""
    with torch.autograd.set_multithreading_enabled(False), with_figures_of_its_own():
        yield


def _like(fake: Tensor, of_gradients: bool) -> Any:
    real = torch.empty_strided(fake.shape, fake.stride(), dtype=fake.dtype, device=fake.device)
    if not fake.dtype.is_floating_point:
        return real.fill_(1) if fake.dtype is torch.bool else real.zero_()
    return real.normal_().requires_grad_(of_gradients)


__all__ = ["forget", "is_quicker", "seconds", "while_torch_compiles"]
