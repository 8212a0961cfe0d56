"""The arrays of some launches in one block of the device's memory, between bytes that nobody may write.

Input: arguments with arrays of numpy's. Output: the same with tensors, and what the launches have made of these. For example:

    room = Room()
    first, second = room.place([x, y, 64]), room.place([x, y, 32])
    room.send()                                             one copy to the device, however many arrays there are
    kernel[grid](*room.given(first, TensorDescriptor))
    room.fetch()                                            one copy back, behind all launches
    room.read(first), room.is_whole()                       [x, y] as they are now; whether all bytes between are as they were

The bytes between are 255: whoever reads them has NaN, or -1. Processes that share a GPU wait for each other at each copy, so there
are two of them. Without a GPU the block lies in the host's memory.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from mimw.compiler.triton_port.runtime import gpu_is_active

PAD, ALIGNED = 4096, 256        # bytes on both sides of an array at least; of what its first byte is a multiple


@dataclass
class Room:
    """Arrays with pads. `places` has each array's first byte and the array that it was."""

    places: list[tuple[int, np.ndarray]] = field(default_factory=list)
    size: int = PAD
    raw: Any = None
    now: np.ndarray | None = None

    def place(self, args: list[Any]) -> Placed:
        """A place for each array among the arguments of a launch; one for an array that stands twice among them."""
        at = {address: self._placed(array) for address, array in bases(args).items()}
        return Placed(list(args), at)

    def _placed(self, array: np.ndarray) -> int:
        first = self.size
        self.size = -(-(first + array.nbytes + PAD) // ALIGNED) * ALIGNED
        self.places.append((first, array))
        return first

    def send(self) -> None:
        import torch
        room = np.full(self.size, 255, np.uint8)
        for first, array in self.places:
            room[first:first + array.nbytes] = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
        self.raw = torch.from_numpy(room).to("cuda" if gpu_is_active() else "cpu")

    def fetch(self) -> None:
        self.now = self.raw.cpu().numpy()

    def given(self, placed: Placed, describe: Any) -> list[Any]:
        """The arguments of a launch, with tensors of this block; `describe` makes a descriptor."""
        there = []
        for value in placed.args:
            if hasattr(value, "block_shape"):
                base = self._tensor(placed, value.base.array)
                there.append(describe(base, list(value.shape), list(value.strides), list(value.block_shape)))
            else:
                there.append(self._tensor(placed, value) if isinstance(value, np.ndarray) else value)
        return there

    def _tensor(self, placed: Placed, array: np.ndarray) -> Any:
        import torch
        first = placed.at[array.ctypes.data]
        return self.raw[first:first + array.nbytes].view(getattr(torch, array.dtype.name)).view(array.shape)

    def read(self, placed: Placed) -> list[np.ndarray]:
        """The arrays of a launch, in the order of `bases`."""
        return [self.now[placed.at[address]:placed.at[address] + array.nbytes].view(array.dtype).reshape(array.shape)
                for address, array in bases(placed.args).items()]

    def is_whole(self) -> bool:
        between = np.ones(self.size, bool)
        for first, array in self.places:
            between[first:first + array.nbytes] = False
        return bool((self.now[between] == 255).all())


@dataclass(frozen=True)
class Placed:
    """The arguments of a launch, and where its arrays are, by their address on the host."""

    args: list[Any]
    at: dict[int, int]


def bases(args: list[Any]) -> dict[int, np.ndarray]:
    """The arrays among arguments, each once, by address."""
    arrays = (value.base.array if hasattr(value, "block_shape") else value for value in args)
    return {array.ctypes.data: array for array in arrays if isinstance(array, np.ndarray)}
