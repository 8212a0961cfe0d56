"""Collectives among simulated GPUs: every form gives the sums and the parts that numpy gives, the same bits at every rank, launch
after launch on the same slots; and no run of `mimw.check` finds a race in them."""

import numpy as np
import pytest

import mimw
from mimw.errors import Livelock
from mimw.kernels.collectives import COLLECTIVES, Configuration, arguments, configuration, part_of
from mimw.kernels.collectives.configs import FLAGGED_UP_TO, PROGRAMS
from tests.kernels.collectives_of_ranks import FORMS, collecting, same_bits, world_of

CASES = [(collective, form) for collective in COLLECTIVES for form in FORMS if collective == "all_reduce" or "two_shot" not in form]


@pytest.mark.long(everywhere=[
    "reduce_scatter-flagged-4", "all_reduce-flagged-2", "all_gather-ring-lag-4", "all_reduce-ring-4", "all_reduce-ring-lag-2",
    "all_gather-ring-*", "all_reduce-two_shot-2", "reduce_scatter-ring-4", "all_gather-direct-4", "all_reduce-direct_two_shot-4",
    "all_reduce-direct-2", "reduce_scatter-direct-4", "all_gather-flagged-*", "reduce_scatter-ring-lag-*"])
@pytest.mark.parametrize("collective, form, gpus", [
    (*case, gpus) for case in CASES for gpus in ((2, 4) if case[0] == "all_reduce" else (4, ))])    # of two, all again below
def test_sums_and_parts_are_numpys_launch_after_launch(collective, form, gpus):
    (kernel, grid, args, meta), expected, out = collecting(collective, form, gpus)
    for _ in range(3):
        for one in out:
            one[:] = np.nan
        mimw.simulate(kernel, grid, *args, **meta)
        assert same_bits(out, expected)


@pytest.mark.parametrize("form", ["flagged", "ring-lag", "two_shot", "direct_two_shot"])
def test_a_sum_may_take_the_place_of_its_terms(form):
    (kernel, grid, args, meta), expected, out = collecting("all_reduce", form, 3, in_place=True)
    mimw.simulate(kernel, grid, *args, **meta)
    assert same_bits(out, expected)


@pytest.mark.long(everywhere=True, but=[
    "all_gather-flagged", "all_reduce-direct", "all_reduce-direct_two_shot", "all_reduce-ring", "all_reduce-two_shot",
    "reduce_scatter-ring-lag"])
@pytest.mark.parametrize("collective, form", CASES)
def test_no_race_and_no_deadlock_of_launches_behind_each_other(collective, form):
    (kernel, grid, args, meta), expected, out = collecting(collective, form, numbers=64 if form == "flagged" else 270, again=True,
                                                           programs=1)
    report = mimw.check(kernel, grid, *args, seeds=8 if (collective, form) == ("all_reduce", "ring-lag") else 3, **meta)
    assert report.ok, str(report)
    mimw.simulate(kernel, grid, *args, **meta)
    assert same_bits(out, expected)


def test_one_slot_instead_of_two_is_noticed():
    """The words of the next call are written over those that a slow rank has not read: it waits for a flag that is gone."""
    (kernel, grid, args, meta), _, _ = collecting("all_reduce", "flagged", numbers=16, again=True)
    meta["FORM"] = meta["FORM"].replace(PROGRAMS=0)     # calls e and e + 1 have one place
    with pytest.raises(Livelock):
        mimw.simulate(kernel, grid, *args, seed=1, **meta)


@pytest.mark.parametrize("numbers, shift", [(1, 0), (65, 1), (66, 1)])
def test_words_of_two_numbers_at_odd_places_and_of_odd_lengths(numbers, shift):
    """bf16: where a word is not whole, numbers are read and written one by one; what crosses the link is the same."""
    (kernel, grid, args, meta), expected, out = collecting("all_gather", "flagged", 2, numbers=numbers, shift=shift)
    assert not meta["FORM"].WHOLE.value
    mimw.simulate(kernel, grid, *args, **meta)
    assert same_bits(out, expected)


