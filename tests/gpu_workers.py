"""A plugin of pytest: what tests that run side by side on one GPU leave to each other: a driver that starts, memory, and processes
that work.

    starts_in_a_fork()      False where this process has started CUDA already: a driver does not survive a fork
    is_broken()             True in a process whose launches fail from here on, as after an access outside of memory

Input: the driver; torch, where a test has used it. Output: the answers. Behind each test marked `gpu` torch gives back what it
keeps of freed memory if that is over `KEPT` bytes: fifteen processes of one GPU would otherwise keep the largest that each has
seen.
"""

from __future__ import annotations

import ctypes
import gc
import os
import sys

import pytest

KEPT = 2**30
NOT_INITIALIZED = 3     # what cuInit says in a fork of a process that has started CUDA


def starts_in_a_fork() -> bool:
    """Whether CUDA can be used in a fork of this process; true as well where there is no driver. Asked in a fork."""
    if not (child := os.fork()):
        os._exit(_driver_refuses() or _torch_refuses())
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def _driver_refuses() -> bool:
    try:
        return ctypes.CDLL("libcuda.so.1").cuInit(0) == NOT_INITIALIZED
    except OSError:
        return False


def _torch_refuses() -> bool:
    return "torch" in sys.modules and sys.modules["torch"].cuda._is_in_bad_fork()


def _cuda():
    """torch.cuda if this process has used it."""
    torch = sys.modules.get("torch")
    return torch.cuda if torch is not None and torch.cuda.is_initialized() else None


def is_broken() -> bool:
    """Whether the device refuses whatever this process asks of it."""
    if (cuda := _cuda()) is None:
        return False
    try:
        cuda.synchronize()
    except RuntimeError:
        return True
    return False


def give_back(cuda) -> None:
    """Free what torch keeps if it is much; what only a cycle of objects holds is garbage first."""
    if cuda.memory_reserved() > KEPT:
        cuda.empty_cache()
    if cuda.memory_reserved() > KEPT:
        gc.collect()
        cuda.empty_cache()


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item, nextitem):
    done = yield
    if item.get_closest_marker("gpu") and (cuda := _cuda()) is not None and not is_broken():
        give_back(cuda)
    return done
