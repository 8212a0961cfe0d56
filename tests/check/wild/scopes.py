"""Scopes that do not hold both sides."""

import numpy as np
import triton.language as tl

import mimw
import mimw.tlx as tlx

from .case import case


@mimw.jit
def locking(x_ptr, lock_ptr, y_ptr, SCOPE: tl.constexpr):
    """One program writes and unlocks; another one spins on the lock and reads."""
    at = tl.arange(0, 128)
    if tl.program_id(0) == 0:
        tl.store(x_ptr + at, at.to(tl.float32))
        tl.atomic_xchg(lock_ptr, 1, sem="release", scope=SCOPE)
    else:
        while tl.atomic_add(lock_ptr, 0, sem="acquire", scope="sys") == 0:
            pass
        tl.store(y_ptr + at, tl.load(x_ptr + at))
    tlx.clock64()       # a word of ours, so that the kernel is ours


@case("ROCm/iris#462", kind="DataRace", lines=("atomic_xchg(lock_ptr", "atomic_add(lock_ptr"))
def a_scope_too_narrow(mended):
    """A lock is set at a scope that does not hold who spins on it: there `gpu` between GPUs, where `sys` is needed. The simulator
    has one GPU, so the same mistake is shown one scope down, `cta` between CTAs."""
    x, lock, y = np.zeros(128, np.float32), np.zeros(1, np.int32), np.zeros(128, np.float32)
    return locking, 2, (x, lock, y, "sys" if mended else "cta"), {}
