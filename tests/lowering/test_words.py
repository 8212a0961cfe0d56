"""TTGIR of the smallest kernel of each word, as lowering emits it before any of Triton's passes."""

import pytest

from tests.kernels.one_amd_word import CASES


@pytest.mark.parametrize("name", CASES)
def test_words(golden, name):
    case, targets = CASES[name]
    golden(case.lowered(targets[0]), name)
