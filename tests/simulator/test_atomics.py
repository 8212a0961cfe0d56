"""Atomics on many places at once against one lane after the other."""

import ml_dtypes
import numpy as np
import pytest

from mimw.simulator.words.atomics import KINDS, combining, exchange_if, in_turns

RANDOM = np.random.default_rng(0)
PLACES = {
    "all different": RANDOM.permutation(300), "one": np.zeros(300, int), "a few": RANDOM.integers(0, 7, 300),
    "one often and many once": np.where(RANDOM.random(300) < 0.5, 5, np.arange(300)), "one lane": np.array([3]),
    "none": np.zeros(0, int), "two": np.repeat([1, 0], [1, 299]),
    "sorted by radix": RANDOM.integers(0, 90, 1100), "in two rounds": RANDOM.integers(0, 90, 1100) * 32768,
    "far apart": RANDOM.integers(0, 90, 1100) << 40,
}
INTEGERS, FLOATS = ("int32", "int64", "int16", "uint32"), ("float32", "float16", "float64", "bfloat16")


def one_by_one(function, places, memory: dict, *operands):
    """What each lane finds and leaves, if it comes after the lane before it."""
    old, new = [], []
    for lane, place in enumerate(places.tolist()):
        found = memory[place]
        memory[place] = np.asarray(function(found, *(operand[lane:lane + 1] for operand in operands))).astype(found.dtype)
        old.append(found), new.append(memory[place])
    return (np.concatenate(part) if part else part for part in (old, new))


def compared(function, places, dtype, *operands):
    unique, which = np.unique(places, return_inverse=True)
    fresh = draw(dtype, unique.size)
    start, before = {int(place): fresh[i:i + 1] for i, place in enumerate(unique)}, fresh[which]
    old, new = in_turns(function, places, before, *operands)
    wanted_old, wanted_new = one_by_one(function, places, start, *operands)
    assert old.dtype == new.dtype == dtype and old.shape == new.shape == places.shape
    assert old.tobytes() == np.asarray(wanted_old, dtype).tobytes()
    assert new.tobytes() == np.asarray(wanted_new, dtype).tobytes()


def draw(dtype, size: int) -> np.ndarray:
    if dtype.kind in "iu":
        return RANDOM.integers(np.iinfo(dtype).min, np.iinfo(dtype).max, size, dtype, endpoint=True)
    numbers = RANDOM.standard_normal(size) * 2.0**RANDOM.integers(-6, 7, size)
    return np.where(RANDOM.random(size) < 0.02, RANDOM.choice([np.inf, -0.0, np.nan], size), numbers).astype(dtype)


@pytest.mark.parametrize("places", PLACES)
@pytest.mark.parametrize("name", [*INTEGERS, *FLOATS])
@pytest.mark.filterwarnings("ignore:invalid value", "ignore:overflow")
def test_every_kind(name, places):
    """Bit for bit: integers wrap, floats are rounded in the order of the lanes, and logic of floats is that of their bits."""
    dtype, at = np.dtype(getattr(ml_dtypes, name, name)), PLACES[places]
    kinds = set(KINDS) - ({"FADD"} if name in INTEGERS else {"UMAX", "UMIN"})
    for kind in sorted(kinds):
        compared(combining(kind, dtype), at, dtype, draw(dtype, at.size))
    compared(exchange_if, at, dtype, draw(dtype, at.size), draw(dtype, at.size))


def test_addresses_are_places():
    compared(np.add, np.uint64(0x7f0000000000) + np.uint64(4) * RANDOM.integers(0, 40, 1100, np.uint64), np.dtype(np.int32),
             draw(np.dtype(np.int32), 1100))


def test_compare_and_swap_in_a_chain():
    """Each lane finds what the one before it left."""
    wanted = np.arange(500, dtype=np.int32)
    old, new = in_turns(exchange_if, np.zeros(500, int), np.zeros(500, np.int32), wanted + 1, wanted)
    assert old.tolist() == wanted.tolist() and new.tolist() == (wanted + 1).tolist()


def test_a_long_sum_is_rounded_at_each_step():
    """1 is lost in 2048 of fp16, whose numbers are 2 apart there."""
    old, new = in_turns(np.add, np.zeros(4, int), np.full(4, 2048, np.float16), np.ones(4, np.float16))
    assert old.tolist() == new.tolist() == [2048] * 4
