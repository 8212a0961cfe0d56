"""Ranks that have a GPU together: when they may, and what they are started with. What they compute, tests/several_gpus shows."""

import os
from types import SimpleNamespace

import pytest

torch = pytest.importorskip("torch", reason="mimw.distributed stands on torch.distributed")

from mimw.distributed import start  # noqa: E402
from mimw.distributed.peers import Peers  # noqa: E402
from mimw.distributed.world import GroupWorld  # noqa: E402
from mimw.errors import PeerWithoutAccess  # noqa: E402
from mimw.ops.distributed.launching import FREE_FOR_COPIES, programs_beside_copies  # noqa: E402

VARIABLES = "TORCH_SYMM_MEM_ALLOW_OVERLAPPING_DEVICES", "TORCH_SYMM_MEM_DISABLE_MULTICAST"


@pytest.fixture
def two_gpus(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: SimpleNamespace(uuid=f"gpu-{device.index}"))
    monkeypatch.setattr(torch.cuda, "can_device_access_peer", lambda one, other: True)
    for name in (*VARIABLES, "MIMW_SHARE_GPUS", "LOCAL_WORLD_SIZE", "WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setitem(start._ASKED, "share_gpus", None)
    yield
    for name in VARIABLES:
        os.environ.pop(name, None)


def world(shares, gpus="0101"):
    """Rank 0 of a group whose ranks are on these GPUs; `shares` are the ranks that may have one together."""
    made = object.__new__(GroupWorld)
    facts = [{"machine": "m", "pid": 1, "since": "1", "device": f"gpu-{gpu}", "shares": rank in shares}
             for rank, gpu in enumerate(gpus)]
    made.peers, made.rank, made.size, made.name = Peers(facts, 0), 0, len(gpus), "0"
    made.device, made.shares_gpus = torch.device("cuda", 0), False
    made._check_devices()
    return made


def test_each_rank_has_to_say_so(two_gpus):
    with pytest.raises(PeerWithoutAccess, match="(?s)ranks 0 and 2 of group '0' have one GPU.*MIMW_SHARE_GPUS=1") as caught:
        world((0, 1, 3))
    assert list(caught.value.ranks) == [0, 2] and not any(name in os.environ for name in VARIABLES)
    assert world((0, 1, 2, 3)).shares_gpus and [os.environ[name] for name in VARIABLES] == ["1", "1"]


def test_nothing_changes_where_each_has_its_own(two_gpus):
    assert not world((0, 1), "01").shares_gpus and not any(name in os.environ for name in VARIABLES)


@pytest.mark.parametrize("share, here, own", [(None, 2, True), (None, 4, True), ("1", 2, True), ("1", 4, False), ("0", 4, True),
                                              (True, 4, False), (False, 4, True)])
def test_nccl_is_for_ranks_with_a_gpu_each(two_gpus, monkeypatch, share, here, own):
    """Without a word the error is that of the world."""
    monkeypatch.setenv("LOCAL_WORLD_SIZE", str(here))
    if isinstance(share, str):
        monkeypatch.setenv("MIMW_SHARE_GPUS", share)
    else:
        start._ASKED["share_gpus"] = share
    assert start._a_gpu_each() == own


def test_copies_between_ranks_of_one_gpu_find_room(monkeypatch):
    monkeypatch.setattr("mimw.ops.distributed.launching.programs", lambda on: 132)
    of = [programs_beside_copies(SimpleNamespace(shares_gpus=shares), None) for shares in (False, True)]
    assert of == [132, 132 - FREE_FOR_COPIES]
