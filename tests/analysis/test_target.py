"""Names and numbers of the chips."""

import pytest

from mimw.errors import TargetError
from mimw.target import TARGETS, target


@pytest.mark.parametrize("name, expected", [
    ("sm_90a", "sm_90a"), ("sm_90", "sm_90a"), ("sm90", "sm_90a"), ("SM90A", "sm_90a"), ("cuda:90", "sm_90a"),
    ("cuda:sm_100a", "sm_100a"),
    ("sm_80", "sm_80"), ("gfx942", "gfx942"), ("hip:gfx950", "gfx950"),
    ("gfx942:sramecc+:xnack-", "gfx942"), ("gfx1250", "gfx1250"),
    ("ascend_910b", "ascend_910b"), ("Ascend910B", "ascend_910b"), ("ascend:ascend_910b", "ascend_910b"),
])
def test_spellings(name, expected):
    assert target(name) is TARGETS[expected]


@pytest.mark.parametrize("name", ["sm_75", "sm_9", "gfx90a", "hip:90", "cuda:gfx942", "", "90b", "cuda:ascend_910b"])
def test_unknown_names(name):
    with pytest.raises(TargetError, match="known are sm_80, sm_90a, .*, gfx950, gfx1250, ascend_910b"):
        target(name)


def test_a_target_is_its_own_name():
    assert target(TARGETS["sm_90a"]) is TARGETS["sm_90a"]


def test_shared_memory():
    assert {name: chip.shared_bytes for name, chip in TARGETS.items()} == {
        "sm_80": 166912, "sm_90a": 232448, "sm_100a": 232448, "sm_103a": 232448, "sm_120a": 101376, "gfx942": 65536,
        "gfx950": 163840, "gfx1250": 327680, "ascend_910b": 0}


def test_every_chip_runs_1024_threads():
    assert {chip.max_threads for chip in TARGETS.values()} == {1024}
