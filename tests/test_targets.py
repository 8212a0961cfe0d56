"""Every word becomes a binary on every target that has it (a chip of each vendor in turn, all by --long), and is refused by name on
every other."""

import re

import pytest
from triton.compiler.errors import CompilationError

from mimw.compiler.passes.check_target import word_targets
from mimw.errors import TargetError
from mimw.target import FEATURES, TARGETS
from tests.kernels.one_amd_word import AMD, ANYWHERE, CASES

_BINARY = {"sm": "cubin", "gf": "hsaco"}
_FAMILY = {"sm_8": "sm_90 or newer", "sm_1": "Blackwell", "gfx9": "AMD", "gfx1": "AMD"}
_TRIED = [(name, target) for name in CASES for target in ANYWHERE]
# Of each word's chips of a vendor one, in turn.
_QUICK = [f"{name}-{having[number % len(having)]}" for number, (name, (_, targets)) in enumerate(CASES.items())
          for vendor in _BINARY if (having := [target for target in targets if target.startswith(vendor)])]


@pytest.mark.long(but=_QUICK, everywhere=True)
@pytest.mark.parametrize("name, target", [(name, target) for name, target in _TRIED if target in CASES[name][1]])
def test_compiles_to_a_binary(name, target, capfd):
    case, _ = CASES[name]
    assert case.compiled(target).stage(_BINARY[target[:2]])[:4] == b"\x7fELF"
    assert "error" not in capfd.readouterr().err  # LLVM goes on after an impossible constraint


@pytest.mark.parametrize("name, target", [(name, target) for name, target in _TRIED if target not in CASES[name][1]])
def test_refused_elsewhere(name, target):
    case, _ = CASES[name]
    with pytest.raises((CompilationError, TargetError, NotImplementedError)) as caught:
        case.compiled(target)
    text = str(caught.value)
    assert re.search(r"one_(amd_)?word.py:\d+", text)
    assert re.search(f"{target}|{_FAMILY.get(target[:4], 'Blackwell')}", text)


def test_the_table_for_the_documentation():
    table = word_targets()
    assert table["async_dot"] == ("sm_90a", "sm_100a", "sm_103a", *AMD) and table["async_dot_wait"] == ("sm_90a", *AMD)
    assert table["tmem"] == ("sm_100a", "sm_103a")
    assert table["desc.load"] == (*(name for name, chip in TARGETS.items() if chip.has("tma")), *AMD)
    assert "local_alloc" not in table  # every target has it


@pytest.mark.parametrize("name, mma, warp, tensor_memory, features", [
    ("sm_80", "mma", 32, 0, {"zero_fill"}), ("sm_90a", "wgmma", 32, 0, {"tma", "wgmma", "clusters"}),
    ("sm_100a", "tcgen05", 32, 512 * 128 * 4, {"tma", "preferred_cluster"}),
    ("sm_120a", "mma", 32, 0, {"tma", "preferred_cluster"}),
    ("gfx942", "mfma", 64, 0, {"tasks", "barriers"}), ("gfx1250", "wmma", 32, 0, {"tasks", "barriers", "tdm", "descriptors"})])
def test_what_a_chip_has(name, mma, warp, tensor_memory, features):
    """Blackwell's sm_120 has no tensor memory, and wgmma is Hopper's alone."""
    chip = TARGETS[name]
    assert (chip.mma, chip.warp_size, chip.space("tmem")) == (mma, warp, tensor_memory)
    asked = "tasks", "barriers", "tma", "tdm", "descriptors", "wgmma", "clusters", "preferred_cluster", "zero_fill"
    assert {feature for feature in asked if chip.has(feature)} >= features
    assert chip.has("mbarrier") == chip.has("register_moves") == chip.has("tma")  # AMD's barriers count no bytes
    assert chip.has("wgmma") == (mma == "wgmma") and chip.has("zero_fill") == (chip.assembly == "ptx")
    assert chip.features <= set(FEATURES) and chip.space("smem") == chip.shared_bytes


def test_no_such_feature():
    with pytest.raises(ValueError, match="no feature is named 'tmaa'; there are tasks, register_moves, barriers, mbarrier, tma"):
        TARGETS["sm_90a"].has("tmaa")
