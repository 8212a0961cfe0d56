"""The private names of torch that `mimw.distributed` stands on: each is there, in this torch."""

import inspect

import pytest

torch = pytest.importorskip("torch", reason="the names are torch's")

from torch.distributed import distributed_c10d as c10d  # noqa: E402

from mimw.distributed import torch_port  # noqa: E402
from tests.ranks import at_ranks  # noqa: E402


def test_symmetric_memory():
    symmetric = pytest.importorskip("torch.distributed._symmetric_memory")
    assert {"dtype", "device"} <= set(inspect.signature(symmetric.empty).parameters)
    assert list(inspect.signature(symmetric.rendezvous).parameters) == ["tensor", "group"]
    handle = torch._C._distributed_c10d._SymmetricMemory
    assert all(hasattr(handle, name) for name in ("buffer_ptrs", "rank", "multicast_ptr", "get_buffer"))


def test_groups():
    def work(rank):
        group = torch_port.group_of(None)
        store = torch_port.store_of(group)
        store.set(f"said by {rank}", "yes")
        return (group.group_name, group.rank(), group.size(), group in torch_port.alive(), torch_port.uses_gpus(group),
                torch_port.group_of(group.group_name) is group, store.get(f"said by {1 - rank}"), group in c10d._world.pg_map)

    assert at_ranks(2, work) == [("0", rank, 2, True, False, True, b"yes", True) for rank in range(2)]
