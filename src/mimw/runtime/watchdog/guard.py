"""The watchdog: a thread that asks the device whether launches have come back, and ends the process with a report if one has not.

Input: launches, by `watched`. Output: nothing, or a report on stderr and exit status 124.

    watched(launch, run)        # launches by `run`, with an event of the stream before and one behind it

A launch has its time from the moment at which all work before it in its stream is done. A kernel that hangs cannot be stopped but
by ending the process: `cudaDeviceSynchronize` and every copy wait for it, in this process and for ever.
"""

from __future__ import annotations

import atexit
import sys
import threading
import time
from collections import defaultdict, deque
from collections.abc import Callable
from typing import Any

from ...compiler.pipeline import chip_of
from ...compiler.triton_port.cuda import Cuda
from ...compiler.triton_port.runtime import active_target, around_launches, driver, profile_scratch_from
from ...errors import LaunchError
from ...ir.wait_table import CTAS
from .arguments import on_the_host
from .launch import Launch
from .limit import STATUS, VARIABLE, end_process, tell, wants_stamps
from .notes import file, remember
from .report import lines_that_wait, places
from .table import index_of, seen
from .verdict import verdict

POLL = 0.02                     # seconds between two looks
COPY_BYTES, COPY_SECONDS = 1 << 28, 20.0

_guards: dict[int, Guard] = {}
_making = threading.Lock()
_local = threading.local()


def guard() -> Guard:
    """The watchdog of the current device; its thread starts with it. LaunchError off NVIDIA: it asks the CUDA driver."""
    device = driver.active.get_current_device()
    with _making:
        if device not in _guards:
            target = active_target()
            if target.backend != "cuda":
                raise LaunchError(f"{VARIABLE} watches launches on NVIDIA GPUs; this one is an AMD GPU ({target.arch})",
                                  hint=f"leave {VARIABLE} out")
            _guards[device] = Guard(Cuda())
            atexit.register(_guards[device].finish)
        return _guards[device]


def watched(launch: Launch, limit: float, run: Callable[[Callable, dict], Any]):
    """Launch by `run(grid, further keywords)` under the watch of the current device's guard; what that returns."""
    launch.stream = driver.active.get_current_stream(driver.active.get_current_device())
    found = guard()
    if found.device.capturing(launch.stream):       # nothing runs yet, and events in a graph say nothing
        return run(launch.grid, {})
    return found.launch(launch, limit, run)


