"""The watch over launches of several GPUs, with a device made by hand: when it ends the process, and what it says."""

import ctypes
import os
import signal
import threading
import time

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="the stores are those of torch.distributed")

from mimw.distributed import watch as watches  # noqa: E402
from mimw.distributed import world_of  # noqa: E402
from mimw.distributed.pads import told, waits  # noqa: E402
from mimw.distributed.watch import GRACE, REST, Watch  # noqa: E402
from mimw.ir.world import PROGRAMS  # noqa: E402
from tests.ranks import Ranks  # noqa: E402

LIMIT, STREAM = 60.0, 7


class Device:
    """Events pass when their stream has come so far: `progress[stream]`, counted in events."""

    index = -1      # of no GPU

    def __init__(self):
        self.recorded, self.progress, self.at_rest = {}, {}, threading.Event()
        self.at_rest.set()

    def enter(self):
        pass

    relax = enter

    def capturing(self, stream):
        return stream == 99

    def record(self, stream):
        if stream == 13:
            raise RuntimeError("CUDA_ERROR_INVALID_HANDLE")
        self.recorded[stream] = self.recorded.get(stream, 0) + 1
        return stream, self.recorded[stream]

    def done(self, event):
        return event[1] <= self.progress.get(event[0], 0)

    def give_back(self, event):
        pass

    def synchronize(self):
        self.at_rest.wait()

    def copied(self, address, size, until):
        return np.ctypeslib.as_array((ctypes.c_uint8 * size).from_address(address)).copy()


class World:
    """Two ranks, of which rank 0 watches."""

    def __init__(self):
        self.pads = [np.zeros((PROGRAMS, 2), np.uint32) for _ in range(2)]
        self.device, self.store, self.ended, self.said = Device(), torch.distributed.HashStore(), {}, []
        self.watch = Watch(0, 2, "0", lambda: LIMIT, lambda: self.ended, self.store, self.device,
                           [pads.ctypes.data for pads in self.pads], ending=lambda: self.said.append("end"), say=self.said.append)
        self.now = 100.0

    def after(self, seconds):
        """A look, so many seconds later."""
        self.now += seconds
        return self.watch.look(self.now)

    def launched(self, passed=False):
        """A launch, and the two looks that record events behind it."""
        self.watch.note(STREAM, "put")
        looks = self.after(0), self.after(0.2)
        if passed:
            self.device.progress[STREAM] = self.device.recorded[STREAM]
        return looks

    @property
    def text(self):
        return "\n".join(self.said)


@pytest.fixture
def world():
    found = World()
    yield found
    found.device.at_rest.set()


def test_a_launch_that_comes_back_is_forgotten(world):
    assert world.launched(passed=True) == (False, False)
    assert not world.after(1) and not world.watch._streams and world.device.recorded[STREAM] == 2
    assert not world.after(1000) and not world.said


def test_a_late_peer_is_named_after_the_limit(world):
    world.launched()
    world.store.set("at/1", "3 get")
    world.pads[1][:2, 0] = 1            # programs 0 and 1 of this rank have come
    assert not world.after(LIMIT - 1)
    assert world.after(2)
    assert "PeerLate: rank 0 of group '0' does not go on: 'put', the 1st launch of several GPUs here," in world.text
    assert "programs 0 to 1 of rank 0 reached a world barrier, and rank 1 did not" in world.text
    assert "rank 1: its process runs, and has made 3 such launches, 2 more than this rank; the last was 'get'" in world.text
    assert world.text.endswith("Time limits: 60 s (mimw.distributed.init(timeout=)), 3 s once a peer has ended.")


def test_a_stream_that_goes_on_has_its_time_anew(world):
    world.launched()
    world.after(LIMIT - 1)
    world.watch.note(STREAM, "put")
    world.device.progress[STREAM] = 2
    assert not world.after(0) and not world.after(LIMIT - 1) and world.after(2)


def test_a_lost_peer_is_named_within_the_grace(world):
    world.launched()
    world.ended[1] = "its process 4711 has ended"
    assert not world.after(1) and world.watch.lost == world.ended
    assert not world.after(GRACE - 0.5) and world.after(1)
    assert "PeerLost: rank 0 of group '0'" in world.text and "rank 1: its process 4711 has ended" in world.text
    assert "No program waits at a world barrier" in world.text and "its process runs" not in world.text


def test_a_peer_that_has_left_holds_nobody_up(world):
    """Its last launches have come back: what runs here yet is this rank's own, unless it waits at a barrier for that peer."""
    world.launched()
    world.store.set("left/1", "1")
    world.ended[1] = "its process 4711 has ended"
    assert not world.after(1) and not world.after(LIMIT - 10) and not world.watch.lost
    world.pads[1][5, 0] = 1
    assert world.after(1) and "program 5 of rank 0 reached a world barrier, and rank 1 did not" in world.text


