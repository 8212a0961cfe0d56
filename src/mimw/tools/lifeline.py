"""Processes that end with the one that started them, however that ends: SIGTERM (what `timeout` sends), SIGHUP, SIGKILL, a crash.

Input: in the new process, the number of the one that started it. Output: the system's promise to end it:

    parent = os.getpid()
    if not os.fork():
        end_with_parent(parent)     first of all
        ...

A handler for signals could not do that: nobody hears SIGKILL, and a process that waits inside of C hears none in time. Linux sends
SIGKILL when the *thread* that started a process ends (prctl(2), PR_SET_PDEATHSIG), so start them from one that stays; what they
have started themselves ends on its own or by the group that they lead (`mimw.tuning.processes`).
"""

from __future__ import annotations

import ctypes
import os
import signal

_DIE_WITH_PARENT = 1    # PR_SET_PDEATHSIG


def end_with_parent(parent: int | None) -> None:
    """Have the system end this process when its parent ends.

    args:      parent  the process id that its parent must have; one that has another has lost it already, and ends here. None where
                       it was started by a server in between, which ends with the process that uses it
    """
    ctypes.CDLL(None).prctl(_DIE_WITH_PARENT, signal.SIGKILL)
    if parent is not None and os.getppid() != parent:
        os._exit(1)


__all__ = ["end_with_parent"]
