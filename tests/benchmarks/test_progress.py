"""Lines about where a benchmark stands, by a clock that is fake."""

import pytest

from benchmarks.progress import each, spoken


def test_a_line_before_each_row_says_what_is_left_by_those_that_are_done(capsys):
    now = [1000.0]
    for case in each(["GH1", (256, 64), "GH3"], clock=lambda: now[0]):
        now[0] += 50 if case == "GH1" else 70
    assert capsys.readouterr().err.splitlines() == [
        "[1/3] GH1 ...", "[2/3] 256 64 ... about 1 min 40 s left", "[3/3] GH3 ... about 1 min 0 s left"]


def test_lines_come_one_by_one(capsys):
    cases = each(range(2), lambda case: f"case {case}", clock=lambda: 0.0)
    assert next(cases) == 0 and capsys.readouterr().err == "[1/2] case 0 ...\n"
    assert list(cases) == [1] and capsys.readouterr().err == "[2/2] case 1 ... about 0 s left\n"


def test_ranks_that_are_quiet_say_nothing(capsys):
    assert list(each("ab", quiet=True)) == ["a", "b"] and list(each([])) == [] and not capsys.readouterr().err


@pytest.mark.parametrize("seconds, said", [(0.4, "0 s"), (59.4, "59 s"), (59.6, "1 min 0 s"), (100, "1 min 40 s"),
                                           (3599.6, "1 h 0 min"), (7500, "2 h 5 min")])
def test_times_in_words(seconds, said):
    assert spoken(seconds) == said
