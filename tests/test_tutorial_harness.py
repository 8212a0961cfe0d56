"""A tutorial simulates where there is no GPU, and where MIMW_SIMULATE asks for it; else it measures."""

from pathlib import Path

import pytest


@pytest.mark.parametrize("gpu, variable, done", [(False, None, "simulated"), (True, "1", "simulated"), (True, "0", (3, "x"))])
def test_what_a_tutorial_does(gpu, variable, done, monkeypatch):
    monkeypatch.syspath_prepend(str(Path(__file__).parents[1] / "tutorials"))
    import harness
    monkeypatch.setattr(harness, "gpu_available", lambda: gpu)
    monkeypatch.setattr("sys.argv", ["tutorial.py"])
    monkeypatch.delenv("MIMW_SIMULATE", raising=False)
    if variable is not None:
        monkeypatch.setenv("MIMW_SIMULATE", variable)
    seen = []
    harness.run(lambda: seen.append("simulated"), lambda *case: seen.append(case), (3, "x"))
    assert seen == [done]