class Guard:
    """The launches of one device that have not come back yet."""

    def __init__(self, device: Cuda, ended: Callable[[], Any] = end_process, say: Callable[[str], None] = tell):
        self.device, self.ended, self.say = device, ended, say
        self.limit = 0.0
        self.finishing = False
        self.streams: dict[int, deque[Launch]] = defaultdict(deque)
        self.free: dict[int, list] = defaultdict(list)          # tables of stamps by size
        self.changed = threading.Condition()
        around_launches(_before, _behind)
        self.thread = threading.Thread(target=self._watch, name="mimw watchdog", daemon=True)
        self.thread.start()

    # ---- where launches are made ------------------------------------------------------------------------------------

    def launch(self, launch: Launch, limit: float, run):
        self.limit = limit
        stamped = wants_stamps() and "time_stamps" not in launch.meta
        _local.launch, _local.guard = launch, self
        try:
            with profile_scratch_from(_scratch):
                launch.compiled = run(launch.asked_grid(), {"wait_stamps": True} if stamped else {})
        except BaseException:
            self._forget(launch)
            raise
        finally:
            _local.launch = _local.guard = None
        return launch.compiled

    def begin(self, launch: Launch) -> None:
        launch.before = self.device.record(launch.stream)
        with self.changed:
            self.streams[launch.stream].append(launch)
            self.changed.notify()

    def behind(self, launch: Launch) -> None:
        launch.after = self.device.record(launch.stream)

    def table(self, launch: Launch, size: int):
        """Memory for the stamps of a launch whose CTAs want `size` bytes together."""
        ctas = max(1, _product(launch.extents))
        size = min(size, CTAS * (size // ctas))
        size = 1 << max(12, (size - 1).bit_length())
        memory = self.free[size].pop() if self.free[size] else self.device.host_memory(size)
        memory.bytes[:] = 0
        launch.memory = memory
        return memory

    def _forget(self, launch: Launch) -> None:
        with self.changed:
            if launch in self.streams[launch.stream]:
                self.streams[launch.stream].remove(launch)

    # ---- the thread -------------------------------------------------------------------------------------------------

    def _watch(self) -> None:
        self.device.enter()
        while True:
            with self.changed:
                while not any(self.streams.values()):
                    if self.finishing:
                        return
                    self.changed.wait()
            late = self.look(time.monotonic())
            if late is not None:
                self.say_and_end(late)
                return
            time.sleep(POLL)

    def finish(self) -> None:
        """At the end of the process: let the thread end once every launch has come back, or end the process itself. Python kills
        a daemon's thread wherever it is, and inside of the driver's C++ that is `terminate called without an active exception`."""
        with self.changed:
            self.finishing = True
            self.changed.notify()
        self.thread.join()

    def look(self, now: float) -> Launch | None:
        """Retire launches that have come back; one that is over its time."""
        for queue in list(self.streams.values()):
            while queue:
                launch = queue[0]
                if not self._done(launch.before):
                    break
                launch.since = now if launch.since is None else launch.since
                if launch.after is None or not self._done(launch.after):
                    if now - launch.since > self.limit:
                        return launch
                    break
                self._retire(queue, launch)
        return None

    def _done(self, event) -> bool:
        """A kernel that failed has come back: the next call of the script tells its error."""
        try:
            return self.device.done(event)
        except RuntimeError:
            return True

    def _retire(self, queue: deque[Launch], launch: Launch) -> None:
        with self.changed:
            if launch in queue:
                queue.remove(launch)
        for event in (launch.before, launch.after):
            self.device.give_back(event)
        if launch.memory is not None:
            self.free[launch.memory.size].append(launch.memory)

    def say_and_end(self, launch: Launch) -> None:
        """The report, in parts, so that what is known is told should the rest not come; then the end."""
        try:
            self.say(f"\nmimw: {launch} has not come back within {self.limit:g} s ({VARIABLE}); a hung kernel cannot be stopped, "
                     f"so this process ends with status {STATUS}.")
            if launch.tuned:
                remember(launch.fn, launch.tuned, str(launch))
                self.say(f"Under a watchdog the next run leaves that configuration out; {file()} says which have hung.")
            hung = self._told(launch)
            self.say(verdict(launch, lambda: self._arguments(launch), self.limit, hung, chip_of(active_target()).name))
        except Exception as error:
            self.say(f"The report ends here: {type(error).__name__}: {error}")
        finally:
            try:
                sys.stdout.flush()
            finally:
                self.ended()

    def _told(self, launch: Launch) -> list[tuple[int, int, int]]:
        """Tell where the launch stands; the program ids of CTAs that hang."""
        program = getattr(launch.compiled, "stamped", None)
        if program is not None and launch.memory is not None:
            self.say(places(program, launch.grid3, launch.memory.bytes))
            return [index_of(cta.number, launch.grid3) for cta in seen(program, launch.memory.bytes, _product(launch.grid3))]
        if launch.compiled is None:
            self.say("The launch itself has not returned (is CUDA_LAUNCH_BLOCKING set?), so what its stamps mean is not known.")
            return []
        source = getattr(getattr(launch.compiled, "src", None), "kernel", None)
        if source is not None and source.program is not None:
            self.say(f"The kernel leaves no stamps. {lines_that_wait(source.program)}")
        else:
            self.say("The kernel leaves no stamps: it calls nothing of tlx or tle.")
        return []

    def _arguments(self, launch: Launch) -> list:
        self.device.enter()
        until = time.monotonic() + COPY_SECONDS
        return on_the_host(launch.args, lambda address, size: self.device.copied(address, size, until), COPY_BYTES)


def _before(metadata) -> None:
    """Triton is about to launch; it has compiled and loaded the kernel."""
    if getattr(_local, "launch", None) is not None:
        _local.guard.begin(_local.launch)


def _behind(metadata) -> None:
    if getattr(_local, "launch", None) is not None:
        _local.guard.behind(_local.launch)


def _scratch(size: int, alignment: int, stream):
    """The profiling workspace of a launch: the table of one that is watched, what Triton would give any other."""
    if getattr(_local, "launch", None) is None:
        return driver.active.allocate_default_profile_scratch(size, alignment, stream)
    return _local.guard.table(_local.launch, size)


def _product(extents) -> int:
    total = 1
    for extent in extents:
        total *= extent
    return total
