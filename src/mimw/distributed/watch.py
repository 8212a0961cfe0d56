"""The watch over a world's launches: a kernel that waits for a peer which does not come ends the process, and the peer is named.

Input: notes that a stream got a kernel of several GPUs (`note`). Output: nothing; or a report on stderr and exit status 124:

    mimw: PeerLost: rank 0 of group '0' does not go on: 'put', the 41st launch of several GPUs here, has not come back for 3 s.
    rank 1: its process 4711 has ended
    programs 0 to 1 of rank 0 came to a world barrier, and rank 1 did not

A kernel that waits cannot be stopped: only the end of its process ends it. A launch has come back when an event behind it in its
stream has passed. The thread records that event itself, soon after the note, so a launch pays for a note alone; and once more at
its next look, since a note may come just before its launch. The time of a stream begins anew whenever one of its events passes.

    all peers run                   a stream has `limit` seconds
    a peer's process has ended      a stream has GRACE seconds; so has the whole device where pads show that it waits for that peer,
    without leaving: it is lost     else REST seconds: replays of CUDA graphs, which are not noted, are found so
    a peer has left, at its end     a stream has GRACE seconds where pads show that it waits for that peer
"""

from __future__ import annotations

import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..compiler.triton_port.cuda import Cuda
from ..ir.world import PROGRAMS
from ..runtime.watchdog.limit import STATUS, end_process, tell
from . import pads

POLL = 0.2          # seconds between two looks
GRACE = 3.0         # seconds that kernels have once a peer's process has ended
TOLD_EVERY = 1.0    # seconds between two words to the peers of how far this rank is
REST = 30.0         # seconds that a device has to come to rest, where nothing shows that it waits
COPY_SECONDS = 5.0

_IDLE: dict[int, list[Any]] = {}    # by device: what watches that have ended have left


def driver_of(index: int) -> Any:
    """The driver's calls for a watch of a device: a `Cuda` of its own. It has page-locked memory, so one that was left is taken."""
    left = _IDLE.setdefault(index, [])
    device = left.pop() if left else Cuda()
    device.index = index
    return device


@dataclass
class Stream:
    """The events of a stream that have not passed yet, and since when none has."""

    events: deque = field(default_factory=deque)
    since: float = 0.0


