"""Tokens to the ranks of their experts and back, simulated: what arrives where, launches behind each other, odd routings, races."""

import sys
from dataclasses import replace

import numpy as np
import pytest
import triton.language as tl

import mimw
import mimw.tlx as tlx
from mimw.kernels import moe_combine, moe_dispatch
from tests.kernels.spread_experts import ALONE, ROWS, SMALL, assert_dispatched, assert_listed, combining, dispatching, listing

ROUTINGS = {
    "any": None,
    "one expert has all": lambda random, rank, count: np.full((count, 2), 3),
    "nobody chooses": lambda random, rank, count: np.full((count, 2), -1),
    "own experts alone": lambda random, rank, count: rank * 2 + random.integers(0, 2, (count, 2)),
    "others' experts alone": lambda random, rank, count: (1 - rank) * 2 + random.integers(0, 2, (count, 2)),
    "no experts by other numbers": lambda random, rank, count: random.choice([-5, 0, 3, 4, 1000], (count, 2)),
}


@pytest.mark.parametrize("routing", ROUTINGS)
def test_rows_go_to_their_experts(routing):
    launch, made = dispatching(2, 5, 2, 2, 8, programs=2, ids=ROUTINGS[routing])
    for _ in range(3 if routing == "any" else 1):       # each launch takes the other half of what is announced
        mimw.simulate(launch[0], launch[1], *launch[2], **launch[3])
        assert_dispatched(made)


def test_three_ranks_with_scales_one_of_them_without_tokens():
    launch, made = dispatching(3, 7, 3, 2, 8, programs=3, scales=4, tokens=[7, 0, 4], block=4)
    for _ in range(2):
        mimw.simulate(launch[0], launch[1], *launch[2], **launch[3])
        assert_dispatched(made)


@pytest.mark.long(but=["1-any", "2-own experts alone", "1-nobody chooses"], everywhere=True)
@pytest.mark.parametrize("warps, routing", [(1, "any"), (2, "any"), (1, "nobody chooses"), (2, "own experts alone")])
def test_warps_take_whole_rows_to_their_places(warps, routing):
    """Three choices a token, with scales, more rows than slots; one of the programs' rings goes around several times."""
    ids = ROUTINGS[routing] if routing != "any" else lambda random, rank, count: random.integers(-1, 4, (count, 2))
    launch, made = dispatching(2, 9, 2, 2, 8, programs=2, ids=ids, scales=4 * warps - 4, chosen=replace(SMALL, whole=warps))
    for _ in range(2):
        mimw.simulate(launch[0], launch[1], *launch[2], **launch[3])
        assert_dispatched(made)


def test_of_many_choices_programs_count_their_own_and_meet(monkeypatch):
    monkeypatch.setattr(moe_dispatch, "MEET", 8)
    launch, made = dispatching(2, 5, 3, 3, 8, programs=2, tokens=[5, 3], chosen=replace(SMALL, tile=4, count=8))
    for _ in range(2):      # words count on
        mimw.simulate(launch[0], launch[1], *launch[2], **launch[3])
        assert_dispatched(made)
    launch, made = listing(2, 5, 2, 2, 8, programs=2, block=2, chosen=replace(ROWS, tile=2, count=4))
    assert mimw.check(launch[0], launch[1], *launch[2], seeds=1, **launch[3]).ok


def test_a_world_of_one_keeps_its_rows():
    launch, made = dispatching(1, 6, 2, 4, 8, programs=2)
    mimw.simulate(launch[0], launch[1], *launch[2], **launch[3])
    assert_dispatched(made)


@pytest.mark.parametrize("routing", ROUTINGS)
def test_rows_stay_where_they_come_and_are_listed(routing):
    launch, made = listing(2, 5, 2, 2, 8, programs=2, block=4, ids=ROUTINGS[routing])
    for _ in range(2 if routing == "any" else 1):
        mimw.simulate(launch[0], launch[1], *launch[2], **launch[3])
        assert_listed(made)


def test_three_ranks_list_rows_with_scales():
    launch, made = listing(3, 7, 3, 2, 8, programs=3, scales=4, tokens=[7, 0, 4])
    mimw.simulate(launch[0], launch[1], *launch[2], **launch[3])
    assert_listed(made)


FORMS = {       # whether weights came; generations, roles, and whether sums are told of
    "sent": (False, 1, 2, True), "came": (True, 1, 2, True), "two generations": (True, 2, 2, True), "one role": (True, 2, 1, True),
    "one role, one generation": (True, 1, 1, True), "words": (True, 1, 2, False), "words, two generations": (True, 2, 2, False),
    "words, one role": (True, 2, 1, False)}


