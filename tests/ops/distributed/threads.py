"""The code that operators run on GPUs, at several ranks without one: a thread each, and launches that are simulated together.

    with ranks_in_threads(2) as at_ranks:
        found = at_ranks(lambda rank: MODULES["collectives"]._run("all_reduce", on_gpu(x[rank]), "0"))     what each rank got

Input: a function of the rank, which asks operators for what they run; `on_gpu` makes a tensor of the CPU say that it is on a GPU,
`moved` has it elsewhere. Output: what the function returned at each rank, or the first error. Each rank makes its plans for itself,
as processes do, with a world of its own: what ranks do differently between launches is found here. The stream's part is small: copy
engines copy at once, and carry no sums, which goes on beside a kernel.
"""

import contextlib
import sys
import threading
from unittest import mock

import pytest

torch = pytest.importorskip("torch", reason="operators need torch")

import mimw  # noqa: E402
import mimw.ops.chips as chips  # noqa: E402
import mimw.ops.launching as one_gpu  # noqa: E402
from mimw.distributed import World  # noqa: E402
from mimw.distributed.places import Places  # noqa: E402
from mimw.distributed.rendezvous import Rendezvous  # noqa: E402
from mimw.errors import PeerLost  # noqa: E402
from mimw.ir.world import WORKSPACE, reserved  # noqa: E402
from mimw.ops import distributed  # noqa: E402

from .test_launching import OnAGpu  # noqa: E402

HEAP, LIMIT, PROGRAMS = 1 << 27, 60.0, 4
MODULES = {name: sys.modules[f"{distributed.__name__}.{name}"]
           for name in ("all_gather_matmul", "all_to_all", "collectives", "contract", "copy_engine", "launching",
                        "matmul_reduce_scatter", "moe", "moe_combine", "moe_dispatch", "moe_dispatch_rows", "moe_overlap",
                        "operands", "ring_attention")}


def on_gpu(x):
    return x.as_subclass(OnAGpu)


def moved(x):
    """The same where neither TMA nor words of 16 bytes read it."""
    return torch.cat([x.flatten()[:1], x.flatten()])[1:].view(x.shape)


class Rank(World):
    """One whose heap is a simulated GPU's, as all ranks reach it."""

    def __init__(self, ranks, rank, store, failed):
        self.ranks, self.rank, self.size, self.group, self.name = ranks, rank, len(ranks), None, "0"
        self.device, self.shares_gpus, self.kept, self.closed, self.heap = torch.device("cpu"), False, {}, False, HEAP
        self.rendezvous = Rendezvous(store, rank, self.size, self.name, LIMIT, lambda: failed)
        self._memory, self._within, self._watch = torch.from_numpy(ranks.heaps[rank]), 0, None
        self._table, first = torch.from_numpy(ranks[rank]), reserved(self.size, WORKSPACE)
        self._places = Places(first, first + HEAP)

    def get_device(self):
        return OnAGpu.get_device(None)

    def peer(self, tensor, rank):
        at, size = self.offset_of(tensor), tensor.numel() * tensor.element_size()
        return torch.from_numpy(self.ranks.heaps[rank])[at:at + size].view(tensor.dtype).view(tensor.shape)


class Threads:
    """The ranks, and where their threads meet."""

    def __init__(self, size):
        self.ranks, self.meet, store = mimw.World(size, heap=HEAP), threading.Barrier(size), torch.distributed.HashStore()
        self.mine, self.given, self.launched, self.failed = threading.local(), [None] * size, [], {}
        self.capturing = False      # whether calls are as a graph records them
        self.worlds = [Rank(self.ranks, rank, store, self.failed) for rank in range(size)]

    def __call__(self, function):
        found = [None] * len(self.ranks)

        def work(rank):
            self.mine.rank = rank
            try:
                found[rank] = function(rank), None
            except BaseException as error:
                found[rank], self.failed[rank] = (None, error), "its thread has ended"
                self.meet.abort()

        threads = [threading.Thread(target=work, args=(rank, )) for rank in range(len(found))]
        for one in threads:
            one.start()
        for one in threads:
            one.join()
        errors = [error for _, error in found if error is not None]
        if errors:
            raise next((error for error in errors if not isinstance(error, (threading.BrokenBarrierError, PeerLost))), errors[0])
        return [value for value, _ in found]

    def world(self, group=None):
        return MODULES["launching"].as_asked(self.worlds[self.mine.rank])

    def launch(self, launch, *tensors):
        """In place of `Launch.__call__`: all ranks come, and one simulates what they brought; none where a call is explained."""
        if chips.asked() is not None:
            return launch._first(tensors)
        plain = [one.as_subclass(torch.Tensor) for one in tensors]
        self.given[self.mine.rank] = launch._kernel, launch._grid, launch._filled(plain), launch._meta
        if self.meet.wait(LIMIT) == 0:
            self.simulate()
        self.meet.wait(LIMIT)

    def simulate(self):
        kernel, grid, _, meta = self.given[0]
        for other, at, _, constants in self.given:
            assert (other, at, constants) == (kernel, grid, meta), "ranks launch different binaries"
        mimw.simulate(kernel, grid, *map(self.of_all, zip(*(one[2] for one in self.given))), **meta)
        self.launched.append(kernel.__name__)

    def of_all(self, values):
        """The argument that these are at the ranks. What lies in a heap is symmetric there, and nowhere else."""
        if isinstance(values[0], torch.Tensor) and values[0].data_ptr() == self.worlds[0]._table.data_ptr():
            return self.ranks
        return self.ranks.each(values) if hasattr(values[0], "shape") or len(set(values)) > 1 else values[0]


class Stream:
    """What is done in it is done at once: it waits for nothing."""

    def wait_stream(self, other):
        pass

    def wait_event(self, event):
        assert event is not None, "nobody has recorded what is waited for"

    def record_event(self):
        return object()


@contextlib.contextmanager
def ranks_in_threads(size):
    threads = Threads(size)
    with contextlib.ExitStack() as changed:
        def change(place, name, value):
            changed.enter_context(mock.patch.object(place, name, value))

        for module in MODULES.values():
            if hasattr(module, "world_of"):
                change(module, "world_of", threads.world)
        change(chips, "_chip", lambda device: ((9, 0), PROGRAMS))
        change(one_gpu, "_capturing", lambda: False)
        change(one_gpu, "_stream_of", lambda device: threads.mine.rank)
        change(one_gpu, "_ZEROS", {})
        change(one_gpu, "_kept_zeros", lambda device: torch.zeros(one_gpu.KEPT, dtype=torch.int32))
        change(one_gpu.Launch, "__call__", lambda launch, *tensors: threads.launch(launch, *tensors))
        change(one_gpu.Launch, "load", lambda launch, *tensors: None)
        change(MODULES["matmul_reduce_scatter"], "_may_carry", lambda: False)
        change(MODULES["copy_engine"], "write_word", lambda word, number: word.fill_(number))
        change(torch.cuda, "get_device_capability", lambda device: (9, 0))
        change(torch.cuda, "is_current_stream_capturing", lambda: threads.capturing)
        change(torch.cuda, "Stream", lambda *args, **more: Stream())
        change(torch.cuda, "current_stream", lambda *args: Stream())
        change(torch.cuda, "stream", contextlib.nullcontext)
        yield threads
