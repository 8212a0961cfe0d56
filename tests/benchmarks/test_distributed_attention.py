"""The baselines of benchmarks/distributed_attention.py: what each rank sees of the others' keys, and results that are merged."""

from types import SimpleNamespace

import pytest

torch = pytest.importorskip("torch", reason="the benchmark is of torch tensors")

from benchmarks import distributed_attention  # noqa: E402
from mimw.kernels.ring_attention import positions  # noqa: E402
from mimw.testing.benchmark import Row  # noqa: E402


def plain(q, k, v, causal):
    scores = q @ k.mT / q.shape[-1]**0.5
    if causal:
        scores = scores.masked_fill(torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1), float("-inf"))
    return scores.softmax(-1) @ v, scores.logsumexp(-1)


@pytest.mark.parametrize("size, causal", [(2, True), (3, True), (3, False)])
def test_sources_make_up_the_whole(monkeypatch, size, causal):
    monkeypatch.setattr(distributed_attention, "cudnn", plain)
    torch.manual_seed(0)
    q, k, v = (torch.randn(1, 2, 16 * size, 8, dtype=torch.float64) for _ in range(3))
    expected = plain(q, k, v, causal)
    rows = [torch.from_numpy(positions(rank, size, 16, 2 if causal else 1)) for rank in range(size)]
    for rank in range(size):
        mine = rows[rank]
        problem = SimpleNamespace(q=q[:, :, mine], length=16, causal=causal, world=SimpleNamespace(rank=rank))
        result = plain(problem.q, k[:, :, mine], v[:, :, mine], causal)
        for source in (other for other in range(size) if other != rank):
            result = distributed_attention.with_source(problem, result, source, k[:, :, rows[source]], v[:, :, rows[source]])
        for found, whole in zip(result, expected):
            torch.testing.assert_close(found, whole[:, :, mine])


def test_a_line_says_the_rate_of_one_gpu():
    shape = dict(batch=1, heads=32, kv_heads=8, seq=16384, dim=128, gpus=2)
    row = Row("distributed-attention-bf16-causal", shape, {}, 1000.0, {"ring": 2000.0}, 1e-3, "standard normal", "a chip", {})
    assert "1100 TFLOP/s  ring 2000 us ratio 2.000" in distributed_attention.line(row)
