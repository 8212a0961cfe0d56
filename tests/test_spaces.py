"""Memory spaces as data of each chip, and the names under which kernels use them."""

import pickle
from dataclasses import FrozenInstanceError

import pytest

import mimw.tle as tle
from mimw.target import TARGETS
from mimw.target.spaces import DSA, TITLES, Path

ASCEND = TARGETS["ascend_910b"]


def test_spaces_of_the_ascend_910b():
    """Bytes, alignment and owner as published."""
    assert {name: (space.bytes // 1024, space.alignment, space.unit) for name, space in ASCEND.spaces.items() if name in DSA} == {
        "ub": (192, 32, "vector core"), "l1": (512, 32, "cube core"), "l0a": (64, 512, "cube core"), "l0b": (64, 512, "cube core"),
        "l0c": (128, 64, "cube core")}
    assert {name: space.computes for name, space in ASCEND.spaces.items() if space.computes} == {
        "ub": ("Vector", "Scalar"), "l0a": ("Cube", ), "l0b": ("Cube", ), "l0c": ("Cube", )}


def test_paths_of_the_ascend_910b():
    """Every legal copy with its engine, and no other: vector and cube cores meet in global memory."""
    legal = {(space.name, path.to): path.engine for space in ASCEND.spaces.values() for path in space.copies}
    assert legal == {
        ("global", "ub"): "MTE2", ("global", "l1"): "MTE2", ("global", "l0a"): "MTE2", ("global", "l0b"): "MTE2",
        ("ub", "global"): "MTE3", ("l1", "l0a"): "MTE1", ("l1", "l0b"): "MTE1", ("l1", "global"): "MTE3",
        ("l0c", "global"): "FixPipe", ("l0c", "l1"): "FixPipe"}
    assert ASCEND.spaces["ub"].engine("l1") is None and ASCEND.spaces["l1"].engine("l0a") == "MTE1"


def test_every_chip_has_spaces():
    for chip in TARGETS.values():
        assert {path.to for space in chip.spaces.values() for path in space.copies} <= set(chip.spaces) <= set(TITLES)
        assert all(chip.space(name) == chip.spaces[name].bytes for name in ("smem", "tmem", *DSA) if name in chip.spaces)
        assert chip.binary == ("smem" in chip.spaces) and hash(chip) == hash(pickle.loads(pickle.dumps(chip)))
    hopper, blackwell = TARGETS["sm_90a"].spaces, TARGETS["sm_100a"].spaces
    assert (hopper["smem"].alignment, TARGETS["sm_80"].spaces["smem"].alignment) == (128, 16)
    assert hopper["smem"].engine("global") == "TMA" and TARGETS["gfx942"].spaces["smem"].engine("global") is None
    assert "tmem" not in hopper and blackwell["tmem"].copies == (Path("registers", "tcgen05.ld"), )
    assert hopper["smem"].aligned(1) == 128 and blackwell["tmem"].aligned(513) == 1024
    with pytest.raises(FrozenInstanceError):
        hopper["smem"].bytes = 1
    with pytest.raises(KeyError):
        TARGETS["sm_90a"].space("umem")


def test_address_spaces_are_values():
    spaces = [getattr(tle.dsa.ascend, name) for name in ("UB", "L1", "L0A", "L0B", "L0C")]
    assert tuple(one.space for one in spaces) == DSA and len(set(spaces)) == len(set(map(str, spaces))) == 5
    assert str(tle.dsa.ascend.UB) == "tle.dsa.ascend.UB" == tle.dsa.ascend.UB.cache_key
    assert tle.dsa.ascend.address_space("UB") == tle.dsa.ascend.UB != tle.dsa.ascend.L1
    with pytest.raises(AttributeError, match="tle.dsa.ascend has no 'L0D'. Did you mean"):
        tle.dsa.ascend.L0D


def test_kinds_lead_to_the_chips_spaces(monkeypatch):
    """What kernels name is the same for all chips; how much there is of it is the chip's."""
    import mimw.tlx as tlx

    assert tle.dsa.ascend.UB.on("ascend_910b") is ASCEND.spaces["ub"]
    assert tle.dsa.ascend.L0C.on("sm_90a").name == "smem"
    assert tlx.storage_kind.smem.on("sm_90a").bytes == 232448 and tlx.storage_kind.tmem.on("sm_90a") is None
    assert tle.gpu.tmem.on("sm_100a") is tlx.storage_kind.tmem.on("sm_100a") is TARGETS["sm_100a"].spaces["tmem"]
    assert tlx.storage_kind.smem.on("ascend_910b") is None
    monkeypatch.setenv("MIMW_TARGET", "gfx942")
    assert tle.gpu.smem.on().bytes == 65536
