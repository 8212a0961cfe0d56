"""What workers on one GPU ask of the driver and of torch, with others in their place."""

from types import SimpleNamespace

import pytest

from tests import gpu_workers


@pytest.mark.parametrize("said, starts", [(0, True), (100, True), (3, False)])     # success, no device, started before the fork
def test_a_driver_that_was_started_does_not_survive_a_fork(monkeypatch, said, starts):
    monkeypatch.setattr(gpu_workers.ctypes, "CDLL", lambda name: SimpleNamespace(cuInit=lambda flags: said))
    assert gpu_workers.starts_in_a_fork() is starts


def test_nor_does_what_torch_has_started(monkeypatch):
    assert gpu_workers.starts_in_a_fork()
    monkeypatch.setitem(gpu_workers.sys.modules, "torch", SimpleNamespace(cuda=SimpleNamespace(_is_in_bad_fork=lambda: True)))
    assert not gpu_workers.starts_in_a_fork()


class Cuda:
    """A cache of freed memory, of which a part is held by garbage."""

    def __init__(self, reserved: int, garbage: int = 0):
        self.reserved, self.garbage, self.emptied = reserved, garbage, 0

    def memory_reserved(self):
        return self.reserved

    def empty_cache(self):
        self.reserved, self.emptied = self.garbage, self.emptied + 1


@pytest.mark.parametrize("reserved, garbage, emptied", [(gpu_workers.KEPT, 0, 0), (gpu_workers.KEPT + 1, 5, 1),
                                                         (3 * gpu_workers.KEPT, 2 * gpu_workers.KEPT, 2)])
def test_much_is_given_back(monkeypatch, reserved, garbage, emptied):
    cuda = Cuda(reserved, garbage)
    monkeypatch.setattr(gpu_workers.gc, "collect", lambda: setattr(cuda, "garbage", 0))
    gpu_workers.give_back(cuda)
    assert cuda.emptied == emptied and cuda.reserved <= gpu_workers.KEPT


def test_a_device_is_broken_when_it_refuses_to_be_waited_for(monkeypatch):
    def refuse():
        raise RuntimeError("CUDA error: an illegal memory access was encountered")

    cuda = SimpleNamespace(is_initialized=lambda: False, synchronize=refuse)
    monkeypatch.setitem(gpu_workers.sys.modules, "torch", SimpleNamespace(cuda=cuda))
    assert not gpu_workers.is_broken(), "not started"
    cuda.is_initialized = lambda: True
    assert gpu_workers.is_broken()
    cuda.synchronize = lambda: None
    assert not gpu_workers.is_broken()
