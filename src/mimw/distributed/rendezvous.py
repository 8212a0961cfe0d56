"""Rendezvous of the ranks of a group on the host, by torch's store: an error names a rank that comes late or differs, and no
rank hangs.

Input: a store, this rank, and the number of ranks. Output: the values of all ranks; or an error that names ranks:

    rendezvous = Rendezvous(store, rank=0, size=4, group="0", limit=30.0, ended=lambda: {})
    rendezvous.heard("who is where", {"pid": 17})      a list: what each rank gave, plain data
    rendezvous.agree("symmetric 'x'", [[64], "float32"])           RanksDisagree where a rank gives something else
    rendezvous.from_first("the sums", lambda: [b"of rank 0", ...])     what rank 0 made for this rank
    ... PeerLate: rank 2 of group '0' has not come to symmetric 'x' within 30 s; ranks 0, 1 and 3 are there.

Every rank makes the same calls in the same order; the number of the call is in the keys. A key is removed two calls later,
when all ranks are known to have read it.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Mapping
from typing import Any

from ..errors import DistributedError, PeerLate, PeerLost, RanksDisagree

FIRST_LOOK, SLOWEST_LOOK = 0.0002, 0.01     # seconds between two looks into the store


class Rendezvous:
    """Calls of all ranks of a group, by a store.

    `ended` gives the ranks whose processes are known to have ended: {rank: the evidence}. `limit` is in seconds.
    """

    def __init__(self, store: Any, rank: int, size: int, group: str, limit: float,
                 ended: Callable[[], Mapping[int, str]] = dict, ended_soon: Callable[[], Mapping[int, str]] | None = None):
        self.store, self.rank, self.size, self.group, self.limit, self.ended = store, rank, size, group, limit, ended
        self.ended_soon = ended_soon or ended
        self.calls, self.process = 0, os.getpid()

    def heard(self, what: str, mine: Any) -> list[Any]:
        """The values that the ranks gave in this call, by rank.

        args:      what   names the call in messages; the same at all ranks
                   mine   plain data, as JSON has it: tuples come back as lists
        errors:    PeerLate for ranks that do not come within the limit, PeerLost for those whose process has ended; RanksDisagree
                   where a rank makes another call; DistributedError in a process that was forked from the rank's
        """
        number = self._next(what)
        try:
            self.store.set(self._key(number, self.rank), json.dumps([what, mine]))
            self._await(number, what)
            said = [json.loads(self.store.get(self._key(number, rank))) for rank in range(self.size)]
            if number > 1:      # who has come to the call before this one had read those of the one before that
                self.store.delete_key(self._key(number - 2, self.rank))
        except DistributedError:
            raise
        except RuntimeError as error:       # torch's, of a store that is no more
            raise self._without_store(what, error) from error
        if any(other != what for other, _ in said):
            raise self.difference("the ranks make different collective calls", [other for other, _ in said])
        return [value for _, value in said]

    def agree(self, what: str, mine: Any, shown: Callable[[Any], str] = str) -> None:
        """RanksDisagree, at all ranks, unless all give the same; other errors as `heard`."""
        said = self.heard(what, mine)
        if any(value != said[0] for value in said):
            raise self.difference(f"the ranks disagree on {what}", list(map(shown, said)))

    def from_first(self, what: str, make: Callable[[], list[bytes]]) -> bytes | None:
        """This rank's of the parts that rank 0 makes, one for each rank, while the others wait for it without a time limit.

        args:      what   names the call in messages; all ranks make it
                   make   called at rank 0 alone
        returns:   at the other ranks, None where `make` raised, which it does on at rank 0
        errors:    PeerLost where the process of rank 0 has ended; as `heard` in a forked process
        """
        number = self._next(what)
        if self.rank:
            return self._from_first(number, what)
        parts: list[bytes] = []
        try:
            parts = make()
            return parts[0]
        finally:
            for rank in range(1, self.size):
                self._leave(number, what, rank, b"1" + parts[rank] if parts else b"0")

    def _next(self, what: str) -> int:
        """The number of a call. A forked process would answer in its parent's place, over the parent's connection."""
        if os.getpid() != self.process:
            raise DistributedError(f"{what}: process {os.getpid()} was forked from process {self.process}, which is rank "
                                   f"{self.rank} of group {self.group!r}, and is no rank itself",
                                   hint="call it in the ranks' own processes, not in the workers of a data loader")
        number, self.calls = self.calls, self.calls + 1
        return number

    def _leave(self, number: int, what: str, rank: int, part: bytes) -> None:
        try:
            self.store.set(f"{number}/for {rank}", part)
        except RuntimeError as error:       # torch's, of a store that is no more
            raise self._without_store(what, error) from error

    def _from_first(self, number: int, what: str) -> bytes | None:
        pause, key = FIRST_LOOK, f"{number}/for {self.rank}"
        try:
            while not self.store.check([key]):
                ended = {rank: how for rank, how in self.ended().items() if not rank}
                if ended and not self.store.check([key]):       # it may have left the parts and ended since the look
                    raise self._absent(PeerLost, what, ended, [0])
                time.sleep(pause)
                pause = min(2 * pause, SLOWEST_LOOK)
            said = self.store.get(key)
            self.store.delete_key(key)
        except DistributedError:
            raise
        except RuntimeError as error:
            raise self._without_store(what, error) from error
        return said[1:] if said[:1] == b"1" else None

    def difference(self, problem: str, said: list[str]) -> RanksDisagree:
        """The error, with the text of each rank."""
        groups: dict[str, list[int]] = {}
        for rank, text in enumerate(said):
            groups.setdefault(text, []).append(rank)
        told = "; ".join(f"{named(ranks)}: {text}" for text, ranks in groups.items())
        common = max(groups.values(), key=len)
        return RanksDisagree(f"{problem} (group {self.group!r}, reported by rank {self.rank}): {told}",
                             hint="make the same calls with the same shapes and types in the same order at every rank",
                             ranks=[rank for ranks in groups.values() if ranks is not common for rank in ranks])

    def _key(self, number: int, rank: int) -> str:
        return f"{number}/{rank}"

    def _await(self, number: int, what: str) -> None:
        """Wait until all ranks have come to a call."""
        until, pause, missing = time.monotonic() + self.limit, FIRST_LOOK, [rank for rank in range(self.size) if rank != self.rank]
        while missing:
            missing = [rank for rank in missing if not self.store.check([self._key(number, rank)])]
            ended = {rank: how for rank, how in self.ended().items() if rank in missing} if missing else {}
            # A process may have come here and ended since the look: look once more.
            ended = {rank: how for rank, how in ended.items() if not self.store.check([self._key(number, rank)])}
            if ended:
                raise self._absent(PeerLost, what, ended, missing)
            if missing and time.monotonic() > until:
                raise self._absent(PeerLate, what, {}, missing)
            if missing:
                time.sleep(pause)
                pause = min(2 * pause, SLOWEST_LOOK)

    def _without_store(self, what: str, error: RuntimeError) -> DistributedError:
        """The store ends with the process that keeps it: rank 0 of all, or torchrun."""
        ended = self.ended_soon()
        if ended:
            return self._absent(PeerLost, what, ended, list(ended))
        return DistributedError(f"rank {self.rank} of group {self.group!r} does not reach the store for {what}: {error}",
                                hint="find out why rank 0 ended, or torchrun, which keeps the store; then start all ranks again")

    def _absent(self, kind: type, what: str, ended: Mapping[int, str], missing: list[int]) -> PeerLate:
        here = [rank for rank in range(self.size) if rank not in missing]
        there = f"; {named(here)} wait{'s' * (len(here) == 1)} there"
        if ended:
            told = "; ".join(f"rank {rank} of group {self.group!r} will not reach {what}: {how}" for rank, how in ended.items())
            return kind(told + there, hint="find out why that process ended, then start all ranks again", ranks=ended)
        return kind(f"{named(missing)} of group {self.group!r} did not reach {what} within {self.limit:g} s{there}",
                    hint="find out why that rank is late, or allow more: mimw.distributed.init(timeout=seconds)", ranks=missing)


def named(ranks: list[int]) -> str:
    """Ranks in words: "rank 2", "ranks 0, 1 and 3"."""
    if len(ranks) == 1:
        return f"rank {ranks[0]}"
    return f"ranks {', '.join(map(str, ranks[:-1]))} and {ranks[-1]}"


__all__ = ["Rendezvous", "named"]
