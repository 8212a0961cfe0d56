"""XOR-linear maps: shifts of bits, and inverses."""

import pytest

from mimw.compiler.lowering.addresses import inverse, moves
from mimw.ir import Buffer, Scalar
from mimw.ir.byte_maps import byte_map
from mimw.ir.layouts import NvmmaShared, SwizzledShared

PLAIN = SwizzledShared(1, 1, 1, (1, 0))


def applied(images, number):
    total = 0
    for bit, image in enumerate(images):
        total ^= image * (number >> bit & 1)
    return total


@pytest.mark.parametrize("layout, shape, count", [
    (PLAIN, (8, 16), 0), (PLAIN, (8, 16), 4), (SwizzledShared(1, 1, 1, (0, 1)), (4, 8), 0),
    (NvmmaShared(128, 16, 2), (16, 64), 0), (NvmmaShared(128, 16, 2), (8, 128), 2), (NvmmaShared(32, 16, 2, True), (16, 8), 0),
    (SwizzledShared(8, 1, 8, (1, 0)), (8, 64), 0)])
def test_every_element(layout, shape, count):
    images = list(byte_map(layout, Buffer(Scalar("fp16"), shape, count)))[1:]
    back = inverse([image // 2 for image in images])
    seen = set()
    for number in range(1 << len(images)):
        place = applied(images, number)
        assert place == sum_of_moves(images, number) and applied(back, place // 2) == number
        seen.add(place)
    assert seen == set(range(0, 2 << len(images), 2))


def sum_of_moves(images, number):
    total = 0
    for shift, mask in moves(images).items():
        part = number & mask
        total ^= part << shift if shift >= 0 else part >> -shift
    return total


def test_plain_rows_are_one_shift():
    assert moves([4, 8, 16, 32]) == {2: 0b1111}
