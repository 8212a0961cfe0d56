"""Tensors that stand for a call's while it is explained: shape, strides, type and alignment, and no data.

Input: a tensor, also of torch's device `meta` or a fake one. Output: one of this class. For example:

    x = stand_in(torch.empty(4096, 4096, device="meta"))
    x.T.contiguous()            a stand-in, too; that torch would copy here is noted (Asked.steps)
    x.data_ptr()                differs for tensors of different memory, so that plans see what is a view and what a copy

Operators of mimw that get one run as they would for a tensor of the CPU, with the chip that is asked about.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor

from .chips import asked
from .log import shown_type

# What makes memory, but no work that counts.
_NO_WORK = frozenset(("new_empty", "new_empty_strided", "empty_like", "as_subclass", "stride", "size", "dim", "numel"))


class Unknown(RuntimeError):
    """The work of a call goes by numbers that a tensor without data does not have."""


class StandIn(Tensor):
    """A tensor of torch's device `meta`, with addresses, and with the data of the tensor that it stands for where that has some."""

    data: Any
    _real: Tensor | None = None

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        name = getattr(func, "__name__", "")
        if getattr(func, "namespace", None) == "mimw":
            return _operator(func, args, kwargs)
        if name == "tolist":
            return _numbers(args[0])
        result = super().__torch_function__(func, types, args, kwargs)
        call = asked()
        if call is not None and name not in _NO_WORK:
            made = [one for one in (result if isinstance(result, tuple) else (result, )) if isinstance(one, StandIn)]
            given = {_memory(one) for one in args if isinstance(one, StandIn)}
            if made and (name.endswith("_") and name != "__getitem__" or not given.issuperset(map(_memory, made))):
                call.steps.append(f"{name.strip('_')} of {shown_type(args[0])} {tuple(args[0].shape)}"
                                  if isinstance(args[0], Tensor) else name)
        return result

    def data_ptr(self) -> int:
        """A number for the memory, and where the tensor begins in it."""
        with torch._C.DisableTorchFunctionSubclass():
            return (_memory(self) << 8) + self.storage_offset() * self.itemsize

    def get_device(self) -> int:
        """-1, the CPU's."""
        return -1

    is_cpu = property(lambda self: True)


class RankStandIn(StandIn):
    """One of a call of several GPUs, whose operators have another way for tensors of the CPU."""

    is_cpu, is_cuda = property(lambda self: False), property(lambda self: True)


def rank_stand_in(x: Tensor) -> RankStandIn:
    """One for `x` of a call of several GPUs."""
    return stand_in(x, RankStandIn)


def stand_in(x: Tensor, cls: type[StandIn] = StandIn) -> StandIn:
    """One for `x`."""
    known = x.device.type != "meta" and not isinstance(x, FakeTensor)
    address = x.data_ptr() % 16 if known else 0
    offset = address // x.itemsize if address % x.itemsize == 0 else 0
    needed = 1 + sum((extent - 1) * step for extent, step in zip(x.shape, x.stride())) if x.numel() else 0
    made = torch.empty(needed + offset, dtype=x.dtype, device="meta").as_strided(x.shape, x.stride(), offset).as_subclass(cls)
    made._real = x if known else None
    return made


def _memory(x: Tensor) -> int:
    with torch._C.DisableTorchFunctionSubclass():
        return x.untyped_storage()._cdata


def _numbers(x: StandIn) -> list:
    if x._real is None and (call := asked()) is not None and call.sizes is not None:
        return [call.sizes] * x.numel()
    if x._real is None:
        raise Unknown(f"what the call does goes by the numbers in a tensor {shown_type(x)} {tuple(x.shape)}, which has no data "
                      "here: explain it with a tensor that has")
    return x._real.tolist()


def _operator(func: Any, args: tuple, kwargs: dict) -> Any:
    """An operator of ours, as its plans have it; under autocast with the types of the region."""
    from .operator import OPERATORS
    operator, device = OPERATORS[func._schema.name.partition("::")[2]], autocast_device()
    args = args if device is None else operator.cast(args, device)
    return operator.run(*args, **kwargs)


def autocast_device() -> str | None:
    """The device whose autocast is on, if one is."""
    return next((device for device in ("cuda", "cpu") if torch.is_autocast_enabled(device)), None)


__all__ = ["StandIn", "Unknown", "autocast_device", "rank_stand_in", "stand_in"]
