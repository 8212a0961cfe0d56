"""The rows of an all-gather GEMM, brought by copy engines: copies of bands into the peers' memory in a stream of their own.

Input: a world, the launch's memory, and this rank's rows of A. Output: the bands and their signals are on their way. For example:

    bring = CopyEngines(world, workspace, rows, k, chosen)
    opened(); bring(a); launch(...); bring.joined()         `opened` launches `open_gather`, `launch` the GEMM with push=False

A signal is set by the stream, behind a fence of the system's scope (cuStreamWriteValue32); a stream that is being captured cannot
do that, and there a copy of 8 bytes sets it, behind the band in the stream's order.
"""

from __future__ import annotations

import torch
from torch import Tensor

import mimw
from mimw.distributed.torch_port import write_word
from mimw.kernels.all_gather_gemm import Configuration, bands

from .launching import World


class CopyEngines:
    """`workspace` as `all_gather_gemm.room_for` with push=False; `rows` of this rank by `k`."""

    def __init__(self, world: World, workspace: dict[str, Tensor], rows: int, k: int, chosen: Configuration):
        self.stream = torch.cuda.Stream(world.device, priority=-1)
        self.one = torch.ones(1, dtype=torch.int64, device=world.device)
        count, height = bands(rows, chosen), chosen.bm * chosen.group_m
        self.copies = []
        for step in range(1, world.size):
            peer = (world.rank - step) % world.size     # which needs these rows next
            there = world.peer(workspace["gathered"], peer).view(world.size, rows, k)[world.rank]
            told = world.peer(workspace["arrived"], peer)[world.rank * count:(world.rank + 1) * count]
            for band in range(count):
                first, end = band * height, min((band + 1) * height, rows)
                self.copies.append((first, end, there[first:end], told[band:band + 1]))

    def __call__(self, a: Tensor) -> None:
        """Behind what the current stream has been given so far."""
        self.stream.wait_stream(torch.cuda.current_stream())
        captured = torch.cuda.is_current_stream_capturing()
        with torch.cuda.stream(self.stream):
            for first, end, there, told in self.copies:
                there.copy_(a[first:end], non_blocking=True)
                if captured:
                    told.copy_(self.one, non_blocking=True)
                else:
                    write_word(told, 1)

    def joined(self) -> None:
        """The current stream goes on when the copies are over: `a` may then be written."""
        torch.cuda.current_stream().wait_stream(self.stream)


def _without_launch(engines: CopyEngines, a: Tensor) -> None:
    """While launches are only noted: no kernel takes what copies bring."""


mimw.jit.meanwhile(CopyEngines, "__call__", _without_launch)
