"""Words that this release does not offer: they can be imported, check what can be checked, and say so by name."""

import inspect

import pytest
import triton.language as tl

import mimw.language.tlx.not_yet as words_to_come
import mimw.tlx as tlx
from mimw.errors import KernelError, NotYet

from .harness import Kernel


@pytest.mark.parametrize("name", words_to_come.__all__)
def test_each_says_so_at_the_users_line(kernel, name):
    with pytest.raises(NotYet, match=f"at kernel.py:7: not yet: tlx.{name} is not offered") as caught:
        wanted = inspect.signature(getattr(tlx, name)).parameters.values()
        kernel(getattr(tlx, name), *(None for one in wanted if one.kind is one.POSITIONAL_OR_KEYWORD and one.default is one.empty))
    assert isinstance(caught.value, NotImplementedError)


def test_a_wrong_call_is_told_first(kernel):
    with pytest.raises(TypeError, match="missing a required argument: 'indices'"):
        kernel(tlx.local_gather, None)


BLACKWELL = {
    "async_dot_scaled": (None, None, None, None, "e4m3", None, "e5m2"),
}


@pytest.mark.parametrize("name", BLACKWELL)
def test_blackwell_words(kernel, name):
    with pytest.raises(AssertionError, match="only available on Blackwell"):
        kernel(getattr(tlx, name), *BLACKWELL[name])
    with pytest.raises(AssertionError, match=r"only available on Blackwell chips with tensor memory .sm_100a, sm_103a.,"):
        Kernel("sm120")(getattr(tlx, name), *BLACKWELL[name])
    with pytest.raises(KernelError, match="`A` must be a buffered_tensor"):
        Kernel("sm100")(getattr(tlx, name), *BLACKWELL[name])


def test_scaled_dot_schedule(kernel):
    tile = kernel.tensor("x", tl.float8e5, 64, 64)
    arguments = (tile, None, "e5m2", tile, None, "e5m2")
    for tiles, text in (([1], "tiles_per_warp requires 2 entries"), ([1, 0], "must be positive")):
        with pytest.raises(ValueError, match=text):
            kernel(tlx.dot_scaled, *arguments, tiles_per_warp=tiles)


def test_amd_buffer_words(kernel):
    base, offsets = kernel.tensor("p", tl.pointer_type(tl.float32)), kernel.tensor("o", tl.int32, 64)
    calls = {"buffer_load": (base, offsets), "buffer_store": (offsets, base, offsets),
             "buffer_atomic_add": (base, offsets, offsets), "buffer_load_to_local": (None, base, offsets)}
    for name, args in calls.items():
        with pytest.raises(NotYet, match=f"tlx.{name} is"):
            kernel(getattr(tlx, name), *args)
    for args, kwargs, text in [((offsets, offsets), {}, "ptr must be a scalar pointer type"),
                               ((base, kernel.tensor("n", tl.int32)), {}, "offsets must be a tensor type"),
                               ((base, kernel.tensor("w", tl.int64, 64)), {}, "offsets element type"),
                               ((base, offsets), dict(other=0), "other needs a mask"),
                               ((base, offsets), dict(contiguity=3), "contiguity must be a positive power of two")]:
        with pytest.raises(AssertionError, match=text):
            kernel(tlx.buffer_load, *args, **kwargs)


def test_assume_uniform_is_free_on_nvidia(kernel):
    base = kernel.tensor("p", tl.pointer_type(tl.float32))
    assert kernel(tlx.assume_uniform, base) is base
    with pytest.raises(AssertionError, match="at least 16 bits"):
        kernel(tlx.assume_uniform, kernel.tensor("b", tl.int8))


def test_scheduling_barrier(kernel):
    with pytest.raises(NotImplementedError, match="only available on AMD"):
        kernel(tlx.amd_sched_barrier)
    amd = Kernel("gfx950")
    with pytest.raises(ValueError, match="0 to 0xFFF"):
        amd(tlx.amd_sched_barrier, 0x1000)
    with pytest.raises(NotYet, match="amd_sched_barrier"):
        amd(tlx.amd_sched_barrier, 1)
