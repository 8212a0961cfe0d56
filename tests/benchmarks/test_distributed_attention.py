"""The baselines of benchmarks/distributed_attention.py: what each rank sees of the others' keys, and results that are merged."""

from types import SimpleNamespace

import pytest

torch = pytest.importorskip("torch", reason="the benchmark is of torch tensors")

from benchmarks import distributed_attention, distributed_attention_peers  # noqa: E402
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


def plain_gradients(do, q, k, v, o, lse, causal):
    scores = q @ k.mT / q.shape[-1]**0.5
    p = (scores - lse[..., None]).exp()
    if causal:
        p = p.tril()
    ds = p * (do @ v.mT - (do * o).sum(-1, keepdim=True)) / q.shape[-1]**0.5
    return ds @ k, ds.mT @ q, p.mT @ do


@pytest.mark.parametrize("size", [2, 3])
def test_gradients_by_source_make_up_the_whole(monkeypatch, size):
    monkeypatch.setattr(distributed_attention_peers, "cudnn_gradients", plain_gradients)
    torch.manual_seed(0)
    q, k, v, do = (torch.randn(1, 2, 16 * size, 8, dtype=torch.float64) for _ in range(4))
    o, lse = plain(q, k, v, True)
    dq, dk, dv = plain_gradients(do, q, k, v, o, lse, True)
    rows = [torch.from_numpy(positions(rank, size, 16, 2)) for rank in range(size)]
    whole = torch.stack([torch.stack((k[:, :, mine], v[:, :, mine])) for mine in rows])
    total = torch.zeros_like(whole)
    for rank, mine in enumerate(rows):
        problem = SimpleNamespace(q=q[:, :, mine], do=do[:, :, mine], length=16, world=SimpleNamespace(rank=rank, size=size))
        shares = torch.zeros_like(whole)
        found = distributed_attention_peers.gradients_by_source(problem, o[:, :, mine], lse[:, :, mine], whole, shares)
        torch.testing.assert_close(found, dq[:, :, mine])
        total += shares
    for mine, (found_k, found_v) in zip(rows, total):
        torch.testing.assert_close(found_k, dk[:, :, mine])
        torch.testing.assert_close(found_v, dv[:, :, mine])


@pytest.mark.parametrize("causal", [True, False])
def test_the_gradients_of_torch_pass_the_check_and_others_do_not(monkeypatch, causal):
    """Of the second of two ranks."""
    size, length = 2, 16
    torch.manual_seed(0)
    q, k, v, do = (torch.randn(1, h, size * length, 8, dtype=torch.float64) for h in (2, 1, 1, 2))
    whole = [x.requires_grad_() for x in (q, k, v)]
    o, lse = plain(q, k.repeat_interleave(2, 1), v.repeat_interleave(2, 1), causal)
    gradients = torch.autograd.grad(o, whole, do)
    problem = object.__new__(distributed_attention.Problem)
    rows = [torch.from_numpy(positions(rank, size, length, 2 if causal else 1)) for rank in range(size)]
    order = torch.cat(rows)
    problem.__dict__.update(seq=size * length, length=length, causal=causal, dim=8, group=2, rows=rows,
                            world=SimpleNamespace(rank=1))
    problem.q, problem.k, problem.v, problem.do = (x.detach()[:, :, rows[1]] for x in (q, k, v, do))
    mine = [x.detach()[:, :, rows[1]] for x in (o, lse)]
    by_shape = iter([q, do, o, lse, k, v])      # in the order in which the check gathers them
    monkeypatch.setattr(problem, "gathered", lambda x: list(next(by_shape).detach()[:, :, order].chunk(2, 2)), raising=False)
    monkeypatch.setattr(distributed_attention, "worst", lambda world, error: error)
    plain_randperm, plain_arange = torch.randperm, torch.arange
    monkeypatch.setattr(torch, "randperm", lambda n, device: plain_randperm(n))
    monkeypatch.setattr(torch, "arange", lambda n, device: plain_arange(n))
    found = [x[:, :, rows[1]] for x in gradients]
    assert problem.gradient_error(*mine, *found) < 1e-9
    by_shape = iter([q, do, o, lse, k, v])
    assert problem.gradient_error(*mine, found[0], found[1] * 1.1, found[2]) > 0.05


def test_a_line_says_the_rate_of_one_gpu():
    shape = dict(batch=1, heads=32, kv_heads=8, seq=16384, dim=128, gpus=2)
    row = Row("distributed-attention-bf16-causal", shape, {}, 1000.0, {"ring": 2000.0}, 1e-3, "standard normal", "a chip", {})
    assert "1100 TFLOP/s  ring 2000 us ratio 2.000" in distributed_attention.line(row)
