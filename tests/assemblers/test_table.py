"""The table of what ptxas gets wrong: each entry says all that it must, and what a version says by its number."""

import re
from pathlib import Path

import pytest

from mimw.target import TARGETS
from mimw.tools.assemblers import known, table
from mimw.tools.assemblers.table import CHIPS, HERE, Defect
from mimw.tools.assemblers.tried import for_chip
from tests.every import every

ROOT = Path(__file__).parents[2]


@every(known())
def test_an_entry_has_a_source_and_a_mend(name):
    defect = known()[name]
    for source in defect.sources:
        assert source.startswith("https://") or (ROOT / source).exists(), source
    assert defect.fixed or defect.mend
    assert len(defect.what) > 20 and len(defect.code) > 20 and defect.mimw
    assert (HERE / "probes" / f"{name}.ptx").exists() == bool(defect.probe)
    assert set(dict(defect.probe)) in ({"line"}, {"reads", "made_by"}, set())


def test_the_chips_are_those_of_hopper_and_blackwell():
    assert set(CHIPS) == {name for name, chip in TARGETS.items() if name.startswith("sm_") and chip.arch >= 90}


def defect(**versions):
    return Defect("one", CHIPS, "refused", "", "", "", "", ("",), **versions)


@pytest.mark.parametrize("versions, states", [
    ({"fixed": "13.3"}, {(12, 0, 76): "has", (13, 2, 86): "has", (13, 3, 33): "clear", (14, 0, 1): "clear"}),
    ({"fixed": "12.6.85", "since": "12.5"}, {(12, 4, 131): "clear", (12, 5, 40): "has", (12, 6, 77): "has", (12, 6, 85): "clear"}),
    ({"last": "13.3", "since": "12.8"}, {(12, 6, 85): "clear", (12, 8, 61): "has", (13, 3, 73): "has", (13, 4, 59): "unknown"}),
    ({"last": "13.5"}, {(11, 8, 89): "has", (13, 5, 37): "has", (13, 10, 1): "unknown"}),
])
def test_a_version_says_by_its_number(versions, states):
    assert {version: defect(**versions).by_version(version) for version in states} == states


@pytest.mark.parametrize("change, told", [
    ('chips = ["sm_90a"]', 'chips = ["sm_80"]'), ('kind = "wrong numbers"', 'kind = "odd"'), ('fixed = "13.1"\n', ""),
    ('fixed = "13.1"', 'fixed = "13.1"\nlast = "13.0"'), ('sources = ["tests/lowering/test_assembler.py"]', "sources = []"),
])
def test_an_entry_that_says_too_little_is_refused(tmp_path, monkeypatch, change, told):
    text = (HERE / "known.toml").read_text()
    assert change in text
    (tmp_path / "known.toml").write_text(text.replace(change, told, 1))
    monkeypatch.setattr(table, "HERE", tmp_path)
    with pytest.raises(ValueError, match="known.toml, kept_operand: "):
        known.__wrapped__()


def test_a_probe_is_for_any_chip():
    ptx = known()["conversions"].ptx
    assert ".version 8.8\n.target sm_103a\n" in for_chip(ptx, "sm_103a") and ".target sm_90a" in ptx
    assert not re.search("sm_90a", for_chip(ptx, "sm_120a"))
