"""Truth tables of atomics and fences in global memory, which CTAs share."""

import itertools

import numpy as np
import pytest
import triton.language as tl

import mimw
import mimw.tlx as tlx

from .tables import right, states


@mimw.jit
def set_flag(flag_ptr, HOW: tl.constexpr, SEM: tl.constexpr, SCOPE: tl.constexpr):
    if HOW == "atomic_rmw":
        tl.atomic_xchg(flag_ptr, 1, sem=SEM, scope=SCOPE)
    elif HOW == "atomic_cas":
        tl.atomic_cas(flag_ptr, 0, 1, sem=SEM, scope=SCOPE)
    elif HOW == "atomic_store":
        tl.atomic_store(flag_ptr, 1, sem=SEM, scope=SCOPE)
    else:
        tl.store(flag_ptr, 1)


@mimw.jit
def await_flag(flag_ptr, HOW: tl.constexpr, SEM: tl.constexpr, SCOPE: tl.constexpr):
    if HOW == "atomic_rmw":
        while tl.atomic_add(flag_ptr, 0, sem=SEM, scope=SCOPE) == 0:
            pass
    elif HOW == "atomic_cas":
        while tl.atomic_cas(flag_ptr, 1, 1, sem=SEM, scope=SCOPE) == 0:
            pass
    elif HOW == "atomic_load":
        while tl.atomic_load(flag_ptr, sem=SEM, scope=SCOPE) == 0:
            pass
    elif HOW == "atomic_poll":
        tl.atomic_poll(flag_ptr, 1, sem=SEM, scope=SCOPE)
    else:
        while tl.load(flag_ptr, volatile=True) == 0:
            pass


@mimw.jit
def flagging(x_ptr, flag_ptr, y_ptr, SET: tl.constexpr, RELEASE: tl.constexpr, AWAIT: tl.constexpr, ACQUIRE: tl.constexpr,
             FENCE: tl.constexpr, SCOPE: tl.constexpr):
    """Program 0 gives a number to program 1 by a flag in global memory."""
    if tl.program_id(0) == 0:
        tl.store(x_ptr, 7)
        if FENCE != "":
            tlx.fence(FENCE)
        set_flag(flag_ptr, SET, RELEASE, SCOPE)
    else:
        await_flag(flag_ptr, AWAIT, ACQUIRE, SCOPE)
        if FENCE != "":
            tlx.fence(FENCE)
        tl.store(y_ptr, tl.load(x_ptr))
    tlx.clock64()     # one of our words, so that the kernel is ours


def flagged(how_set, release, how_await, acquire, fence="", scope="gpu"):
    x, flag, y = np.zeros(1, np.int32), np.zeros(1, np.int32), np.zeros(1, np.int32)
    return flagging, 2, (x, flag, y, how_set, release, how_await, acquire, fence, scope), {}


@states("atomic_rmw")
def exchanged_in_global_memory():
    return flagged("atomic_rmw", "release", "atomic_rmw", "acquire")


@states("atomic_cas")
def compared():
    return flagged("atomic_cas", "release", "atomic_cas", "acquire")


@states("atomic_store", "atomic_load")
def stored():
    return flagged("atomic_store", "release", "atomic_load", "acquire")


@states("atomic_store", "atomic_poll")
def polled():
    return flagged("atomic_store", "release", "atomic_poll", "acquire")


@states("fence", "atomic_rmw")
def fenced():
    return flagged("atomic_rmw", "relaxed", "atomic_rmw", "relaxed", "gpu")


PAIRS = [("atomic_rmw", "atomic_rmw"), ("atomic_cas", "atomic_cas"), ("atomic_store", "atomic_load"),
         ("atomic_store", "atomic_poll"), ("atomic_rmw", "atomic_load"), ("atomic_cas", "atomic_poll")]


@pytest.mark.parametrize("scope", ["gpu", "cta", "sys"])
@pytest.mark.parametrize("release, acquire", list(itertools.product(("release", "relaxed"), ("acquire", "relaxed"))))
@pytest.mark.parametrize("how_set, how_await", PAIRS)
def test_a_flag_by_each_atomic(how_set, how_await, release, acquire, scope):
    """Right iff the scope holds both programs, the flag is set with release and looked at with acquire."""
    ok = right(flagged(how_set, release, how_await, acquire, "", scope), "random")
    assert ok == (scope != "cta" and (release, acquire) == ("release", "acquire"))


@pytest.mark.parametrize("fence", ["", "gpu", "sys"])
@pytest.mark.parametrize("scope", ["gpu", "cta", "sys"])
@pytest.mark.parametrize("release, acquire", list(itertools.product(("release", "relaxed"), ("acquire", "relaxed"))))
def test_a_flag_in_global_memory(release, acquire, fence, scope):
    """Right iff the scope holds both programs, and each side is ordered by its atomic or by a fence."""
    ok = right(flagged("atomic_rmw", release, "atomic_rmw", acquire, fence, scope), "random")
    assert ok == (scope != "cta" and (fence != "" or (release, acquire) == ("release", "acquire")))


@pytest.mark.parametrize("how_set, how_await", [("store", "volatile"), ("store", "atomic_load"), ("atomic_store", "volatile")])
@pytest.mark.parametrize("fence", ["", "gpu"])
def test_a_flag_that_is_no_atomic(how_set, how_await, fence):
    """Right iff the store is an atomic, and a fence makes up for the volatile load's want of acquire."""
    ok = right(flagged(how_set, "release", how_await, "acquire", fence), "random")
    assert ok == (how_set == "atomic_store" and fence == "gpu")