def combining_as(form, *shape, chosen=moe_combine.Configuration(4, 8, 1, 2), **how):
    came, generations, roles, told = FORMS[form]
    return combining(*shape, chosen=replace(chosen, generations=generations, roles=roles, told=told), came=came, **how)


@pytest.mark.long(everywhere=True, but=[
    "sent-*", "came-any", "words, two generations-any", "came-own experts alone", "two generations-nobody chooses",
    "one role, one generation-no experts by other numbers", "words-others' experts alone",
    "words, two generations-nobody chooses", "words, one role-one expert has all"])
@pytest.mark.parametrize("routing", ROUTINGS)
@pytest.mark.parametrize("form", FORMS)
def test_rows_come_back_weighted(routing, form):
    """Each launch takes the other generation."""
    launch, made = combining_as(form, 2, 5, 2, 2, 24, ids=ROUTINGS[routing])
    bits = []
    for _ in range(3):
        mimw.simulate(launch[0], launch[1], *launch[2], **launch[3])
        for out, expected in zip(made.out, made.expected):
            np.testing.assert_allclose(out, expected, atol=1e-5)
        bits.append([out.tobytes() for out in made.out])
        for out in made.out:
            out[...] = np.nan
    assert bits[0] == bits[1] == bits[2]


@pytest.mark.long(but=["2-4-words, one role", "2-4-two generations"], everywhere=True)
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("ranks, times", [(2, 4), (4, 3)])
def test_launches_follow_each_other(form, ranks, times):
    """Also where a rank gets nothing, hears of nothing, and is ahead; ranks differ in pace by seed."""
    chosen = replace(ALONE, ctas=2)
    for ids in (None, lambda random, rank, count: np.zeros((count, 2))):
        launch, _ = combining_as(form, ranks, 3, 2, 2, 16, times=times, ids=ids, chosen=chosen)
        assert mimw.check(launch[0], launch[1], *launch[2], seeds=2, **launch[3]).ok


@mimw.jit
def always_the_first(partials, call, job):
    return partials


@mimw.jit
def tell_without_a_fence(board, job):
    for step in tl.static_range(1, job.RANKS):
        there = tlx.peer_pointer(board.signals, (tlx.world_rank(job.world) + step) % job.RANKS, job.world)
        tlx.signal(there + tlx.world_rank(job.world), sem="relaxed")


@pytest.mark.long(but=["tell_begun-tell_without_a_fence-came-13", "half_of-always_the_first-two generations-12"], everywhere=True)
@pytest.mark.parametrize("name, instead, form, columns", [
    ("half_of", always_the_first, "two generations", 12), ("half_of", always_the_first, "one role", 12),
    ("half_of", always_the_first, "words, one role", 12), ("tell_begun", tell_without_a_fence, "came", 13),
    ("tell_begun", tell_without_a_fence, "two generations", 13)])
def test_who_does_not_wait_until_partials_are_free_is_found(name, instead, form, columns, monkeypatch):
    """One generation, written when the launch before has begun; ranks that have begun, but may still read. The numbers of columns
    are no other test's: a kernel that has been recorded is not looked at again."""
    monkeypatch.setattr(sys.modules[moe_combine.kernel.fn.__module__], name, instead)
    launch, _ = combining_as(form, 2, 3, 2, 2, columns, times=4, chosen=ALONE, ids=lambda random, rank, count: np.zeros((count, 2)))
    found = mimw.check(launch[0], launch[1], *launch[2], seeds=4, **launch[3])
    assert not found.ok and "partials" in str(found)


@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_words_hold_any_number(dtype):
    """No numbers, infinite ones and zeros of either sign, also the word of ones alone; of ranks without tokens nothing."""
    odd = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -2.0, 65504.0], dtype)
    launch, made = combining_as("words, two generations", 2, 4, 1, 1, 24, dtype=dtype, partial=dtype, tokens=[0, 4],
                                ids=lambda random, rank, count: np.zeros((count, 1)))
    ones = np.full(24, -1, np.dtype(f"int{8 * odd.itemsize}")).view(dtype)
    rows, weights = launch[2][0][0], launch[2][3][0]
    rows[:4], weights[1] = [np.tile(odd, 3), ones, np.zeros(24, dtype), -np.tile(odd, 3)], 1
    for _ in range(3):
        mimw.simulate(launch[0], launch[1], *launch[2], **launch[3])
        np.testing.assert_array_equal(made.out[1], rows[:4])
        made.out[1][...] = 7


