"""`GroupWorld`: one process's knowledge of a process group whose GPUs reach each other's memory.

Input: a process group of torch.distributed. Output: this rank, the table that kernels take, and symmetric tensors:

    world = mimw.distributed.world_of(group)
    x = world.symmetric((4, 256), torch.float32, "x")       zeros, at the same offset of every rank's heap
    pass_on[(2, )](x, y, flag, world, 32)                   as a kernel's argument a world is its table

The heap is one allocation of torch's symmetric memory for each group, made at first use, and kept until the process ends. Symmetric
tensors are never freed by themselves: when Python collects a tensor differs from rank to rank, and then so would the offset of
the next. `free` gives one back, at all ranks together.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from math import prod
from typing import TYPE_CHECKING, Any

from ..errors import DistributedError, NotSymmetric, PeerLate, PeerLost, PeerWithoutAccess, SimulatorMisuse
from ..ir.world import table
from .heap import full, heap_of
from .peers import Peers, myself
from .places import Places
from .rendezvous import Rendezvous, named
from .torch_port import alive, asked_on_every_launch, share_gpus, store_of, uses_gpus
from .watch import Watch, driver_of

if TYPE_CHECKING:
    import torch

DEFAULT_TIMEOUT = 600.0             # seconds; what torch gives NCCL's collectives
DEFAULT_HEAP = {"cuda": 1 << 30, "cpu": 1 << 28}


class GroupWorld:
    """This process in a process group, in public `mimw.distributed.World`; made by `mimw.distributed.world_of`, once for each group
    and at all its ranks together.

        rank, size      of this process in the group, and how many there are
        group, name     the process group, and the name by which torch knows it
        device          of tensors: this process's CUDA device; the CPU where the group has no GPUs
        limit           seconds after which a rank that does not come is named (`init(timeout=)`)
        table           the tensor of int64 that kernels take (docs/DISTRIBUTED.md, "Ranks"); makes the heap
        shares_gpus     whether ranks have one GPU together (`init(share_gpus=True)`): right results, and no speed worth a look
        kept            what operators keep for this group: plans, workspaces, by keys of theirs; it goes with the world

    errors:    PeerWithoutAccess for a GPU that cannot reach another one's memory, or that two ranks have which do not both share
               it; PeerLate and PeerLost for ranks that do not come
    """

    def __init__(self, group: Any, heap: int | None = None, timeout: float | None = None, share: bool = False):
        import torch
        from torch.distributed import PrefixStore
        self.group, self.name, self._alive = group, group.group_name, alive()
        self.rank, self.size = group.rank(), group.size()
        self.device = torch.device("cuda", torch.cuda.current_device()) if uses_gpus(group) else torch.device("cpu")
        self.heap = DEFAULT_HEAP[self.device.type] if heap is None else heap
        self.limit = DEFAULT_TIMEOUT if timeout is None else float(timeout)
        # A store may outlive its group: this is this rank's world number `_born` in it, and each rank has made as many.
        births, mine = PrefixStore("mimw", store_of(group)), f"born/{self.rank}"
        self.process, self._born = os.getpid(), births.add(mine, 1) - 1
        self.rendezvous = Rendezvous(self._store(), self.rank, self.size, self.name, self.limit)
        try:
            self.peers = Peers(self.rendezvous.heard("where each rank runs", myself(self.device, share)), self.rank)
        except PeerLate:        # a process that asks again is to find those that come later
            births.add(mine, -1)
            raise
        self.rendezvous.ended, self.rendezvous.ended_soon = self.peers.ended, self.peers.ended_soon
        self.shares_gpus = False
        self._check_devices()
        self.kept: dict[Any, Any] = {}
        self._places: Places | None = None
        self._memory = self._table = self._watch = self.closed = None

    # ---- memory -----------------------------------------------------------------------------------------------------

    def symmetric(self, shape: int | Sequence[int], dtype: Any, name: str = "") -> torch.Tensor:
        """A tensor of zeros at every rank, at the same offset of each heap, so that peers reach it. All ranks make
        these calls, in one order.

        args:      shape  as torch.zeros has it, the same at all ranks
                   dtype  torch's, or the name of one ("float32")
                   name   for messages
        returns:   a contiguous tensor on `device`, at a multiple of 256 bytes
        errors:    RanksDisagree, at all ranks, where a rank asks for another shape or type, or has another place for it, since a
                   call failed there before; HeapFull; PeerLate, PeerLost; DistributedError while a CUDA graph is recorded: what
                   is 0 at first would be so again at each replay
        """
        import torch
        shape = (shape, ) if isinstance(shape, int) else tuple(map(int, shape))
        dtype = getattr(torch, dtype) if isinstance(dtype, str) else dtype
        self._refuse_graphs(f"the symmetric tensor {name!r}")
        self._make_heap()
        size = prod(shape) * dtype.itemsize
        at = self._places.take(size)
        try:
            self._agree_on(name, f"{str(dtype).removeprefix('torch.')}{list(shape)}", at)
        except DistributedError:
            if at is not None:
                self._places.give(at)
            raise
        if at is None:
            raise full(self, self._places, size, name)
        return self._memory[at:at + size].view(dtype).view(shape)

    def _agree_on(self, name: str, look: str, at: int | None) -> None:
        """Check that a symmetric tensor, and its offset, are the same at all ranks; RanksDisagree if not."""
        said = self.rendezvous.heard(f"the symmetric tensor {name!r}", [look, at])
        if any(one != said[0] for one in said):
            alike = all(one[0] == look for one in said)
            raise self.rendezvous.difference(f"the ranks disagree on the symmetric tensor {name!r}", [
                f"{what}, at offset {place}" if alike else what for what, place in said])

    def free(self, tensor: torch.Tensor) -> None:
        """Give back what `symmetric` made, at all ranks together: each finishes all that it has launched, and zeroes the
        tensor. The caller must not use it any more, nor replay a CUDA graph in which it is.

        errors:    NotSymmetric for a tensor that `symmetric` did not give; RanksDisagree where ranks free different ones
        """
        at = self.offset_of(tensor)
        if not self._places.holds(at, tensor.numel() * tensor.element_size()):
            raise NotSymmetric(f"the tensor at offset {at} of the symmetric heap is a part of one that `symmetric` made",
                               hint="free the whole tensor")
        self._finish()
        self.rendezvous.agree("the symmetric tensor that is freed", at, lambda offset: f"the one at offset {offset}")
        self._memory[at:at + self._places.give(at)].zero_()
        self._finish()

    def offset_of(self, tensor: torch.Tensor) -> int:
        """The offset of a tensor in the heap, in bytes; NotSymmetric for a tensor that is not in it."""
        self.check_symmetric(tensor)
        return _address(tensor) - self._memory.data_ptr()

    def collective(self, function: Callable, *tensors: torch.Tensor) -> None:
        """Call a collective of torch.distributed in this group."""
        function(*tensors, group=self.group)

    def check_symmetric(self, tensor: torch.Tensor, name: str = "the tensor") -> None:
        """NotSymmetric unless all that a tensor spans lies in this world's heap. Nothing is asked of other ranks."""
        first = _address(tensor)
        span = sum((extent - 1) * step for extent, step in zip(tensor.shape, tensor.stride())) + 1 if tensor.numel() else 0
        if self._memory is not None:
            start = self._memory.data_ptr() + self._places.first
            if start <= first and first + span * tensor.element_size() <= self._memory.data_ptr() + self._places.end:
                return
        raise NotSymmetric(f"{name}, {str(tensor.dtype).removeprefix('torch.')}{list(tensor.shape)} on {tensor.device}, is not in "
                           f"the symmetric heap of group {self.name!r}, so its peers do not reach it",
                           hint="make it by mimw.distributed.symmetric_empty(shape, dtype, group), at all ranks, and copy into it")

    def peer(self, tensor: torch.Tensor, rank: int) -> torch.Tensor:
        """A symmetric tensor as it is at `rank`: reads and writes go to that GPU. For the host; kernels have `peer_pointer`.

        errors:    NotSymmetric; IndexError for a rank that there is not; SimulatorMisuse for a peer's where there are no GPUs
        """
        if not 0 <= rank < self.size:
            raise IndexError(f"rank {rank} of a world of {self.size}")
        at = self.offset_of(tensor)
        if rank == self.rank:
            return tensor
        if self.device.type == "cpu":
            raise self._without_gpus()
        step = tensor.element_size()
        whole = self._memory.mimw_handle.get_buffer(rank, ((self._within + self._places.end) // step, ), tensor.dtype)
        return whole.as_strided(tensor.shape, tensor.stride(), (at + self._within) // step)

    # ---- launches ---------------------------------------------------------------------------------------------------

    def launched(self, name: str) -> None:
        """Note that this rank is about to launch a kernel that may wait for peers, on the current stream; `name` is for messages.

        errors:    PeerLost where a peer's process has ended without leaving: the kernel would wait for ever
        """
        watch = self._watch
        if watch is not None and not self._capturing():
            watch.note(self._current_stream(self._index), name)
            if watch.lost:
                raise self._lost()

    # ---- all ranks --------------------------------------------------------------------------------------------------

    def barrier(self, what: str = "a barrier of the host") -> None:
        """Wait until all ranks have come here. It orders nothing of the GPUs; PeerLate, PeerLost for ranks that do not come."""
        self.rendezvous.heard(what, None)

    # ---- as a kernel's argument: the table --------------------------------------------------------------------------

    @property
    def table(self) -> torch.Tensor:
        self._make_heap()
        return self._table

    def data_ptr(self) -> int:
        """The address of the table, which a launch passes."""
        held = self.table
        self.launched("")       # a launch asks for the address just before it is made
        if self.size > 1 and self.device.type == "cpu":
            raise self._without_gpus()
        return held.data_ptr()

    @property
    def dtype(self) -> torch.dtype:
        """The dtype of the table, like `shape` and the following: a caller that inspects an argument makes no heap."""
        import torch
        return torch.int64

    @property
    def shape(self) -> tuple[int]:
        return (len(table(self.rank, [0] * self.size)), )

    def stride(self) -> tuple[int]:
        return (1, )

    def element_size(self) -> int:
        return 8

    def get_device(self) -> int:
        return -1 if self.device.index is None else self.device.index

    def __repr__(self) -> str:
        return f"GroupWorld(rank {self.rank} of {self.size}, group {self.name!r}, {self.device})"

    # ---- making it, and its end -------------------------------------------------------------------------------------

    def close(self) -> None:
        """Let go of the heap at the end of the process or of the group, once this rank's launches have come back, or a time limit
        has ended it."""
        if not self.closed:
            self.closed = True
            if self._watch is not None and self.process == os.getpid():     # a forked process has no part in it
                self._watch.finish()
            self._memory = self._table = None
            self.kept.clear()

    @property
    def lost(self) -> bool:
        """True if a peer's process has ended, other than by leaving when its work was done."""
        return bool(self._watch is not None and self._watch.lost)

    @property
    def is_alive(self) -> bool:
        return not self.closed and self.group in self._alive

    def _make_heap(self) -> None:
        if self._memory is not None:
            return
        if self.closed:
            raise DistributedError(f"{self} is closed", hint="ask mimw.distributed.world_of for that of the group as it is now")
        self._refuse_graphs("the symmetric heap")
        made = heap_of(self)
        self._places, self._within = Places(made.first, made.first + self.heap), made.within
        self._table, self._memory = made.table, made.memory
        if self.device.type == "cuda" and self.size > 1:
            self._watch = Watch(self.rank, self.size, self.name, lambda: self.limit, self.peers.ended, self._store(),
                                driver_of(self.device.index), made.bases)
            self._index, (self._capturing, self._current_stream) = self.device.index, asked_on_every_launch()
            self._watch.thread.start()

    def _refuse_graphs(self, what: str) -> None:
        import torch
        if self.device.type == "cuda" and torch.cuda.is_current_stream_capturing():
            raise DistributedError(f"{what} cannot be made while a CUDA graph is recorded",
                                   hint="call the operator once before the recording, which makes what it needs")

    def _store(self):
        """The world's part of the group's store, by a connection of its own."""
        from torch.distributed import PrefixStore
        return PrefixStore(str(self._born), PrefixStore("mimw", store_of(self.group)))

    def _lost(self) -> PeerLost:
        lost = self._watch.lost
        return PeerLost("; ".join(f"rank {rank} of group {self.name!r} takes part in no further launch: {how}" for rank, how in
                                  lost.items()), hint="find out why that process ended, then start all ranks again", ranks=lost)

    def _finish(self) -> None:
        if self.device.type == "cuda":
            import torch
            torch.cuda.synchronize(self.device)

    def _check_devices(self) -> None:
        if self.device.type != "cuda" or self.size == 1:
            return
        for ranks in self.peers.sharing():
            if not all(self.peers.facts[rank]["shares"] for rank in ranks):
                raise PeerWithoutAccess(f"{named(ranks)} of group {self.name!r} have one GPU, {self.device} of rank {self.rank}",
                                        hint="one process for each GPU: torch.cuda.set_device(local rank) before the first world, "
                                             "or leave that to mimw.distributed.init(); tests may have fewer GPUs than ranks: "
                                             "MIMW_SHARE_GPUS=1, or init(share_gpus=True), at each of these", ranks=ranks)
            self.shares_gpus = True
        if self.shares_gpus:
            share_gpus()
        out_of_reach = self.peers.without_access(self.device)
        if out_of_reach:
            raise PeerWithoutAccess(f"{self.device} of rank {self.rank} cannot reach the memory of {named(out_of_reach)}: neither "
                                    "NVLink nor PCIe connects them as peers",
                                    hint="`nvidia-smi topo -p2p r` shows which GPUs do; make a group of such", ranks=out_of_reach)

    def _without_gpus(self) -> SimulatorMisuse:
        return SimulatorMisuse(f"{self} has no GPUs: its processes do not reach each other's memory",
                               hint=f"mimw.World({self.size}) simulates all ranks in one process; operators do so by themselves")


def _address(tensor: torch.Tensor) -> int:
    """The address of a tensor's start; torch says 0 of one without elements."""
    return tensor.untyped_storage().data_ptr() + tensor.storage_offset() * tensor.element_size()


__all__ = ["GroupWorld"]