class Watch:
    """One for each world of several GPUs.

    args:      rank, size, group   of the world
               limit   gives the seconds that a launch has while all peers run
               ended   gives the ranks whose processes have ended, with how that is known
               store   of the world, over a connection of the thread's own
               device  what `driver_of` gives, or what looks like it
               bases   where each rank's heap begins
    """

    def __init__(self, rank: int, size: int, group: str, limit: Callable[[], float], ended: Callable[[], Mapping[int, str]],
                 store: Any, device: Any, bases: list[int], ending: Callable[[], Any] = end_process,
                 say: Callable[[str], None] = tell):
        self.rank, self.size, self.group, self.limit, self.ended, self.store = rank, size, group, limit, ended, store
        self.device, self.bases, self.ending, self.say = device, bases, ending, say
        self.noted: set[int] = set()        # streams with launches behind which there is no event yet
        self._again: set[int] = set()       # those that get another one
        self.launches, self.last = 0, ""
        self.lost: dict[int, str] = {}      # ranks that ended without leaving: launches that need them are refused
        self.finishing = threading.Event()
        self._streams: dict[int, Stream] = {}
        self._gone: dict[int, tuple[str, float]] = {}       # ranks that have ended: how, and since when that is known
        self._told, self._told_at, self._probe = 0, 0.0, None
        self.thread = threading.Thread(target=self._watch, name="mimw world watch", daemon=True)

    # ---- where launches are made ------------------------------------------------------------------------------------

    def note(self, stream: int, name: str = "") -> None:
        """A kernel that may wait for peers was given to a stream that records no graph."""
        if name:
            self.launches += 1
            self.last = name
        self.noted.add(stream)

    def finish(self) -> None:
        """Let the peers know, at the end of the process, that this rank leaves, once its launches have come back."""
        self.finishing.set()
        if self.thread.is_alive():
            self.thread.join()
            if self._probe is None or self._probe[1].is_set():      # no thread of this uses it any more
                _IDLE.setdefault(self.device.index, []).append(self.device)
        # A process that ends by an uncaught error has not left: its peers may wait for what it had yet to do.
        if not hasattr(sys, "last_value"):
            self._asked_of_the_store(lambda: self.store.set(f"left/{self.rank}", "1"))

    # ---- the thread -------------------------------------------------------------------------------------------------

    def _watch(self) -> None:
        self.device.enter()
        self.device.relax()
        while True:
            ending = self.finishing.wait(POLL)
            if self.look(time.monotonic()):
                self.ending()
                return
            if ending and not self._streams and not self.noted and not self._again:
                return
            if ending:
                time.sleep(POLL)

    def look(self, now: float) -> bool:
        """True if this process has to end; the reason has been reported then."""
        self._follow(now)
        self._notice(now)
        self._tell_peers(now)
        late = max((now - stream.since for stream in self._streams.values()), default=0.0)
        gone_for = max((now - since for _, since in self._gone.values()), default=0.0)
        at_work = self._at_work(now)
        if (late > self.limit() or at_work > REST or self.lost and min(late, gone_for) > GRACE
                or max(at_work, min(late, gone_for)) > GRACE and self._waits_for_who_is_gone()):
            self.report(max(late, at_work))
            return True
        return False

    def _waits_for_who_is_gone(self) -> bool:
        try:
            return not self._gone.keys().isdisjoint(self.waits())
        except (RuntimeError, TimeoutError):
            return False

    def _follow(self, now: float) -> None:
        """Record events behind the launches noted, and drop those that have passed."""
        noted, again = set(), self._again
        while self.noted:                   # launches go on beside this, adding to it
            noted.add(self.noted.pop())
        self._again = noted
        for stream in noted | again:
            try:
                if not self.device.capturing(stream):
                    held = self._streams.setdefault(stream, Stream(since=now))
                    held.events.append(self.device.record(stream))
            except RuntimeError:        # a stream that does not exist any more
                continue
        for stream, held in list(self._streams.items()):
            while held.events and self._done(held.events[0]):
                self.device.give_back(held.events.popleft())
                held.since = now
            if not held.events:
                del self._streams[stream]

    def _done(self, event: Any) -> bool:
        """A kernel that failed has come back, too: the script's next call reports its error."""
        try:
            return self.device.done(event)
        except RuntimeError:
            return True

    def _notice(self, now: float) -> None:
        """Peers that have ended since the last look; those that had not left are lost."""
        for rank, how in self.ended().items():
            if rank not in self._gone:
                self._gone[rank] = how, now
                if not self._asked_of_the_store(lambda: self.store.check([f"left/{rank}"])):
                    self.lost[rank] = how

    def _at_work(self, now: float) -> float:
        """The seconds for which the device has not come to rest since a peer was lost; 0 if no peer is lost."""
        if not self.lost:
            return 0.0
        if self._probe is None or self._probe[1].is_set():
            rested = threading.Event()
            threading.Thread(target=self._rest, args=(rested, ), name="mimw world probe", daemon=True).start()
            self._probe = now, rested
        return 0.0 if self._probe[1].is_set() else now - self._probe[0]

    def _rest(self, rested: threading.Event) -> None:
        try:
            self.device.enter()
            self.device.relax()
            self.device.synchronize()
        except RuntimeError:        # a failed kernel, or a graph under record: nothing that hangs
            pass
        rested.set()

    def _tell_peers(self, now: float) -> None:
        if self.launches != self._told and now - self._told_at > TOLD_EVERY:
            self._told, self._told_at = self.launches, now
            self._asked_of_the_store(lambda: self.store.set(f"at/{self.rank}", f"{self._told} {self.last}"))

    def _asked_of_the_store(self, ask: Callable[[], Any]) -> Any:
        """None where the process that keeps the store has ended."""
        try:
            return ask()
        except RuntimeError:
            return None

    # ---- the report -------------------------------------------------------------------------------------------------

    def report(self, seconds: float) -> None:
        """Report the known facts, in parts: the first is the one that surely comes."""
        kind = "PeerLost" if self._gone else "PeerLate"
        what = f"{self.last!r}, the {_ordinal(self.launches)} launch of several GPUs here," if self.last else "a launch"
        self.say(f"\nmimw: {kind}: rank {self.rank} of group {self.group!r} does not go on: {what} has not come back for "
                 f"{seconds:.0f} s.")
        for rank, (how, _) in self._gone.items():
            self.say(f"rank {rank}: {how}")
        try:
            waiting = self.waits()
            self.say(pads.told(self.rank, waiting) or "No program waits at a world barrier: one waits for a signal, or computes.")
        except (RuntimeError, TimeoutError) as error:
            self.say(f"The signal pads cannot be read: {error}")
        for rank in range(self.size):
            if rank != self.rank and rank not in self._gone:
                self.say(self._how_far(rank))
        self.say(f"A kernel that waits cannot be stopped, so this process ends with status {STATUS}. Time limits: "
                 f"{self.limit():g} s (mimw.distributed.init(timeout=)), {GRACE:g} s once a peer has ended.")

    def waits(self) -> dict[int, list[int]]:
        """The programs of this rank that wait at a barrier for each peer."""
        size, until = PROGRAMS * self.size * 4, time.monotonic() + COPY_SECONDS
        found = {}
        for rank, base in enumerate(self.bases):
            try:
                found[rank] = self.device.copied(base, size, until).view(np.uint32).reshape(PROGRAMS, self.size)
            except (RuntimeError, TimeoutError):
                if rank == self.rank:
                    raise
        return pads.waits(self.rank, found)

    def _how_far(self, rank: int) -> str:
        key = f"at/{rank}"
        text = self._asked_of_the_store(lambda: self.store.get(key).decode() if self.store.check([key]) else "0 ")
        if text is None:
            return f"rank {rank}: unknown, since the store of its progress has ended"
        launches, _, last = text.partition(" ")
        behind = self.launches - int(launches)
        place = f"{behind} fewer than" if behind > 0 else f"{-behind} more than" if behind else "as many as"
        return (f"rank {rank}: its process runs, and has made {launches} such launches, {place} this rank"
                + (f"; the last was {last!r}" if last else "") + f" (updated every {TOLD_EVERY:g} s)")


def _ordinal(number: int) -> str:
    suffix = "th" if number % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{suffix}"


__all__ = ["Watch", "driver_of"]
