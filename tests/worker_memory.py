"""Garbage of a worker of the tests: nobody looks for it, and the worker makes place for another one before it is too much.

    memory = WorkerMemory()         in a new worker: from here on only cycles of objects that a test collects itself are freed
    memory.is_spent()               True once the worker has taken more than MUCH bytes: it ends behind its module of tests

Input: the process. Output: whether its memory has grown. Recordings and simulated runs leave trees of objects that hold each other.
To find what of them is garbage takes 8 % of the time of the tests and frees little, since the kernels of the modules that have run
hold their programs; a process that ends frees all of it at once, and the one that comes behind is a small copy of the process that
has collected the tests. With a GPU all is as usual: there a worker that starts anew loads the driver again, and objects that are
garbage hold memory of the device.
"""

from __future__ import annotations

import gc
import os
from pathlib import Path

from mimw.testing import gpu_available

MUCH = 3 << 29      # bytes, 300 CPU seconds of tests
_PAGES = Path("/proc/self/statm")


def _resident() -> int:
    """Bytes in memory; 0 where the system does not say."""
    return int(_PAGES.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") if _PAGES.exists() else 0


class WorkerMemory:

    def __init__(self) -> None:
        self.born = _resident()
        self.grows = self.born > 0 and not gpu_available()
        if self.grows:
            gc.set_threshold(0)

    def is_spent(self) -> bool:
        return self.grows and _resident() - self.born > MUCH
