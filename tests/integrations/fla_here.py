"""fla, imported where mimw has been imported: without a GPU mimw answers for Triton's driver, and fla would ask torch for that GPU.

Input: nothing. Output: fla's modules, or a test that is skipped. For example:

    swiglu = module("fla.modules.activations.ops").swiglu
"""

import warnings

import pytest
from triton.runtime import driver


def module(name):
    """A module of fla. A test calls this, and no module of tests when it is imported: on a GPU fla starts CUDA."""
    before = driver._active
    driver.set_active(None)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")         # fla says that there is no GPU
            return pytest.importorskip(name, reason="a backend of fla needs fla-core 0.6.0")
    finally:
        driver.set_active(before)
