"""Sums carried by copy engines: what the stream waits for, what goes where, who is told; streams and peers are stand-ins."""

import ctypes
import sys
from dataclasses import replace
from types import SimpleNamespace

import pytest

torch = pytest.importorskip("torch", reason="memory of torch tensors")

from mimw.distributed import stream_words  # noqa: E402
from mimw.kernels.gemm_reduce_scatter import Configuration, launched, room_for  # noqa: E402
from mimw.ops.distributed import matmul_reduce_scatter, sum_engine  # noqa: E402,F401  the function; its module is below
from mimw.ops.launching import Launch  # noqa: E402

from .test_copy_engine import Rank  # noqa: E402

CHOSEN = Configuration(bm=64, bn=64, group_m=1, consumers=1, parcel_bytes=3 * 64 * 64 * 2)
WORD, ELEMENTS = ctypes.c_uint32, CHOSEN.bm * CHOSEN.bn


class Words(stream_words.StreamWords):
    """Does at once what a stream would, and cannot wait."""

    def __init__(self):
        pass

    def put(self, stream, steps):
        for step in steps:
            word = WORD.from_address(step.address)
            if step.operation == stream_words.waits(0, 0).operation:
                assert word.value >= step.value, "the stream would wait"
            else:
                word.value = step.value

    def copy(self, stream, to, source, size):
        ctypes.memmove(to, source, size)


@pytest.fixture
def order(monkeypatch):
    """What streams are told to wait for, and launches, in order."""
    told = []

    class Stream:
        cuda_stream = 0

        def __init__(self, *args, **more):
            self.name = "copies" if args else "current"

        def wait_stream(self, other):
            told.append(f"{self.name} wait for {other.name}")

    monkeypatch.setattr(sum_engine, "StreamWords", Words)
    monkeypatch.setattr(torch.cuda, "Stream", Stream)
    monkeypatch.setattr(torch.cuda, "current_stream", Stream)
    return told


@pytest.fixture
def memories(order):
    """Of three ranks with seven tiles each, three a parcel, as a launch number 5 leaves them: a tile's numbers say whose sums they
    are, and which place they had."""

    def made(everywhere):
        assert launched(3 * 7 * 64, 64, 1, 3, everywhere, CHOSEN) == (1, 7)
        sizes = room_for(3 * 7 * 64, 64, 64, 1, 3, "float32", everywhere, CHOSEN)
        every = [{name: torch.zeros(elements, dtype=getattr(torch, type_)) for name, (elements, type_) in sizes.items()}
                 for _ in range(3)]
        for rank, memory in enumerate(every):
            memory["results"].view(-1, ELEMENTS).copy_(100 * rank + torch.arange(21)[:, None])
            memory["started"].fill_(1)
            memory["calls"].fill_(5)
            memory["done"].copy_(torch.tensor([3, 3, 1]).repeat(3 if everywhere else 2))
        return every

    return made


def carrier(rank, every):
    return sum_engine.SumEngines(Rank(rank, every), every[rank], 3 * 7 * 64, 64, "finished" in every[rank], CHOSEN)


@pytest.mark.parametrize("everywhere", [False, True])
def test_every_parcel_goes_to_its_owner_and_finished_ones_to_all(memories, everywhere):
    every = memories(everywhere)
    for some in slice(6), slice(6, None):       # a tile is finished when all sums of it have come
        for rank in range(3):
            carry = carrier(rank, every)
            carry.parcels = carry.parcels[some]
            carry()
    for rank, memory in enumerate(every):
        assert not memory["done"].any() and not memory["started"].any()
        for other in range(3):
            for room, told, whose in [("slots", "arrived", rank)] + [("results", "finished", other)] * everywhere:
                expected = 100.0 * other + 7 * whose + torch.arange(7)
                if other != rank:
                    assert (memory[room].view(3, 7, ELEMENTS)[other] == expected[:, None]).all()
                assert memory[told].view(3, 3)[other].tolist() == [0 if other == rank else 5] * 3


@pytest.mark.parametrize("word, number", [("started", 0), ("started", 1), ("done", 0)])
def test_nothing_goes_before_its_time(memories, word, number):
    """Not before the launch has begun here and at the owner, nor before all tiles of the parcel are there."""
    every = memories(False)
    every[0][word][number] -= 1
    with pytest.raises(AssertionError, match="the stream would wait"):
        carrier(0, every)()
    assert not every[1]["slots"].any() and not every[1]["arrived"].any()


def test_copies_are_never_in_the_launchs_own_stream(memories, monkeypatch):
    """Where they would wait behind the launch, which waits for those of other ranks. Torch gives out its streams in turn."""
    carry, given = carrier(0, memories(False)), []
    monkeypatch.setattr(torch.cuda, "current_stream", lambda: SimpleNamespace(name="current", device=0, number=7))
    carry.stream = OneOf(7)
    monkeypatch.setattr(torch.cuda, "Stream", lambda *args, **more: given.append(OneOf(7 + len(given))) or given[-1])
    carry.begin()
    assert [one.number for one in given] == [7, 8] and carry.stream is given[1]


class OneOf(SimpleNamespace):
    """A stream of torch's pool: two that have one number are the same."""

    def __init__(self, number):
        super().__init__(number=number)

    def __eq__(self, other):
        return self.number == other.number

    def wait_stream(self, other):
        assert self != other


@pytest.mark.parametrize("carried", [False, True])
def test_the_copies_begin_behind_the_launch_and_the_next_launch_behind_them(monkeypatch, order, carried):
    """Of a rank of two; the launch is noted, not made, and its signals are there."""
    module, memory, peers = sys.modules["mimw.ops.distributed.matmul_reduce_scatter"], {}, []

    class World(Rank):
        table = torch.zeros(5, dtype=torch.int64)

        def __init__(self):
            self.rank, self.size, self.device = 0, 2, "cpu"

        def peer(self, tensor, rank):
            peers.append(torch.empty_like(tensor))
            return peers[-1]

        def launched(self, name):
            order.append(name)

    def memory_of(world, key, sizes):
        memory.update({name: torch.ones(size, dtype=getattr(torch, type_)) for name, (size, type_) in sizes.items()})
        return memory

    def launched_with(launch, *tensors):
        wanted = [one for one in launch._args if type(one).__name__ == "_Shape" or type(one) is object]
        assert len(tensors) == len(wanted) and all(isinstance(one, torch.Tensor) for one in tensors)
        if carried:
            assert not memory["done"].fill_(3).sub(3).any()

    monkeypatch.setattr(module, "memory_of", memory_of)
    monkeypatch.setattr(Launch, "__call__", launched_with)
    call = module._launching(World(), torch.zeros(384, 64, dtype=torch.bfloat16), torch.zeros(64, 64, dtype=torch.bfloat16), False,
                             replace(CHOSEN, parcel_bytes=CHOSEN.parcel_bytes * carried))
    assert call(torch.zeros(384, 64, dtype=torch.bfloat16), torch.zeros(64, 64, dtype=torch.bfloat16)).shape == (192, 64)
    assert order == (["copies wait for current"] * carried + ["reduce_scatter_gemm"] + ["current wait for copies"] * carried)
    assert not carried or not memory["done"].any()
