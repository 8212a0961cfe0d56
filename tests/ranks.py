"""A function at several ranks: processes forked from this one, a process group among them.

    assert at_ranks(2, lambda rank: ops.distributed.all_reduce(torch.full((4, ), rank + 1.0)).tolist()) == [[3.0] * 4] * 2

    at_ranks(2, work, failing=True)     ranks may fail: for those the error, or how the process ended, takes the place of the value
    Ranks(2, work, gpus=True)           started, each rank on a GPU, its own if there are as many; `.found()` waits

Input: how many ranks, and a function of the rank, which may be a closure; it finds `torch.distributed` and `mimw.distributed`
started. Output: what the function returned at each rank, by pickle. An error at a rank is raised here with the rank's traceback;
processes that do not come back in time are killed, and named.
"""

import gc
import os
import pickle
import selectors
import signal
import tempfile
import time
import traceback
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any


class RankFailed(AssertionError):
    """A function raised at a rank, or did not come back."""


def at_ranks(size: int, function: Callable[[int], Any], limit: float = 60.0, timeout: float = 20.0, failing: bool = False) -> list:
    """`function(rank)` at every rank, side by side. `limit` is for all of it, `timeout` that of `mimw.distributed.init`; seconds.

    A rank whose process ends without an answer has failed; with `failing` its answer is the exit status, or minus the signal."""
    return Ranks(size, function, limit, timeout).found(failing)


class Ranks:
    """A function at several ranks, started; arguments as `at_ranks`. With `gpus` each rank has a GPU, which this process has not
    used; a GPU that ranks have together if there are fewer. `stderr` gets what each rank writes there."""

    def __init__(self, size: int, function: Callable[[int], Any], limit: float = 60.0, timeout: float = 20.0, gpus: bool = False):
        self.folder, self.until, self.stderr = tempfile.TemporaryDirectory(), time.monotonic() + limit, []
        self.where = Path(self.folder.name)
        self.ranks = [_forked(rank, size, function, self.where, timeout, gpus) for rank in range(size)]

    def found(self, failing: bool = False) -> list:
        """What each rank returned, once all have ended."""
        with self.folder:
            try:
                told = _answers(self.ranks, self.until)
            finally:
                for child, _ in self.ranks:
                    _end(child)
                statuses = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child, _ in self.ranks]
                self.stderr = [Path(self.where, f"stderr{rank}").read_text() for rank in range(len(self.ranks))]
        found = [pickle.loads(answer) if answer else ("ended", statuses[rank], "") for rank, answer in enumerate(told)]
        if failing:
            return [value for _, value, _ in found]
        bad = [f"rank {rank} {kind}: {value!r}\n{trace}\n{self.stderr[rank]}" for rank, (kind, value, trace) in enumerate(found)
               if kind != "returned"]
        if bad:
            raise RankFailed("\n".join(bad))
        return [value for _, value, _ in found]


def _forked(rank: int, size: int, function, where: Path, timeout: float, gpus: bool) -> tuple[int, int]:
    """A process for a rank: its number, and the end of a pipe on which its answer comes."""
    reader, writer = os.pipe()
    child = os.fork()
    if child:
        os.close(writer)
        return child, reader
    gc.freeze()         # what was there is never looked through, so its pages stay shared
    os.close(reader)
    os.dup2(os.open(where / f"stderr{rank}", os.O_CREAT | os.O_WRONLY | os.O_APPEND), 2)
    answer = b""
    try:
        answer = pickle.dumps(("returned", _started(rank, size, function, where / "store", timeout, gpus), ""))
    except BaseException as error:
        trace = traceback.format_exc()
        try:
            answer = pickle.dumps(("raised", error, trace))
            pickle.loads(answer)
        except Exception:
            answer = pickle.dumps(("raised", RuntimeError(f"{type(error).__name__}: {error}"), trace))
    finally:
        with open(writer, "wb") as pipe:
            pipe.write(answer)
        os._exit(0)


def _started(rank: int, size: int, function, store: Path, timeout: float, gpus: bool) -> Any:
    import torch
    import torch.distributed as dist

    import mimw.distributed
    from mimw.distributed.start import leave
    torch.set_num_threads(1)        # the threads of the process that was forked are not here
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK"):
        os.environ.pop(name, None)
    if gpus:
        torch.cuda.set_device(rank % torch.cuda.device_count())
    else:
        os.environ["MIMW_SIMULATE"] = "1"
    dist.init_process_group("gloo" if gpus else "cpu:gloo", store=dist.FileStore(str(store), size), rank=rank, world_size=size,
                            timeout=timedelta(seconds=timeout))
    mimw.distributed.init(timeout=timeout, share_gpus=gpus)
    found = function(rank)
    leave()
    return found


def _answers(ranks: list[tuple[int, int]], until: float) -> list[bytes]:
    """What each rank wrote until it closed its pipe; RankFailed names those that have not by `until`."""
    told = [b""] * len(ranks)
    with selectors.DefaultSelector() as waiting:
        for rank, (_, reader) in enumerate(ranks):
            waiting.register(reader, selectors.EVENT_READ, rank)
        while waiting.get_map():
            ready = waiting.select(until - time.monotonic())
            if not ready:
                raise RankFailed(f"ranks {sorted(key.data for key in waiting.get_map().values())} did not come back in time")
            for key, _ in ready:
                part = os.read(key.fd, 1 << 16)
                told[key.data] += part
                if not part:
                    waiting.unregister(key.fd)
                    os.close(key.fd)
    return told


def _end(child: int) -> None:
    """Kill a process that is still there; it is waited for later."""
    try:
        os.kill(child, signal.SIGKILL)
    except ProcessLookupError:
        pass
