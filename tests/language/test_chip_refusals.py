"""Words that a chip does not have: they can be imported, check what can be checked, and name the chips that have them."""


import pytest
import triton.language as tl

import mimw.tlx as tlx
from mimw.errors import KernelError

from .harness import Kernel


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
