"""A test of many things names all that are wrong, and is none where there is nothing to ask about."""

import pytest

from tests.every import every


def test_each_that_is_wrong_is_named():
    seen = []

    @every(["one", "two", "three"])
    def test(name):
        """Says."""
        seen.append(name)
        assert name == "two", "another"

    with pytest.raises(pytest.fail.Exception) as failed:
        test()
    assert seen == ["one", "two", "three"] and test.__name__ == "test" and test.__doc__ == "Says."
    first, *others = str(failed.value).splitlines()
    assert first == "2 of 3" and [line.split(":")[0] for line in others if "another" in line] == ["one", "three"]


def test_what_raises_anything_is_wrong():
    @every(["one"])
    def test(name):
        raise KeyError(name)

    with pytest.raises(pytest.fail.Exception, match="one: KeyError: 'one'"):
        test()


def test_a_test_of_nothing_is_refused():
    with pytest.raises(AssertionError, match="a test of nothing"):
        every([])
