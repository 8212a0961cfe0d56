"""Tests of operators run on tensors of the CPU, in the simulator; where there is no torch each module is skipped, visibly."""

import pytest


@pytest.fixture(autouse=True)
def quiet(recwarn):
    """The note that this is a simulation comes once a process, in whichever test is first."""
    yield


@pytest.fixture
def copies(monkeypatch):
    """`copies(module)`: copies for TMA are worth making at any size, and what was planned before is forgotten."""
    def always(module):
        monkeypatch.setattr(module, "WORTH_A_COPY", 0)
        monkeypatch.setattr(module, "_PLANS", type(module._PLANS)(module._plan))

    return always
