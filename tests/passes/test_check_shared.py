"""Shared memory: what fits, and what is said when it does not."""

import pytest

from mimw.compiler.passes import check_shared
from mimw.errors import OutOfSharedMemory
from mimw.target import target
from tests.analysis.building import BF16, BLOCK, F32, Kernel

SM90 = target("sm_90a")


def pipeline(a_stages, b_stages):
    """A 128x64 and a 256x64 tile a stage, both loaded asynchronously."""
    k = Kernel()
    a = k.at(3).buffers("a", a_stages)
    b = k.at(4).buffers("b", b_stages, (256, 64))
    full = k.at(5).barriers("full", 4)
    source = k.param("source", BLOCK)
    for tile in (a, b):
        k.load(source, k.one(full, 0), k.one(tile, 0))
    return k.program()


def refused(program, chip=SM90) -> str:
    with pytest.raises(OutOfSharedMemory) as caught:
        check_shared(program, chip)
    return str(caught.value)


def test_it_fits():
    assert check_shared(pipeline(4, 4), SM90) is None


def test_the_sum_is_in_the_message():
    assert refused(pipeline(5, 5)).splitlines() == [
        "OutOfSharedMemory at kernel.py:4: 245792 bytes of shared memory are needed together, but a CTA on sm_90a has 232448: "
        "13344 too many.",
        "    a       5 x 16384 =  81920 bytes  kernel.py:3",
        "    b       5 x 32768 = 163840 bytes  kernel.py:4",
        "    full        4 x 8 =     32 bytes  kernel.py:5",
        "    sum                 245792 bytes",
        "    limit               232448 bytes  sm_90a",
        "    excess               13344 bytes",
        "Mend: 4 stages instead of 5 for 'a' and 'b' fit.",
        "kernel.py:4",
    ]


def test_fewer_of_one_array_are_proposed():
    assert "Mend: allocate 6 instead of 8 buffers of 'a'." in refused(pipeline(8, 4))


def test_nothing_but_smaller_tiles_helps():
    assert "Mend: use smaller tiles" in refused(pipeline(2, 4), target("gfx942"))


def test_buffers_that_are_not_needed_together_do_not_add_up():
    def one_after_the_other(overlap):
        k = Kernel()
        tile = k.tile()
        if overlap:
            first, second = (k.buffers(name, 0, (256, 128), F32) for name in "ab")
        for name in "ab":
            buffer = (first if name == "a" else second) if overlap else k.buffers(name, 0, (256, 128), F32)
            k.op("local_load", buffer, None)
        if overlap:
            k.op("local_load", first, None)
        k.op("fneg", tile)
        return k.program()

    assert check_shared(one_after_the_other(overlap=False), SM90) is None
    assert "262144 bytes of shared memory are needed together" in refused(one_after_the_other(overlap=True))


def test_tensor_memory_is_not_shared_memory():
    k = Kernel()
    k.buffers("acc", 8, (128, 512), F32, space="tmem")
    k.buffers("tile", 0, (128, 64), BF16)
    assert check_shared(k.program(), target("sm_100a")) is None
