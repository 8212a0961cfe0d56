"""Goldens are kept, compared, and rewritten only when asked."""

import pytest

from mimw.testing import Golden


def test_update_then_compare(tmp_path):
    Golden(tmp_path / "room", "case", update=True)("one\ntwo")
    assert (tmp_path / "room" / "case.txt").read_text() == "one\ntwo\n"
    Golden(tmp_path / "room", "case")("one\ntwo\n")


def test_a_difference_is_shown_line_by_line(tmp_path):
    Golden(tmp_path, "case", update=True)("one\ntwo\n")
    with pytest.raises(AssertionError, match="-two\n[+]three"):
        Golden(tmp_path, "case")("one\nthree\n")
    assert (tmp_path / "case.txt").read_text() == "one\ntwo\n"


def test_a_missing_golden_fails(tmp_path):
    with pytest.raises(AssertionError, match="does not exist"):
        Golden(tmp_path, "case")("text")
    assert not (tmp_path / "case.txt").exists()


def test_several_cases_of_one_test(tmp_path):
    Golden(tmp_path, "case", update=True)("text", case="other")
    assert (tmp_path / "other.txt").read_text() == "text\n"


def test_the_fixture_knows_its_place(golden):
    assert golden.folder.parts[-3:] == ("golden", "testing", "golden")
    assert golden.case == "the_fixture_knows_its_place"