@pytest.mark.parametrize("shown, seconds", [(True, GRACE), (False, REST)])
def test_launches_that_were_not_noted_are_found_once_a_peer_is_lost(world, shown, seconds):
    """Replays of a graph: the device does not come to rest."""
    world.device.at_rest.clear()
    world.pads[1][5, 0] = shown
    world.ended[1] = "its process 4711 has ended"
    assert not world.after(1) and not world.after(seconds - 0.5) and world.after(1)
    assert "a launch has not come back" in world.text


def test_a_device_at_rest_goes_on_without_the_lost_peer(world):
    world.ended[1] = "its process 4711 has ended"
    for _ in range(5):
        assert not world.after(REST)
        time.sleep(0.01)        # the thread that asks the device
    assert not world.said and world.watch.lost


def test_streams_under_record_and_streams_that_are_no_more(world):
    world.watch.note(99, "put")
    world.watch.note(13, "put")
    assert not world.after(0) and not world.after(1000) and not world.device.recorded


def test_the_thread_ends_the_process_or_leaves(world, monkeypatch):
    monkeypatch.setattr(watches, "POLL", 0.001)
    world.watch.thread.start()
    world.watch.note(STREAM, "put")
    ending = threading.Thread(target=world.watch.finish)
    ending.start()
    ending.join(0.05)
    assert ending.is_alive()            # the launch may hang yet
    world.device.progress[STREAM] = 10
    ending.join(5)
    assert not ending.is_alive() and world.store.check(["left/0"]) and not world.said


def test_a_process_that_waits_for_a_killed_one_ends_and_says_so(monkeypatch):
    """Real processes, a device made by hand: its stream does not go on, as if a kernel waited."""
    def work(rank):
        world, found = world_of(), World()
        monkeypatch.setattr(watches, "GRACE", 0.2)
        monkeypatch.setattr(watches, "POLL", 0.01)
        found.pads[1][0, 0] = 1
        watch = Watch(rank, 2, world.name, lambda: LIMIT, world.peers.ended, world._store(), found.device,
                      [pads.ctypes.data for pads in found.pads])
        world.barrier()
        if rank == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        watch.note(STREAM, "put")
        watch.thread.start()
        watch.thread.join()             # as a call that synchronises: for ever

    ranks = Ranks(2, work)
    assert ranks.found(failing=True) == [124, -signal.SIGKILL]
    assert "mimw: PeerLost: rank 0 of group '0' does not go on: 'put'" in ranks.stderr[0]
    assert "program 0 of rank 0 reached a world barrier, and rank 1 did not" in ranks.stderr[0] and not ranks.stderr[1]


def test_how_far_a_rank_is_told(world):
    world.launched()
    world.watch.note(STREAM, "get")
    assert not world.after(2) and world.store.get("at/0") == b"2 get"


def test_pads_of_three_ranks():
    """Rank 1 waits for rank 0 with programs 1, 3 and 4, for rank 2 with none: rank 2 has come, or rank 1 has not."""
    own, zero, two = (np.zeros((8, 3), np.uint32) for _ in range(3))
    zero[[1, 3, 4], 1] = 1
    two[:, 1] = own[:, 2] = 1
    two[6, 1] = 0
    assert waits(1, {0: zero, 1: own, 2: two}) == {0: [1, 3, 4]}
    assert told(1, {0: [1, 3, 4]}) == "programs 1, 3, 4 of rank 1 reached a world barrier, and rank 0 did not"
    assert told(1, {0: [7], 2: list(range(0, 20, 2))}).splitlines() == [
        "program 7 of rank 1 reached a world barrier, and rank 0 did not",
        "programs 0, 2, 4, 6, 8, 10, 12, 14 and 2 more of rank 1 reached a world barrier, and rank 2 did not"]


def test_what_a_watch_leaves_at_its_end_is_taken_again(monkeypatch):
    """Page-locked memory of groups that come and go does not pile up; of one whose end was not seen nothing is taken."""
    monkeypatch.setattr(watches, "Cuda", Device)
    monkeypatch.setattr(watches, "_IDLE", {})
    monkeypatch.setattr(watches, "POLL", 0.001)
    one, other = watches.driver_of(0), watches.driver_of(0)
    for device in one, other:
        watch = Watch(0, 2, "0", lambda: LIMIT, dict, torch.distributed.HashStore(), device, [])
        watch.thread.start()
        if device is other:
            watch._probe = 0.0, threading.Event()       # still at work
        watch.finish()
    assert watches.driver_of(1) not in (one, other)
    assert watches.driver_of(0) is one and watches.driver_of(0) not in (one, other)
