"""Which elements share memory, against a list of all addresses, and for layouts that are too large to list."""

import itertools
import random

from mimw.runtime.in_place.overlap import overlap, overlaps_itself, span


def places(extents, strides):
    return [sum(at * stride for at, stride in zip(where, strides)) for where in itertools.product(*map(range, extents))]


def drawn(random):
    rank = random.randint(0, 4)
    extents = tuple(random.choice((0, 1, 2, 2, 3, 4, 5)) if random.random() < 0.9 else 1 for _ in range(rank))
    return extents, tuple(random.choice((0, 1, 2, 3, 4, 5, 6, 8, 12, 15, 24)) for _ in range(rank))


def test_one_tensor_as_by_a_list_of_all_addresses():
    draw, seen = random.Random(1), set()
    for _ in range(600):
        extents, strides = drawn(draw)
        listed = places(extents, strides)
        expected = len(set(listed)) < len(listed)
        assert overlaps_itself(extents, strides) is expected, (extents, strides)
        assert span(extents, strides) == (max(listed) + 1 if listed else 0)
        seen.add(expected)
    assert seen == {True, False}


def test_two_tensors_as_by_a_list_of_all_bytes():
    draw, seen = random.Random(2), {True: 0, False: 0}
    for _ in range(600):
        (one, two), apart = (drawn(draw), drawn(draw)), draw.randint(-40, 40)
        sizes = [draw.choice((1, 2, 4)) for _ in range(2)]
        first, second = ({start + place * size + byte for place in places(*layout) for byte in range(size)}
                         for start, layout, size in zip((0, apart), (one, two), sizes))
        expected = bool(first & second)
        assert overlap(apart, *one, sizes[0], *two, sizes[1]) is expected, (apart, one, two, sizes)
        seen[expected] += 1
    assert min(seen.values()) > 100


def test_large_layouts_take_no_time():
    """Packed queries and keys, windows that overlap, rows of two tensors in turns, strides without order."""
    packed = (8, 128, 4096, 128), (4096 * 3 * 128 * 128, 128, 3 * 128 * 128, 1)
    assert not overlaps_itself(*packed) and not overlap(2 * 128 * 128, *packed, 2, *packed, 2)
    assert overlap(2 * 127 * 128, *packed, 2, *packed, 2)
    assert overlaps_itself((10**6, 9), (8, 1)) and not overlaps_itself((10**6, 8), (8, 1))
    turns = (1 << 20, 64), (128, 1)
    assert not overlap(64, *turns, 1, *turns, 1) and overlap(63, *turns, 1, *turns, 1)
    assert not overlaps_itself((10**5, 10**5), (10**5 - 1, 10**5)) and overlaps_itself((10**5 + 1, 10**5), (10**5 - 1, 10**5))
    odd = [10007 + 2 * at for at in range(8)]
    assert overlaps_itself((97, ) * 8, tuple(odd))
