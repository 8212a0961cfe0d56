"""`mimw.ops.explain`: kernels by name, torch where no kernel is launched, and nothing simulated."""

import warnings

import pytest

torch = pytest.importorskip("torch", reason="operators need torch: make test TORCH=torch==VERSION+cpu")

from mimw import ops  # noqa: E402
from mimw.ops import launching  # noqa: E402


@pytest.mark.parametrize("operator, args, options, said", [
    (ops.matmul, (torch.ones(64, 128).half(), torch.ones(128, 64).half()), {}, "matmul: by gemm"),
    (ops.matmul, (torch.ones(3, 5), torch.ones(5, 7)), {}, "matmul: by plain_matmul"),
    (ops.rms_norm, (torch.ones(4, 256), 256), {}, "rms_norm: by norm"),
    (ops.attention, [torch.ones(1, 1, 64, 64).half()] * 3, dict(causal=True), "attention: by attention"),
    (ops.topk, (torch.ones(600000), 500000), {}, "topk: by torch"),
    (ops.scaled_dot_product_attention, [torch.ones(1, 1, 64, 64).half()] * 3, {}, "scaled_dot_product_attention: by attention"),
    (ops.scaled_dot_product_attention, [torch.ones(1, 1, 4, 64).half()] * 3 + [torch.ones(4, 4).half()], {},
     "scaled_dot_product_attention: by torch, as attn_mask is added to the scores, which no kernel of mimw does")])
def test_kernels(operator, args, options, said, monkeypatch):
    monkeypatch.setattr(launching.mimw, "simulate", lambda *args, **options: pytest.fail("simulated"))
    assert ops.explain(operator, *args, **options).line == said


def test_a_refused_call_is_refused():
    with pytest.raises(RuntimeError, match="matmul"):
        ops.explain(ops.matmul, torch.ones(3, 5), torch.ones(6, 7))


def test_calls_compute_afterwards():
    a, b = torch.randn(3, 5), torch.randn(5, 7)
    ops.explain(ops.matmul, a, b)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ops.SimulationWarning)
        torch.testing.assert_close(ops.matmul(a, b), a @ b)
