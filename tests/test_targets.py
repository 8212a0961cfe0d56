"""Every word becomes a binary on every target that has it."""

import pytest

from tests.lowering.words import CASES

_BINARY = {"sm": "cubin", "gf": "hsaco"}


@pytest.mark.parametrize("name, target", [(name, target) for name, (_, targets) in CASES.items() for target in targets])
def test_compiles_to_a_binary(name, target):
    case, _ = CASES[name]
    assert case.compiled(target).stage(_BINARY[target[:2]])[:4] == b"\x7fELF"
