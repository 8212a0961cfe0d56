"""The search's shortcuts: short runs for all plans, predictions for the best, and compilations until one spills nothing."""

from dataclasses import replace

import pytest

from mimw.tools.orchestrate import choose, inputs, ranking
from mimw.tools.orchestrate.plain import plain_of
from mimw.tools.orchestrate.spent import Spent
from mimw.tools.orchestrate.written import fitted, written
from mimw.tools.timing.predict import first_asked, predicted, rough, timed
from tests.orchestrate.cases import attention, gemm_descriptors, gemm_pointers


@pytest.fixture(scope="module")
def plain():
    kernel, grid, args, meta, _ = attention.case()
    return plain_of(kernel, grid, args, meta)


@pytest.fixture(scope="module")
def search(plain):
    with pytest.MonkeyPatch.context() as patch:
        few = [plan for plan in choose.plans(plain.program) if plan.consumers == 2 and not plan.pingpong and not plan.tiles_in_turn]
        patch.setattr(choose, "every_plan", lambda plain: iter(few))
        return choose.candidates(plain)


def test_a_time_without_a_timeline_is_the_prediction(plain):
    found = predicted(plain.launch, plain.chip)
    assert timed(plain.launch, plain.chip) == (found.microseconds, found.megahertz)
    assert rough(plain.launch, plain.chip, found.megahertz) == pytest.approx(found.microseconds, rel=0.1)


def test_the_choice_is_that_of_predicting_all(plain, search):
    exact = [timed(one.written.launch(), plain.chip)[0] for one in search.candidates]
    about = [one.about for one in search.candidates]
    worth = len(ranking.close(about))
    assert len(exact) == 4 and search.candidates[0].predicted == min(exact)
    assert [one.predicted is not None for one in search.candidates] == [True] * worth + [False] * (4 - worth)
    assert about[worth:] == sorted(about[worth:])
    assert set(search.spent) == {"write", "rank", "predict", "compile"} and all(search.spent.values())


def test_forms_that_load_the_same_tiles_are_asked_once_what_programs_share(plain, search, monkeypatch):
    ones, asked = [one.written for one in search.candidates], []
    monkeypatch.setattr(ranking, "first_asked", lambda *of: asked.append(first_asked(*of)) or asked[-1])
    _, times = ranking.ranked(plain, ones)
    assert len(ones) == 4 and len(asked) == 1 and not any(one.plan.persistent for one in ones)
    _, clock = timed(plain.author, plain.chip)
    assert times == pytest.approx([rough(one.launch(), plain.chip, clock) for one in ones], rel=0.01)
    assert 0 < asked[0] < 1


def test_what_loads_by_pointers_move_each_form_finds_out_itself():
    kernel, grid, args, meta, _ = gemm_pointers.case()
    author = plain_of(kernel, grid, args, meta)
    assert first_asked(author.launch, author.chip) is None


@pytest.mark.parametrize("said, asked", [(0.25, 3), (None, 1)])
def test_where_the_first_form_has_loads_by_pointers_no_other_is_asked(search, monkeypatch, said, asked):
    ones, count = [one.written for one in search.candidates[:3]], []
    monkeypatch.setattr(ranking, "first_asked", lambda launch, chip: count.append(launch) or said)
    assert ranking._shares(ones) == [said] * asked * (said is not None) and len(count) == asked
    assert ranking._shares([]) == []


def test_one_is_compiled_where_it_spills_nothing(search):
    assert [one.registers for one in search.candidates] == [168] + [None] * (len(search.candidates) - 1)


def test_those_that_spill_stand_behind_one_that_does_not(plain, search, monkeypatch):
    spills = iter((64, 8))
    monkeypatch.setattr(choose, "_compiled", lambda one: replace(one, registers=168, stack=next(spills, 0)))
    monkeypatch.setattr(choose, "ranked", lambda plain, ones: (9.0, [1.0, 1.5, 1.2]))
    monkeypatch.setattr(choose, "every_plan", lambda plain: iter(replace(one.plan, stages=2) for one in search.candidates[:3]))
    found = choose.candidates(plain)
    first, *rest = found.candidates
    assert (first.stack, first.about, sorted(one.stack for one in rest)) == (0, 1.5, [8, 64]) and first.predicted is not None
    left = choose.finished(replace(search.candidates[-1], registers=None), Spent())     # the next one, if the first were not proved
    assert left.registers == 168 and left.predicted is not None and left.written.is_fitted


def test_numbers_of_runs_that_are_worth_a_prediction():
    assert ranking.close([3.0, None, 1.0, 1.02, 1.01]) == [2, 4]
    assert ranking.close([None] * 3) == [0, 1] and ranking.close([]) == []


def test_slots_that_nobody_has_asked_the_compiler_for_are_fitted_later(plain):
    kernel, grid, args, meta, _ = gemm_descriptors.case()
    launch = plain_of(kernel, grid, args, meta)
    plan = next(choose.plans(launch.program))
    one = written(launch, plan, fits=False)
    assert not one.is_fitted and one.plan.stages is None
    assert fitted(one).plan == written(launch, plan).plan and fitted(fitted(one)).is_fitted


def test_copies_are_written_apart():
    import numpy as np
    arrays = {"a": np.zeros((300, 700), np.float16)[::2], "n": np.arange(6)}
    one, other = inputs.copies(arrays), inputs.copies(arrays)
    before = other["a"].copy()
    one["a"][...], one["n"][...] = 1, 0
    assert inputs.different(one, other) == ["a", "n"] and (other["a"] == before).all() and (arrays["n"] == range(6)).all()
    inputs.forget()
    assert (one["a"] == 1).all() and (inputs.copies(arrays)["a"] == before).all() and before.std() > 0.9
