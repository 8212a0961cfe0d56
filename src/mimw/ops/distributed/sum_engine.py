"""The sums of a GEMM reduce-scatter or all-reduce, carried by copy engines: parcels of tiles into other GPUs' memory, in a stream
of their own, while later tiles are computed.

Input: a world, the launch's memory, the problem and its configuration. Output: parcels and their signals are on their way:

    carry = SumEngines(world, workspace, m, n, everywhere, chosen)
    carry.begin(); launch(a, b, c); carry(); carry.joined()             `launch` the kernel, as chosen

The stream waits for the signals of a parcel's tiles, which the kernel gives, and sets them back; copies the parcel; and copies the
number of the launch, which the kernel has counted, to the word of who waits for the parcel. So nothing that the host says differs
from call to call, and graphs replay it.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

import mimw
from mimw.distributed.stream_words import StreamWords, sets, waits
from mimw.kernels.gemm_reduce_scatter import Configuration, launched

from .launching import World

CALL_BYTES = 8


@dataclass(frozen=True)
class Parcel:
    """What the stream does about one parcel; addresses and bytes."""

    waits: tuple[tuple[int, int], ...]              # (word, the least that the stream waits for); the word is then 0
    moves: tuple[tuple[int, int, int, int], ...]    # (to, from, bytes, the word that is then told)


def parcels_of(world: World, workspace: dict[str, Tensor], tiles: int, chosen: Configuration) -> list[Parcel]:
    """The parcels of a call in the order in which the kernel computes their tiles; each rank has so many `tiles`."""
    me, size, everywhere, parcel = world.rank, world.size, "finished" in workspace, chosen.parcel()
    sums, elements, count, found = workspace["results"], chosen.bm * chosen.bn, -(-tiles // parcel), []
    begun = [(_at(workspace["started"], me), 1)]                    # the launch here: then `calls` has its number
    for step in range(size if everywhere else size - 1):
        owner = (me + 1 + step) % size
        if owner == me:
            takers, room, told = [(me + 1 + one) % size for one in range(size - 1)], "results", "finished"
        else:
            takers, room, told = [owner], "slots", "arrived"
            begun.append((_at(workspace["started"], owner), 1))     # its last launch has ended: its slots are free
        for number in range(count):
            first, end = number * parcel, min((number + 1) * parcel, tiles)
            done = _at(workspace["done"], step * count + number), (end - first) * chosen.sharers_of_tile()
            source, length = _at(sums, (owner * tiles + first) * elements), (end - first) * elements * sums.itemsize
            found.append(Parcel((*begun, done), tuple(
                (_at(world.peer(workspace[room], rank), (me * tiles + first) * elements), source, length,
                 _at(world.peer(workspace[told], rank), me * count + number)) for rank in takers)))
            begun = []
    return found


def _at(tensor: Tensor, element: int) -> int:
    return tensor.data_ptr() + element * tensor.itemsize


class SumEngines:
    """`workspace` as `gemm_reduce_scatter.room_for` gives it for m x n, `everywhere` and `chosen`, which has parcels."""

    def __init__(self, world: World, workspace: dict[str, Tensor], m: int, n: int, everywhere: bool, chosen: Configuration):
        self.stream, self.words = torch.cuda.Stream(world.device, priority=-1), StreamWords()
        self.call = _at(workspace["calls"], 0)
        _, tiles = launched(m, n, 1, world.size, everywhere, chosen)
        parcels = parcels_of(world, workspace, tiles, chosen)
        self.parcels = [(self.words.steps(*(step for word, least in one.waits for step in (waits(word, least), sets(word, 0)))),
                         one.moves) for one in parcels]

    def begin(self) -> None:
        """Before the launch: the stream does not take the signals of an earlier one, which a replayed graph may still be running;
        and in a graph that is being captured it becomes a branch beside the kernel."""
        current = torch.cuda.current_stream()
        while self.stream == current:       # torch has 32 streams of a kind, and gives them out in turn
            self.stream = torch.cuda.Stream(current.device, priority=-1)
        self.stream.wait_stream(current)

    def __call__(self) -> None:
        """After the launch, for whose signals the stream waits."""
        handle = self.stream.cuda_stream
        for behind, moves in self.parcels:
            self.words.put(handle, behind)
            for to, source, size, told in moves:
                self.words.copy(handle, to, source, size)
                self.words.copy(handle, told, self.call, CALL_BYTES)

    def joined(self) -> None:
        """The current stream goes on when the copies are over: the next launch may then write sums."""
        torch.cuda.current_stream().wait_stream(self.stream)


def _without_launch(engines: SumEngines) -> None:
    """While launches are only noted: no kernel gives the signals that the stream would wait for."""


mimw.jit.meanwhile(SumEngines, "__call__", _without_launch)
