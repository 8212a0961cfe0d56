"""Rows brought by copy engines: which rows go where, in which order, and which signals follow; streams and peers are stand-ins."""

import contextlib
import sys
from types import SimpleNamespace

import pytest

torch = pytest.importorskip("torch", reason="copies of torch tensors")

from mimw.kernels.all_gather_gemm import Configuration, room_for  # noqa: E402
from mimw.ops.distributed import all_gather_matmul, copy_engine  # noqa: E402,F401  the function; its module is below
from mimw.ops.launching import Launch  # noqa: E402

from .test_launching import OnAGpu  # noqa: E402

CHOSEN = Configuration(bm=64, bn=64, group_m=1, consumers=1)


class Rank:
    """Of a world all of whose memory is this process's."""

    shares_gpus = False

    def __init__(self, rank, every):
        self.rank, self.size, self.device, self.every = rank, len(every), "cpu", every

    def peer(self, tensor, rank):
        name = next(name for name, one in self.every[self.rank].items() if one is tensor)
        return self.every[rank][name]


@pytest.fixture
def streams(monkeypatch):
    class Stream:
        def wait_stream(self, other):
            pass

    monkeypatch.setattr(torch.cuda, "Stream", lambda *args, **more: Stream())
    monkeypatch.setattr(torch.cuda, "current_stream", Stream)
    monkeypatch.setattr(torch.cuda, "stream", contextlib.nullcontext)


@pytest.mark.parametrize("captured", [False, True])
def test_every_band_goes_to_every_peer_before_its_signal(monkeypatch, streams, captured):
    ranks, rows, k = 3, 150, 8
    sizes = room_for(ranks * rows, 64, k, 1, ranks, "float32", False, CHOSEN)
    every = [{name: torch.zeros(elements, dtype=getattr(torch, type_)) for name, (elements, type_) in sizes.items()}
             for _ in range(ranks)]
    shards, order = [torch.full((rows, k), rank + 1.0) for rank in range(ranks)], []

    def written(word, number):
        rank, band = next((rank, word.storage_offset() % 3) for rank in range(ranks)
                          if word.data_ptr() == every[rank]["arrived"][word.storage_offset()].data_ptr())
        order.append((rank, band, int((every[rank]["gathered"].view(ranks, rows, k)[1] == 2).all(1).sum())))
        word.fill_(number)

    monkeypatch.setattr(copy_engine, "write_word", written)
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: captured)
    for rank in range(ranks):
        bring = copy_engine.CopyEngines(Rank(rank, every), every[rank], rows, k, CHOSEN)
        if rank == 1 or captured:
            bring(shards[rank])
            bring.joined()
    if captured:
        for rank, memory in enumerate(every):
            assert memory["arrived"].view(ranks, 3).sum(1).tolist() == [0 if other == rank else 3 for other in range(ranks)]
            for other in range(ranks):
                assert (memory["gathered"].view(ranks, rows, k)[other] == (0 if other == rank else other + 1)).all()
    else:       # the rank before needs the rows next; bands of 64 rows, in order, each before its signal
        assert order == [(0, 0, 64), (0, 1, 128), (0, 2, 150), (2, 0, 64), (2, 1, 128), (2, 2, 150)]


def test_both_ways_of_a_call_give_each_launch_what_it_takes(monkeypatch, streams):
    """Of the rank itself and one peer; launches are noted, not made."""
    module = sys.modules["mimw.ops.distributed.all_gather_matmul"]
    memories, launched = {}, []

    class World(Rank):
        table = torch.zeros(5, dtype=torch.int64)

        def __init__(self):
            self.rank, self.size, self.device = 0, 2, "cpu"

        def peer(self, tensor, rank):
            return torch.empty_like(tensor)

        def launched(self, name):
            launched.append(name)

    def memory_of(world, key, sizes):
        return memories.setdefault(key, {name: torch.zeros(size, dtype=getattr(torch, type_))
                                         for name, (size, type_) in sizes.items()})

    monkeypatch.setattr(module, "memory_of", memory_of)
    monkeypatch.setattr(Launch, "__call__", lambda self, *tensors: counted(self, tensors))
    monkeypatch.setattr(copy_engine, "write_word", lambda word, number: launched.append("signal"))
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: False)

    def counted(launch, tensors):
        wanted = [one for one in launch._args if type(one).__name__ == "_Shape" or type(one) is object]
        assert len(tensors) == len(wanted) and all(isinstance(one, torch.Tensor) for one in tensors)

    a, b = torch.zeros(256, 64, dtype=torch.bfloat16), torch.zeros(64, 128, dtype=torch.bfloat16)
    c = torch.zeros(512, 128, dtype=torch.bfloat16)
    for make in (module._pushed, module._carried):
        make(World(), a, b, 512, 128, 64, 4)(a, b, c)
    assert launched == ["all_gather_gemm", "open_gather", "signal", "all_gather_gemm"]
    monkeypatch.setattr(Launch, "load", lambda self, *tensors: (counted(self, tensors), launched.append("loaded")))
    module._pushed(World(), a, b, 512, 128, 64, 4, load=True)
    assert launched[4:] == ["loaded"]


def test_all_ranks_take_the_same_way_whatever_one_has_called_before(monkeypatch):
    """The group's first call for shapes is pushed; a later one, of new strides here, is carried at once, and loaded for graphs."""
    module, ways, capturing, asked = sys.modules["mimw.ops.distributed.all_gather_matmul"], [], [], []
    monkeypatch.setattr(module, "agreed", lambda world, name, a, b: asked.append((a.shape, b.shape)) or len(asked) == 1)
    monkeypatch.setattr(module, "for_kernels", lambda kernel, a, b: True)
    monkeypatch.setattr(module, "programs_beside_copies", lambda world, a: 4)
    monkeypatch.setattr(module, "_pushed", lambda *args: lambda a, b, c: ways.append(("pushed", "loaded" if args[-1] else "")))
    monkeypatch.setattr(module, "_carried", lambda *args: lambda a, b, c: ways.append("carried"))
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: bool(capturing))
    a, b = OnAGpu(torch.zeros(256, 64, dtype=torch.bfloat16)), OnAGpu(torch.zeros(64, 128, dtype=torch.bfloat16))
    first, other = (module._plan(SimpleNamespace(size=2), x, b) for x in (a, a.T.contiguous().T))
    for call in first, first, other:
        call(a, b)
    capturing.append(True)
    first(a, b), other(a, b)
    assert ways == [("pushed", ""), "carried", "carried", ("pushed", ""), ("pushed", "loaded")] and asked[0] == asked[1]
