"""MIMW_LOG: a line for each new plan with the kernel, its configuration and why, one for a call left to torch, and no more."""

import logging

import pytest

torch = pytest.importorskip("torch", reason="operators need torch: make test TORCH=torch==VERSION+cpu")

from mimw import ops  # noqa: E402
from mimw.ops import log, notes  # noqa: E402
from mimw.ops.rope import ROPE  # noqa: E402
from tests.processes import python  # noqa: E402


@pytest.fixture
def lines(caplog, monkeypatch):
    monkeypatch.setattr(log.LOGGER, "propagate", True)
    caplog.set_level(logging.INFO, logger="mimw")
    return lambda: [record.getMessage() for record in caplog.records if record.name == "mimw"]


@pytest.mark.filterwarnings("ignore::mimw.ops.SimulationWarning")
def test_a_line_for_each_new_plan(lines):
    x = torch.randn(3, 6)
    for _ in range(3):
        ops.swiglu(x, x)
    line, = lines()
    assert line.startswith("swiglu(fp32 (3, 6), fp32 (3, 6)): swiglu grid (") and line.endswith("; by its rule, no row measured")
    ops.matmul(x, x.T)
    assert "; not gemm: fp32 is to be exact" in lines()[1] and len(lines()) == 2


def test_a_call_that_torch_computes_once(lines):
    q = torch.randn(1, 1, 4, 16)
    for _ in range(2):
        ops.scaled_dot_product_attention(q, q, q, torch.zeros(4, 4))
    line, = lines()
    assert line.startswith("scaled_dot_product_attention(fp32 (1, 1, 4, 16), ") and "by torch, as attn_mask is added" in line


@pytest.mark.filterwarnings("ignore::mimw.ops.SimulationWarning")
def test_a_call_whose_plan_is_there_asks_nothing(monkeypatch):
    x, table = torch.randn(1, 2, 3, 8), torch.ones(3, 4)
    ops.rope(x, table, table)
    before = len(ROPE.planned.plans)
    for name in ("takes", "note_launch", "log_plan"):
        monkeypatch.setattr(notes, name, lambda *_: pytest.fail("asked"))
    ops.rope(x, table, table)
    assert len(ROPE.planned.plans) == before


def test_explaining_is_not_logged(lines):
    ops.explain(ops.swiglu, torch.zeros(5, 5), torch.zeros(5, 5))
    assert lines() == []


@pytest.mark.parametrize("wanted", ["0", "", None])
def test_nothing_is_asked_for(wanted):
    assert log.start(wanted) is None


def test_to_a_file(tmp_path, monkeypatch):
    monkeypatch.setattr(log.LOGGER, "propagate", True)
    level, handler = log.LOGGER.level, log.start(str(tmp_path / "lines"))
    try:
        ops.scaled_dot_product_attention(*[torch.zeros(1, 1, 2, 8)] * 3, torch.zeros(2, 2))
    finally:
        log.LOGGER.removeHandler(handler)
        log.LOGGER.setLevel(level)
        handler.close()
    assert (tmp_path / "lines").read_text().startswith("mimw: scaled_dot_product_attention(fp32 (1, 1, 2, 8)")


def test_the_variable():
    """It is read when the module is imported, here once more: importing mimw.ops in a process without torch takes 6 s."""
    program = "import importlib; from mimw.ops import log; importlib.reload(log); print(log.LOGGER.level, len(log.LOGGER.handlers))"
    said = python("-c", program, torch=True, MIMW_LOG="1")
    assert said.stdout == "20 1\n"
