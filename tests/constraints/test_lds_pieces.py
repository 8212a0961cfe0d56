"""Which copies AMD's chips can do past the registers, by the layouts of the pointers and of the buffer."""

import pytest

from mimw.compiler.constraints.lds_pieces import fits
from mimw.ir.layouts import Blocked, DotOperand, Linear, LinearShared, Mma, NvmmaShared, PaddedShared, SwizzledShared
from mimw.target import TARGETS

ROWS, SHAPE = SwizzledShared(1, 1, 1, (1, 0)), (64, 64)
BASES = tuple((0, 1 << bit) for bit in range(6)) + tuple((1 << bit, 0) for bit in range(6))


def blocked(each, warp=64):
    """Each thread so many elements of a row, and lanes along the rows."""
    lanes = min(warp, 64 // each)
    return Blocked((1, each), (warp // lanes, lanes), (4, 1), (1, 0))


def following(bases, each):
    """The lanes of a wave along a buffer's own bases."""
    bits = each.bit_length() - 1
    return Linear(bases[:bits] + bases[bits + 8:], bases[bits:bits + 6], bases[bits + 6:bits + 8], SHAPE)


@pytest.mark.parametrize("chip, size, each, fit", [
    ("gfx942", 2, 2, True), ("gfx942", 4, 1, True), ("gfx942", 2, 8, False), ("gfx942", 2, 1, False), ("gfx942", 8, 1, False),
    ("gfx950", 2, 8, True), ("gfx950", 2, 2, True), ("gfx950", 2, 4, False), ("gfx950", 8, 1, False), ("gfx950", 8, 2, True),
    ("gfx1250", 2, 8, True), ("gfx1250", 2, 4, True), ("gfx1250", 2, 2, True), ("gfx1250", 2, 1, False), ("gfx1250", 8, 1, True),
    ("gfx1250", 2, 16, True)])
def test_pieces_of_a_chip(chip, size, each, fit):
    warp = TARGETS[chip].warp_size
    assert fits(blocked(each, warp), ROWS, SHAPE, size, TARGETS[chip]) == fit


def test_a_wave_of_gfx9_writes_one_range():
    """On gfx1250 each lane says where its piece goes."""
    apart = Blocked((1, 8), (64, 1), (1, 4), (1, 0))
    assert not fits(apart, ROWS, SHAPE, 2, TARGETS["gfx950"])
    assert fits(Blocked((1, 8), (32, 1), (1, 4), (1, 0)), ROWS, SHAPE, 2, TARGETS["gfx1250"])


def test_pieces_lie_along_the_rows():
    assert not fits(blocked(8), SwizzledShared(1, 1, 1, (0, 1)), SHAPE, 2, TARGETS["gfx950"])
    across = Blocked((8, 1), (8, 8), (1, 4), (0, 1))
    assert fits(across, SwizzledShared(1, 1, 1, (0, 1)), SHAPE, 2, TARGETS["gfx950"])


@pytest.mark.parametrize("chip, each, vector, fit", [("gfx950", 8, 8, True), ("gfx950", 8, 4, False), ("gfx950", 2, 4, True),
                                                     ("gfx942", 2, 8, True)])
def test_swizzles_take_no_piece_apart(chip, each, vector, fit):
    assert fits(blocked(each), SwizzledShared(vector, 1, 8, (1, 0)), SHAPE, 2, TARGETS[chip]) == fit


@pytest.mark.parametrize("chip, each, interval, fit", [
    ("gfx950", 8, 512, True), ("gfx950", 8, 256, False), ("gfx950", 8, 1024, True),
    ("gfx942", 2, 128, True), ("gfx942", 2, 64, False)])
def test_gaps_lie_between_the_ranges_of_waves(chip, each, interval, fit):
    padded = PaddedShared(((1024, 8), (interval, 16)), BASES, SHAPE)
    assert fits(blocked(each), padded, SHAPE, 2, TARGETS[chip]) == fit
    assert fits(blocked(each, 32), padded, SHAPE, 2, TARGETS["gfx1250"])


def test_reordered_rows_are_followed():
    bases = (*BASES[:6], *BASES[8:11], BASES[6], BASES[7], BASES[11])
    padded = PaddedShared(((512, 16), ), bases, SHAPE)
    assert fits(following(bases, 8), padded, SHAPE, 2, TARGETS["gfx950"])
    assert not fits(blocked(8), padded, SHAPE, 2, TARGETS["gfx950"])
    assert fits(following(bases, 2), LinearShared(bases), SHAPE, 2, TARGETS["gfx942"])


@pytest.mark.parametrize("whole, fit", [((64, 64), True), ((128, 64), True), ((64, 128), False)])
def test_parts_of_a_buffer(whole, fit):
    """Rows of a part of the columns have room between them, in which other columns lie."""
    for chip in ("gfx942", "gfx950"):
        each = max(TARGETS[chip].copy_pieces) // 2
        assert fits(blocked(each), ROWS, SHAPE, 2, TARGETS[chip], whole) == fit
    assert fits(blocked(8, 32), ROWS, SHAPE, 2, TARGETS["gfx1250"], whole)


@pytest.mark.parametrize("extent, fit", [(64, True), (32, False)])
def test_each_lane_of_a_wave_has_a_piece(extent, fit):
    """Waves may hold copies of what another one has."""
    flat = Blocked((1, ), (64, ), (4, ), (0, )), SwizzledShared(1, 1, 1, (0, )), (extent, ), 4
    assert fits(*flat, TARGETS["gfx950"]) == fits(*flat, TARGETS["gfx942"]) == fit
    assert fits(Blocked((1, ), (32, ), (4, ), (0, )), SwizzledShared(1, 1, 1, (0, )), (16, ), 4, TARGETS["gfx1250"])


def test_what_is_not_known_goes_through_registers():
    chip = TARGETS["gfx950"]
    assert not fits(None, ROWS, SHAPE, 2, chip) and not fits(blocked(8), None, SHAPE, 2, chip)
    assert not fits(DotOperand(1, Mma((4, 1), (16, 64, 16)), 2), ROWS, SHAPE, 2, chip)
    assert not fits(blocked(8), NvmmaShared(128, 16, 2), SHAPE, 2, chip)
    assert not fits(blocked(8), SwizzledShared(1, 1, 1, (2, 1, 0)), SHAPE, 2, chip)
