"""Banks and phases of each chip, written out, and conflicts counted lane by lane from them."""

import random

import pytest

from mimw.compiler.constraints.bank_counts import BankAccess, conflicts
from mimw.compiler.constraints.banks import first_lanes, phase
from mimw.ir.layouts import Blocked, LinearShared, PaddedShared, SwizzledShared
from mimw.ir.linear import linear_of
from mimw.target import target


def lanes(*ranges):
    return [lane for low, high in ranges for lane in range(low, high + 1)]


def in_a_row(count, wave=64):
    return [lanes((start, start + count - 1)) for start in range(0, wave, count)]


def twice(*phases):
    """The phases of lanes 0 to 31, and the same of the others."""
    return [[lane + half for lane in phase] for half in (0, 32) for phase in phases]


READ_16_GFX942 = twice(lanes((0, 3), (20, 23)), lanes((4, 7), (16, 19)), lanes((8, 11), (28, 31)), lanes((12, 15), (24, 27)))
READ_16_GFX950 = twice(lanes((0, 3), (12, 15), (20, 27)), lanes((4, 11), (16, 19), (28, 31)))
# (chip, bytes of a lane, writes): the banks, and the lanes of each phase
TABLE = {
    ("gfx942", 4, False): (32, in_a_row(32)), ("gfx942", 8, False): (32, in_a_row(16)), ("gfx942", 16, False): (32, READ_16_GFX942),
    ("gfx942", 4, True): (32, in_a_row(32)), ("gfx942", 8, True): (32, in_a_row(16)), ("gfx942", 16, True): (32, in_a_row(8)),
    ("gfx950", 4, False): (32, in_a_row(32)), ("gfx950", 8, False): (64, in_a_row(32)), ("gfx950", 16, False): (64, READ_16_GFX950),
    ("gfx950", 4, True): (32, in_a_row(32)), ("gfx950", 8, True): (32, in_a_row(16)), ("gfx950", 16, True): (32, in_a_row(8)),
    ("gfx1250", 4, False): (64, in_a_row(32, 32)), ("gfx1250", 8, False): (64, in_a_row(32, 32)),
    ("gfx1250", 16, False): (64, in_a_row(16, 32)), ("gfx1250", 16, True): (64, in_a_row(16, 32)),
    ("sm_90a", 4, False): (32, in_a_row(32, 32)), ("sm_90a", 8, True): (32, in_a_row(16, 32)),
    ("sm_90a", 16, False): (32, in_a_row(8, 32)),
}


@pytest.mark.parametrize("chip, width, writes", TABLE)
def test_phases(chip, width, writes):
    banks, phases = TABLE[chip, width, writes]
    served = phase(target(chip), width, writes)
    together = {0}
    for mask in served.lanes:
        together |= {lane ^ mask for lane in together}
    firsts = first_lanes(served, len(sum(phases, [])).bit_length() - 1)
    assert served.banks == banks
    assert sorted(sorted(first ^ lane for lane in together) for first in firsts) == sorted(map(sorted, phases))


SHAPE, ELEMENT = (64, 128), 2


def spread(bases):
    found = [(0, 0)]
    for basis in bases:
        found += [(row ^ basis[0], column ^ basis[1]) for row, column in found]
    return found


def counted(held, width, byte, banks, phases):
    """(turns, phases) of all instructions of a warp: of each phase the bank that most words are wanted of."""
    inside = (width // ELEMENT).bit_length() - 1
    turns = total = 0
    for register in spread(held.registers[inside:]):
        begins = [byte(lane[0] ^ register[0], lane[1] ^ register[1]) for lane in spread(held.lanes)]
        for together in phases:
            wanted = {(begins[lane] + step) // 4 for lane in together for step in range(0, width, min(4, width))}
            turns += max(sum(word % banks == bank for word in wanted) for bank in range(banks))
            total += 1
    return turns, total


def rows(row, column):
    return (row * SHAPE[1] + column) * ELEMENT


def swizzled(row, column):
    return rows(row, column ^ row // 2 % 8 * 8)


def padded(row, column):
    number = row * SHAPE[1] + column
    return (number + number // 128 * 8 + number // 512 * 16) * ELEMENT


def flipped(row, column):
    """Bit 0 of the row flips bit 3 of the column, bit 4 of the row bit 5."""
    return rows(row, column ^ (row & 1) << 3 ^ (row >> 4 & 1) << 5)


BITS = [(0, 1 << bit) for bit in range(7)] + [(1 << bit, 0) for bit in range(6)]
LAYOUTS = {
    rows: SwizzledShared(1, 1, 1, (1, 0)), swizzled: SwizzledShared(8, 2, 8, (1, 0)),
    padded: PaddedShared(((128, 8), (512, 16)), tuple(BITS), SHAPE),
    flipped: LinearShared(tuple(BITS[:7] + [(1, 8), (2, 0), (4, 0), (8, 0), (16, 32), (32, 0)])),
}


@pytest.mark.parametrize("byte", LAYOUTS, ids=lambda byte: byte.__name__)
@pytest.mark.parametrize("chip, width, writes", TABLE)
def test_conflicts_as_counted_lane_by_lane(chip, width, writes, byte):
    banks, phases = TABLE[chip, width, writes]
    bits, choice = (target(chip).warp_size).bit_length() - 1, random.Random(width)
    for down in range(bits + 1):
        across = (1, width // ELEMENT)
        order = choice.choice([(0, 1), (1, 0)])
        tile = linear_of(Blocked(across, (1 << down, 1 << bits - down), (4, 1), order), SHAPE)
        if (0, width // ELEMENT) not in tile.lanes:     # then registers follow each other further, and accesses are wider
            continue
        held = BankAccess(tile.registers, tile.lanes, tile.warps, writes)
        found = conflicts(held, LAYOUTS[byte], SHAPE, ELEMENT, target(chip))
        assert found == counted(tile, width, byte, banks, phases), f"{1 << down} lanes down"


def test_columns_of_the_matrix_core_meet_in_banks():
    """ds_read_b128 of 32 rows of 256 bytes: gfx950 serves 16 lanes together, each of another row, all in the same four banks."""
    tile = linear_of(Blocked((1, 8), (32, 2), (4, 1), (0, 1)), SHAPE)
    held = BankAccess(tile.registers, tile.lanes, tile.warps)
    turns, least = conflicts(held, LAYOUTS[rows], SHAPE, ELEMENT, target("gfx950"))
    assert turns == 16 * least and conflicts(held, LAYOUTS[swizzled], SHAPE, ELEMENT, target("gfx950"))[0] == 2 * least


def test_a_layout_without_a_place_for_each_element_is_not_followed():
    held = BankAccess((), ((0, 1), ) * 6, ())
    assert conflicts(held, LinearShared(((0, 1), (0, 1)), 16), (1, 4), 2, target("gfx942")) is None