def test_forms_take_turns_on_one_world():
    """Each has slots and counters of its own, and goes on where it stopped."""
    for form in ("flagged", "ring", "flagged", "two_shot", "ring-lag", "ring"):
        (kernel, grid, args, meta), expected, out = collecting("all_reduce", form, 3)
        mimw.simulate(kernel, grid, *args, **meta)
        assert same_bits(out, expected), form


def test_what_no_form_takes_is_refused():
    world = world_of(2)
    x, y, odd = (world.each(lambda rank, size=size: np.zeros(size, np.float32)) for size in (64, 128, 65))
    whole = world.each(lambda rank: np.zeros(64, np.int32))
    many = world.each(lambda rank: np.broadcast_to(np.float32(0), 2**31 - 2**16))
    for wrong, message in [
            (("all_reduce", x, y, world), "xs is .64,., gathered is 1, outs is .128,. and scattered is 1;"),
            (("reduce_scatter", odd, x, world), "xs is .65,., gathered is 1, outs is .64,. and scattered is 2; out"),
            (("broadcast", x, x, world), "it may be one of all_reduce"), (("all_reduce", whole, whole, world), "float32"),
            (("all_reduce", many, many, world), "fewer than 2.31 - 2.16"),
            (("all_reduce", x, x, world, True, FORMS["direct"]), "needs another tensor"),
            (("all_reduce", x, x, world, False, FORMS["direct"]), "takes symmetric tensors"),
            (("all_gather", x, y, world, False, FORMS["two_shot"]), "no form 'two_shot' of all_gather"),
            (("all_reduce", x, x, world, False, Configuration("ring", 4, 1 << 20)), "do not fit"),
            (("all_reduce", x, x, world, False, Configuration("flagged", 4, 1)), "takes 0 bytes")]:
        with pytest.raises(ValueError, match=message):
            arguments(*wrong)


def test_what_a_full_heap_has_given_is_kept_for_the_next_call():
    class Full:
        size, asked = 2, ()

        def symmetric(self, shape, dtype, name):
            self.asked += name,
            if self.asked.count("signals of ring") == 1 and name == "signals of ring":
                raise MemoryError(name)
            return np.empty(shape, dtype)

    world, x = Full(), np.zeros(64, np.float32)
    with pytest.raises(MemoryError):
        arguments("all_reduce", x, x, world, chosen=FORMS["ring"])
    arguments("all_reduce", x, x, world, chosen=FORMS["ring"])
    assert world.asked == ("slots of ring", "signals of ring", "signals of ring", "counters of ring")


@pytest.mark.parametrize("collective", COLLECTIVES)
@pytest.mark.parametrize("ranks", [2, 8])
@pytest.mark.parametrize("symmetric", [False, True])
def test_the_librarys_choice_takes_what_it_is_chosen_for(collective, ranks, symmetric):
    for size in (4, 1 << 10, FLAGGED_UP_TO, FLAGGED_UP_TO + 4, 1 << 24, 1 << 30):
        chosen = configuration(collective, ranks, size, symmetric)
        assert chosen.form != "flagged" or size <= chosen.chunk * PROGRAMS["flagged"]
        assert symmetric or not chosen.form.startswith("direct")


@pytest.mark.parametrize("numbers, ranks, part", [(1, 2, 16), (64, 4, 16), (65, 4, 32), (1 << 20, 8, 1 << 17)])
def test_parts_begin_aligned_and_hold_all(numbers, ranks, part):
    assert part_of(numbers, ranks) == part and part % 16 == 0 and part * ranks >= numbers


def test_all_reduce_of_many_ranks_goes_in_one_hop_while_that_sends_little():
    """By rule: nobody has measured three ranks."""
    forms = [configuration("all_reduce", ranks, size, False).form for ranks, size in ((3, 1 << 20), (3, 2 << 20), (9, 512 << 10))]
    assert forms == ["ring", "two_shot", "two_shot"]
    assert configuration("all_reduce", 3, 1 << 20, True).form == "direct_two_shot"
