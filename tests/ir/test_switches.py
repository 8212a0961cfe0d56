"""A variable of the environment turns something on unless it is missing, empty or 0."""
import pytest

from mimw.ir.switches import switched_on


@pytest.mark.parametrize("text, on", [(None, False), ("", False), ("0", False), ("1", True), ("yes", True)])
def test_a_switch_is_on_unless_it_is_missing_empty_or_0(monkeypatch, text, on):
    monkeypatch.delenv("MIMW_RACES", raising=False)
    if text is not None:
        monkeypatch.setenv("MIMW_RACES", text)
    assert switched_on("MIMW_RACES") is on
