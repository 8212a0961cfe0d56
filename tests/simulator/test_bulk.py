"""Bulk copies: late as all copies are, and refused where the hardware would read or write elsewhere."""

import numpy as np
import pytest

from mimw.errors import BarrierMisuse, Deadlock, IllegalCopy, OutOfBounds, SimulatorMisuse, UnwrittenRead

from .programs import FP32, Sketch


def through(expected=256, size=256, wait=True, start=0, length=64, seed=0, check=True):
    """64 floats of x + start through a buffer into y."""
    k = Sketch()
    x, y = k.pointer(name="x"), k.pointer(name="y")
    line, bar = k.op("buffer_index", k.buffers(FP32, (64, ), 1), 0), k.bar(k.barriers(1), 0)
    k.op("barrier_expect", bar, expected, None)
    k.op("bulk_load", k.op("addptr", x, k.const(start)), bar, line, size)
    if wait:
        k.op("barrier_wait", bar, k.const(0), None)
    k.op("bulk_store", y, line, k.const(256))
    k.op("tma_store_wait", 0)
    source, target = np.arange(128, dtype=np.float32)[:length], np.zeros(64, np.float32)
    k.run(source, target, seed=seed)
    return target


@pytest.mark.parametrize("seed", range(4))
def test_in_and_out(seed):
    assert through(start=4, length=128, seed=seed).tolist() == list(range(4, 68))


def test_before_it_has_landed():
    with pytest.raises(UnwrittenRead, match="before the bulk copy that .* has landed"):
        through(wait=False)


def test_the_rest_of_the_buffer_is_nobodys():
    with pytest.raises(UnwrittenRead, match=r"element \(32,\), which nobody has written"):
        through(expected=128, size=128)


@pytest.mark.parametrize("change, error, text", [
    (dict(expected=240), BarrierMisuse, "16 bytes more than it expects"),
    (dict(expected=272), Deadlock, "16 bytes pending"),
    (dict(size=512), SimulatorMisuse, "a bulk copy of 512 bytes with .* of 256 bytes"),
    (dict(size=24), IllegalCopy, "of 24 bytes, and such copies move multiples of 16"),
    (dict(start=1, length=128), IllegalCopy, "global address 0x.*, which is not a multiple of 16"),
    (dict(start=4), OutOfBounds, "element 67 of 'x', which has 64 elements|of 'x', which has 64 elements"),
])
def test_refusals(change, error, text):
    with pytest.raises(error, match=text):
        through(**change)
