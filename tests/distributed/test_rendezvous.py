"""Ranks that tell each other something through a store, with delays; a store that is no more; where peers run; places in a heap."""

import os
import random
import time
from types import SimpleNamespace

import pytest

torch = pytest.importorskip("torch", reason="the stores are those of torch.distributed")

from hypothesis import given  # noqa: E402
from hypothesis import strategies as st  # noqa: E402

from mimw.distributed import world_of  # noqa: E402
from mimw.distributed.peers import Peers, myself  # noqa: E402
from mimw.distributed.places import Places  # noqa: E402
from mimw.distributed.rendezvous import Rendezvous, named  # noqa: E402
from mimw.errors import DistributedError, PeerLost  # noqa: E402
from tests.ranks import at_ranks  # noqa: E402


def test_many_calls_of_two_groups_with_random_delays():
    """Each rank hears of each call what that call's ranks gave, and keys do not pile up."""
    import torch.distributed as dist

    def work(rank):
        worlds, dice = (world_of(), world_of(dist.new_group([1, 0]))), random.Random(rank)
        for number in range(100):
            for index, world in enumerate(worlds):
                if dice.random() < 0.2:
                    time.sleep(dice.random() * 0.002)
                heard = world.rendezvous.heard(f"call {number}", [number, index, world.rank])
                assert heard == [[number, index, other] for other in range(2)]
        return [world.rendezvous.store.check([f"{number}/{rank}"]) for world in worlds for number in (0, 98, 100)]

    assert at_ranks(2, work) == [[False, False, True] * 2] * 2


def test_parts_from_rank_0():
    """Each rank gets its own, and none where it fails; nothing is left, and other calls go on behind it."""
    def work(rank):
        rendezvous, found = world_of().rendezvous, []
        for number in range(3):
            found.append(rendezvous.from_first(f"parts {number}", lambda: [bytes([number, other]) * 2 for other in range(3)]))
        try:
            found.append(rendezvous.from_first("what fails", lambda: [][0]))
        except IndexError:
            found.append("raised")
        rendezvous.heard("behind", None)
        return found, [number for number in range(99) if rendezvous.store.check([f"{number}/for {rank}"])]

    parts = [[bytes([number, rank]) * 2 for number in range(3)] for rank in range(3)]
    assert at_ranks(3, work) == [(parts[rank] + [None if rank else "raised"], []) for rank in range(3)]


class Gone:
    """A store whose process has ended."""

    def set(self, key, value):
        raise RuntimeError("Connection reset by peer")


@pytest.mark.parametrize("ended, kind, said", [
    ({0: "its process 17 has ended"}, PeerLost, "rank 0 of group 'tp' will not reach the step: its process 17 has ended"),
    ({}, DistributedError, "rank 1 of group 'tp' does not reach the store for the step: Connection reset by peer")])
def test_a_store_that_is_no_more(ended, kind, said):
    with pytest.raises(DistributedError) as caught:
        Rendezvous(Gone(), 1, 2, "tp", 5.0, lambda: ended).heard("the step", None)
    assert type(caught.value) is kind and said in str(caught.value) and caught.value.ranks == tuple(ended)


def test_ranks_in_words():
    assert [named(ranks) for ranks in ([2], [0, 1], [0, 1, 3])] == ["rank 2", "ranks 0 and 1", "ranks 0, 1 and 3"]


def test_processes_that_have_ended():
    """A child that nobody has waited for yet, one that is there, one elsewhere, and a number that is used again."""
    reader, writer = os.pipe()
    if not (running := os.fork()):
        os.close(writer)
        os.read(reader, 1)          # until the test is over
        os._exit(0)
    if not (ended := os.fork()):
        os._exit(0)
    os.close(reader)
    try:
        os.waitid(os.P_PID, ended, os.WEXITED | os.WNOWAIT)
        mine = myself()
        facts = [mine, {**mine, "pid": running, "since": mine["since"]}, {**mine, "pid": ended, "since": "1"},
                 {**mine, "machine": "another", "pid": 1, "since": "1"}]
        facts[1]["since"] = _since(running)
        assert Peers(facts, 0).ended() == {2: f"its process {ended} has ended"}
        facts[1]["since"] = "1"
        assert set(Peers(facts, 0).ended()) == {1, 2}
    finally:
        os.close(writer)
        os.waitpid(running, 0), os.waitpid(ended, 0)


def _since(pid):
    with open(f"/proc/{pid}/stat") as file:
        return file.read().rpartition(")")[2].split()[19]


def test_gpus_that_ranks_share_or_do_not_reach(monkeypatch):
    """Ranks 0 and 2 on one GPU; rank 1's is not reached from rank 0's; rank 3's cannot be seen from here."""
    facts = [{"machine": "m", "pid": 1, "since": "1", "device": name} for name in ("gpu-0", "gpu-1", "gpu-0", "gpu-9")]
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: SimpleNamespace(uuid=f"gpu-{device.index}"))
    monkeypatch.setattr(torch.cuda, "can_device_access_peer", lambda one, other: False)
    peers = Peers(facts, 0)
    assert peers.sharing() == [[0, 2]] and peers.without_access(torch.device("cuda", 0)) == [1]
    monkeypatch.setattr(torch.cuda, "can_device_access_peer", lambda one, other: True)
    assert peers.without_access(torch.device("cuda", 0)) == []


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 3000)), max_size=40))
def test_places_are_apart_and_the_same_for_the_same_calls(calls):
    one, other = Places(100, 16384), Places(100, 16384)
    for take, number in calls:
        if take:
            widest = one.widest
            at = one.take(number)
            assert at == other.take(number) and (at is None) == (max(256, -(-number // 256) * 256) > widest)
        elif one.taken:
            at = list(one.taken)[number % len(one.taken)]
            assert one.give(at) == other.give(at)
        spans = [(start, start + size) for start, size in one.taken.items()]
        assert all(end <= start for (_, end), (start, _) in zip(spans, spans[1:]))
        assert all(start % 256 == 0 and 256 <= start and end <= 16384 for start, end in spans)
        assert one.free == 16384 - 256 - sum(one.taken.values()) and one.widest <= one.free
