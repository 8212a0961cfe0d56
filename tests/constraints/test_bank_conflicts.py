"""The count of wavefronts, against a count lane by lane, and the search, on layouts alone."""

import random

import pytest

from mimw.compiler.constraints.bank_conflicts import choose
from mimw.compiler.constraints.bank_counts import BankAccess, cost
from mimw.ir.layouts import Blocked, LinearShared, NvmmaShared, SwizzledShared
from mimw.ir.linear import linear_of
from mimw.target import target

CHIP = target("sm_90a")
PLAIN = SwizzledShared(1, 1, 1, (1, 0))


def access(layout, shape):
    linear = linear_of(layout, shape)
    return BankAccess(linear.registers, linear.lanes, linear.warps)


def rows(shape, element):
    return lambda position: (position[0] * shape[1] + position[1]) * element


BY_ROWS = Blocked((1, 1), (1, 32), (4, 1), (1, 0))
BY_COLUMNS = Blocked((1, 1), (32, 1), (1, 4), (0, 1))
WIDE = Blocked((1, 4), (2, 16), (4, 1), (1, 0))


@pytest.mark.parametrize("layout, element, expected", [
    (BY_ROWS, 4, (32, 32)),         # 64 x 64 words, 32 of each lane's in a line
    (BY_COLUMNS, 4, (32 * 32, 32)),  # every lane in one bank
    (WIDE, 4, (32, 8)),             # 16 bytes a lane, 4 wavefronts each
    (WIDE, 2, (16, 8)),             # 8 bytes a lane, 2 wavefronts each
    (BY_ROWS, 1, (32, 32)),         # four lanes a word
])
def test_counts(layout, element, expected):
    shape = (64, 64)
    assert cost(access(layout, shape), rows(shape, element), element, CHIP) == expected


def counted(held, offset, element):
    """Wavefronts of one-element accesses, lane by lane, register by register."""
    def places(bases):
        found = [(0, 0)]
        for basis in bases:
            found += [tuple(a + b for a, b in zip(place, basis)) for place in found]
        return found

    waves = 0
    for register in places([basis for basis in held.registers if any(basis)]):
        words = {}
        for lane in places(held.lanes):
            word = offset(tuple(a + b for a, b in zip(register, lane))) // 4
            words.setdefault(word % 32, set()).add(word)
        waves += max(map(len, words.values()))
    return waves


@pytest.mark.parametrize("seed", range(20))
def test_counts_agree_with_a_count_by_lanes(seed):
    """Reads down columns are never wide, so each is one wavefront or more for one element of each lane."""
    choice = random.Random(seed)
    shape, element = (64, 64), choice.choice([1, 2, 4])
    lanes = choice.choice([(32, 1), (16, 2), (8, 4), (2, 16)])
    held = access(Blocked((choice.choice([1, 2, 4]), 1), lanes, (2, 2), (0, 1)), shape)
    assert cost(held, rows(shape, element), element, CHIP)[0] == counted(held, rows(shape, element), element)


@pytest.mark.parametrize("shape, element", [((64, 64), 4), ((64, 64), 2), ((128, 32), 4), ((32, 32), 8), ((64, 64), 1)])
def test_rows_and_columns_meet_without_conflicts(shape, element):
    """One element a lane, once along rows and once along columns: each 128 bytes need one wavefront, narrower elements
    as many lanes a word as there are along a row."""
    accesses = [access(BY_ROWS, shape), access(BY_COLUMNS, shape)]
    found = choose(shape, element, PLAIN, accesses, CHIP)
    per_warp = shape[0] * shape[1] // 4 // 32  # instructions of each access
    assert found.wavefronts <= 2 * per_warp * max(1, element // 4) and found.wavefronts < found.before


def test_a_layout_without_conflicts_is_left_alone():
    shape = (64, 64)
    assert choose(shape, 4, PLAIN, [access(WIDE, shape)], CHIP) is None
    assert choose(shape, 4, NvmmaShared(128, 32, 2), [access(WIDE, shape)], CHIP) is None


def test_the_layout_found_is_a_map_onto_the_tile():
    shape = (64, 64)
    wide_columns = Blocked((4, 1), (16, 2), (1, 4), (0, 1))
    found = choose(shape, 4, PLAIN, [access(WIDE, shape), access(wide_columns, shape)], CHIP).layout
    assert isinstance(found, LinearShared) and len(found.bases) == 12
    reached = {(0, 0)}
    for basis in found.bases:
        reached |= {tuple(a ^ b for a, b in zip(place, basis)) for place in reached}
    assert len(reached) == 64 * 64