def test_roles_may_be_tasks_of_one_program():
    """The same bits as of programs by themselves; two tasks of each role, and no interleaving is wrong."""
    bits = []
    for together in (False, True):
        chosen = moe_combine.Configuration(ctas=4, block=16, warps=4, together=together)
        launch, made = combining(2, 5, 2, 2, 24, multiprocessors=1, chosen=chosen)
        assert launch[1] == ((1, ) if together else (4, )) and launch[3].get("TASKS", 1) == (4 if together else 1)
        if together:
            assert mimw.check(launch[0], launch[1], *launch[2], seeds=3, **launch[3]).ok
        for _ in range(2):
            mimw.simulate(launch[0], launch[1], *launch[2], **launch[3])
        bits.append([out.tobytes() for out in made.out])
        np.testing.assert_allclose(made.out[0], made.expected[0], atol=1e-5)
    assert bits[0] == bits[1]


def test_three_ranks_one_of_them_without_tokens():
    launch, made = combining(3, 7, 3, 2, 16, tokens=[7, 0, 4], dtype="float16", partial="float16")
    mimw.simulate(launch[0], launch[1], *launch[2], **launch[3])
    for out, expected in zip(made.out, made.expected):
        np.testing.assert_allclose(out[:len(expected)].astype(float), expected, atol=5e-3)


@pytest.mark.long(but=["dispatch, listed", "combine"], everywhere=True)
@pytest.mark.parametrize("launch", [
    dispatching(2, 4, 2, 2, 8, programs=2)[0], dispatching(2, 7, 2, 1, 8, programs=1, chosen=replace(SMALL, whole=2))[0],
    listing(2, 4, 2, 2, 8, programs=1, block=2, times=2)[0],
    combining(2, 4, 2, 2, 16)[0]], ids=["dispatch", "dispatch, whole rows", "dispatch, listed", "combine"])
def test_nothing_is_found(launch):
    assert mimw.check(launch[0], launch[1], *launch[2], seeds=3, **launch[3]).ok


def test_what_does_not_fit_is_refused():
    with pytest.raises(ValueError, match="a ring has room for the rows"):
        moe_dispatch.Configuration(out=1, group=2)
    with pytest.raises(ValueError, match="slots of its own: home and unread"):
        replace(SMALL, home=3, whole=2)
    with pytest.raises(ValueError, match="rows of 65536 bytes: 3 of them fit"):
        moe_dispatch.configuration(1 << 16)
    with pytest.raises(ValueError, match="words is 6; rows must be multiples of 16 bytes, as elements of int32"):
        dispatching(2, 4, 2, 2, 6, programs=2)
    with pytest.raises(ValueError, match="programs is 0"):
        dispatching(2, 4, 2, 2, 8, programs=0)
    with pytest.raises(ValueError, match="a ring has room for the rows in flight: out"):
        moe_dispatch.RowsConfiguration(4, 4)
    assert moe_combine.configuration(7168, 4096, 132) == moe_combine.Configuration() and SMALL.home > SMALL.unread
    assert moe_combine.configuration(7168, 128, 132).parts == 4
    assert [moe_combine.configuration(7168, most, 132, ranks, True).generations
            for most, ranks in ((128, 2), (128, 4), (512, 2), (1024, 2), (4096, 2))] == [2, 2, 2, 1, 1]
    with pytest.raises(ValueError, match="one or two generations of partial sums, and one or two roles"):
        moe_combine.Configuration(generations=3)
    for columns, form in ((24, "sent"), (25, "words")):
        with pytest.raises(ValueError, match="sums without an announcement go in pieces of 2 columns"):
            combining(2, 4, 2, 2, columns, came=FORMS[form][0], chosen=moe_combine.Configuration(told=False))
    with pytest.raises(ValueError, match="half of either role, of 4 or 8 warps"):
        moe_combine.Configuration(ctas=5, together=True)


@pytest.mark.parametrize("row_bytes, k, groups", [(14336, 8, (1, 2, 4)), (7392, 8, (2, 4, 8)), (8192, 2, (8, 8, 8)),
                                                  (28672, 8, (1, 1, 1))])
def test_peers_are_told_less_often_where_they_are_more(row_bytes, k, groups):
    """Rings of every number of ranks fit: the whole rows of two warps, and a group of what leaves."""
    found = [moe_dispatch.configuration(row_bytes, 0, k, ranks) for ranks in (2, 4, 8)]
    assert tuple(one.group for one in found) == groups
    for tables in range(0, 100_000, 8192):      # a ValueError where a configuration is none
        for ranks in range(2, 17):
            one = moe_dispatch.configuration(7392, tables, k, ranks)
            assert (one.out + one.home) * 8192 + tables <= moe_dispatch.SHARED


def test_rows_that_stay_have_half_of_the_slots_under_way_to_several_peers():
    two, four = (moe_dispatch.rows_chosen_for(4096, 14336, 132, ranks) for ranks in (2, 4))
    assert (two.out, two.unread, four.out, four.unread) == (12, 6, 6, 3)
