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
        from mimw.ops.operator import Operator  # needs torch
        from tests.ops.anew import anew
        monkeypatch.setattr(module, "WORTH_A_COPY", 0)
        if hasattr(module, "_PLANS"):
            monkeypatch.setattr(module, "_PLANS", type(module._PLANS)(module._plan))
        anew(monkeypatch, *(one.name for one in vars(module).values() if isinstance(one, Operator) and one.planned is not None))

    return always
