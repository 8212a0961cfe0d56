"""A world for a call that is only to be explained: of the same ranks, with memory that nobody makes, and no word to other ranks.

Input: a world, and a maker of tensors without memory. Output: an object with what operators ask a world for. For example:

    world = AskedWorld(world_of(group), stand_in)
    world.symmetric((4, 256), "float32")        a tensor without data; the heap stays as it is, and no other rank is asked
    world.kept                                  empty but for what the group has agreed on: plans and memory go with this object

So one rank can ask by itself what it would launch, at any time: nothing that ranks do together is done.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ..errors import NotSymmetric

if TYPE_CHECKING:
    import torch

    from .world import GroupWorld


class Idle:
    """In the place of copy engines: it begins and carries nothing."""

    def begin(self) -> None:
        pass

    def __call__(self, *tensors: torch.Tensor) -> None:
        pass

    def joined(self) -> None:
        pass


class AskedWorld:
    """`GroupWorld`, of a call that is explained.

    args:      world  the real one, of which rank, size, names and what has been agreed are read
               make   a tensor without memory from one of the device `meta`
               note   is told the name and the tensor of a collective of torch.distributed
    """

    idle = Idle()

    def __init__(self, world: GroupWorld, make: Callable[[torch.Tensor], torch.Tensor],
                 note: Callable[[str, torch.Tensor], Any]):
        import torch
        self.rank, self.size, self.group, self.name, self.shares_gpus = (
            world.rank, world.size, world.group, world.name, world.shares_gpus)
        self.device, self._world, self._make, self._note = torch.device("meta"), world, make, note
        self.kept: dict[Any, Any] = {"agreed": set(world.kept.get("agreed", ()))}
        self.rendezvous, self.table = self, self.symmetric(world.size, "int64")

    def get_device(self) -> int:
        """-1, as of tensors that stand for others."""
        return -1

    def symmetric(self, shape: int | Sequence[int], dtype: Any, name: str = "") -> torch.Tensor:
        """A tensor without memory."""
        import torch
        dtype = getattr(torch, dtype) if isinstance(dtype, str) else dtype
        return self._make(torch.empty(shape, dtype=dtype, device="meta"))

    def peer(self, tensor: torch.Tensor, rank: int) -> torch.Tensor:
        """The tensor itself: nothing will be written there."""
        return tensor

    def offset_of(self, tensor: torch.Tensor) -> int:
        """The offset of the tensor that this one stands for. NotSymmetric, also for one without data."""
        return self._world.offset_of(self._real(tensor, "the tensor"))

    def check_symmetric(self, tensor: torch.Tensor, name: str = "the tensor") -> None:
        """NotSymmetric unless the tensor that this one stands for lies in the world's heap."""
        self._world.check_symmetric(self._real(tensor, name), name)

    def _real(self, tensor: torch.Tensor, name: str) -> torch.Tensor:
        real = getattr(tensor, "_real", None)
        if real is None:
            raise NotSymmetric(f"{name} has no data here, so it is not in the symmetric heap of group {self.name!r}",
                               hint="explain the call with a tensor of mimw.distributed.symmetric_empty, or without symmetric=True")
        return real

    def collective(self, function: Callable, *tensors: torch.Tensor) -> None:
        """Note the function: nothing is sent."""
        self._note(function.__name__, tensors[-1])

    def agree(self, what: str, text: str) -> None:
        """Nothing: no other rank is asked."""

    def launched(self, name: str) -> None:
        """Nothing: no launch will come."""


__all__ = ["AskedWorld", "Idle"]
