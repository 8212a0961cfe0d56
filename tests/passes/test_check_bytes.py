"""Expected and copied bytes must agree where both are known."""

import pytest

from mimw.compiler.passes import check_bytes
from mimw.errors import ExpectedBytesMismatch
from mimw.ir import Descriptor
from mimw.target import target
from tests.analysis.building import BF16, BLOCK, I1, Kernel, ring_copy

SM90 = target("sm_90a")
HALF = Descriptor(BF16, (64, 64))  # 8192 bytes


def refused(kernel: Kernel) -> str:
    with pytest.raises(ExpectedBytesMismatch) as caught:
        check_bytes(kernel.program(), SM90)
    return str(caught.value)


def accepted(kernel: Kernel) -> bool:
    return check_bytes(kernel.program(), SM90) is None


def straight(expects, copies, predicate=None):
    """(barrier, bytes) of each expect and (barrier, descriptor) of each copy, on an array of two; then a wait."""
    k = Kernel()
    sources = {BLOCK: k.param("a", BLOCK), HALF: k.param("b", HALF)}
    flag = k.param("flag", I1)
    tiles = {BLOCK: k.buffers("tiles", 2), HALF: k.buffers("halves", 2, (64, 64))}
    bars = k.at(4).barriers("full", 2)
    for line, (index, size) in enumerate(expects):
        k.at(10 + line).expect(k.one(bars, index), size, flag if predicate else None)
    for line, (index, block) in enumerate(copies):
        k.at(20 + line).load(sources[block], k.one(bars, index), k.one(tiles[block], 0))
    k.at(30).wait(k.one(bars, 0), 0)
    return k


def test_one_expect_for_several_copies():
    assert accepted(straight([(0, 24576)], [(0, BLOCK), (0, HALF)]))
    assert refused(straight([(0, 16384)], [(0, BLOCK), (0, HALF)])).splitlines()[:2] == [
        "BytesNotExpected at kernel.py:10: task 'kernel' expects another number of bytes on 'full' than is copied there: "
        "16384 bytes are expected, 16384 + 8192 = 24576 bytes are copied. The phase never completes.",
        "Mend: expect 24576 bytes: a TMA load always brings its whole block.",
    ]


def test_several_expects_for_several_copies():
    assert accepted(straight([(0, 16384), (1, 8192)], [(0, BLOCK), (1, HALF)]))
    assert "8192 bytes are expected, 16384 bytes are copied" in refused(
        straight([(0, 8192), (1, 16384)], [(0, BLOCK), (1, HALF)]))


@pytest.mark.parametrize("expected, right", [(16384, True), (32768, False), (8192, False)])
def test_a_ring(expected, right):
    if right:
        assert accepted(ring_copy(expected=expected))
    else:
        assert f"{expected} bytes are expected, 16384 bytes are copied" in refused(ring_copy(expected=expected))


def test_a_ring_filled_ahead_is_left_alone():
    k = Kernel()
    n, source = k.param("n"), k.param("source", BLOCK)
    tiles, bars = k.buffers("tiles", 2), k.barriers("full", 2)
    with k.loop(n) as (i, _):
        k.expect(k.one(bars, i), 16384)
        k.load(source, k.one(bars, k.op("add", i, k.number(1))), k.one(tiles, i))
        k.wait(k.one(bars, i), 0)
    assert accepted(k)


def test_what_stands_in_two_places_is_left_alone():
    k = Kernel()
    n, source = k.param("n"), k.param("source", BLOCK)
    tiles, bars = k.buffers("tiles", 1), k.barriers("full", 1)
    k.expect(k.one(bars, 0), 65536)
    with k.loop(4):
        k.load(source, k.one(bars, 0), k.one(tiles, 0))
    k.wait(k.one(bars, 0), n)
    assert accepted(k)


def test_a_predicate_that_is_not_known_is_left_alone():
    assert accepted(straight([(0, 1)], [(0, BLOCK)], predicate=True))


def test_bytes_that_nobody_copies():
    assert "Mend: start the copy on this barrier" in refused(straight([(0, 512)], []))


def test_copies_that_nobody_expects():
    assert "0 bytes are expected, 16384 bytes are copied" in refused(straight([], [(0, BLOCK)]))


def test_a_barrier_that_nobody_waits_for_is_left_alone():
    k = Kernel()
    bars = k.barriers("full", 1)
    k.expect(k.one(bars, 0), 512)
    assert accepted(k)
