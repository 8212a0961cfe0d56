"""Rows brought by copy engines: which rows go where, in which order, and which signals follow; streams and peers are stand-ins."""

import contextlib

import pytest

torch = pytest.importorskip("torch", reason="copies of torch tensors")

from mimw.kernels.all_gather_gemm import Configuration, room_for  # noqa: E402
from mimw.ops.distributed import copy_engine  # noqa: E402

CHOSEN = Configuration(bm=64, bn=64, group_m=1, consumers=1)


class Rank:
    """Of a world all of whose memory is this process's."""

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
