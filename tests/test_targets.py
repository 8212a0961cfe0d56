"""Every word becomes a binary on every target that has it, and is refused by name on every other."""

import re

import pytest
from triton.compiler.errors import CompilationError

from mimw.errors import TargetError
from mimw.passes.check_target import word_targets
from mimw.target import TARGETS
from tests.lowering.words import ANYWHERE, CASES

_BINARY = {"sm": "cubin", "gf": "hsaco"}
_FAMILY = {"sm_8": "sm_90 or newer", "sm_1": "Blackwell", "gfx9": "AMD", "gfx1": "AMD"}
_TRIED = [(name, target) for name in CASES for target in ANYWHERE]


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
    assert re.search(r"words.py:\d+", text)
    assert re.search(f"{target}|{_FAMILY[target[:4]]}", text)


def test_the_table_for_the_documentation():
    table = word_targets()
    assert table["async_dot"] == ("sm_90a", )
    assert table["tmem"] == ("sm_100a", "sm_103a")
    assert table["desc.load"] == tuple(name for name, chip in TARGETS.items() if chip.has("tma"))
    assert "local_alloc" not in table  # every target has it
