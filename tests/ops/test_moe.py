"""`mimw.ops.moe_align`, `gather_matmul_scatter` and `sparse_mla` against plain torch."""

import sys

import pytest

torch = pytest.importorskip("torch", reason="operators need torch: make test TORCH=torch==VERSION+cpu")

from mimw import ops  # noqa: E402
from tests.ops.anew import anew  # noqa: E402

bf16, fp32 = torch.bfloat16, torch.float32
PICKED = sys.modules["mimw.ops.gather_matmul_scatter"]
ALIGN = sys.modules["mimw.ops.moe_align"]


def normal(*shape, dtype=fp32, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


def aligned(ids, experts, block):
    """(tokens by expert, each list sorted and padded, the experts of the blocks, the length)."""
    n, lists, owners = ids.numel(), [], []
    for expert in range(experts):
        tokens = (ids.reshape(-1) == expert).nonzero()[:, 0].tolist()
        tokens += [n] * (-len(tokens) % block)
        lists += tokens
        owners += [expert] * (len(tokens) // block)
    length = n + experts * (block - 1)
    return lists + [n] * (length - len(lists)), owners + [0] * (-(-length // block) - len(owners)), len(lists)


@pytest.mark.parametrize("hopper", [True, False])
@pytest.mark.parametrize("shape, dtype", [((20, 2), torch.int32), ((33, ), torch.int64), ((0, 2), torch.int32)])
def test_moe_align(shape, dtype, hopper, monkeypatch):
    if not hopper:
        monkeypatch.setattr(ALIGN, "another_chip", lambda x: "the test says so")
        anew(monkeypatch, "moe_align")
    ids = torch.randint(0, 5, shape, generator=torch.Generator().manual_seed(0)).to(dtype)
    tokens, experts, length = ops.moe_align(ids, 5, 4)
    wanted, owners, used = aligned(ids, 5, 4)
    assert length.tolist() == [used] and experts.tolist() == owners
    blocks = [sorted(tokens[:used].tolist()[at:at + 4]) for at in range(0, used, 4)]
    found = {expert: sorted(sum((one for one, of in zip(blocks, owners) if of == expert), [])) for expert in range(5)}
    blocks = [wanted[at:at + 4] for at in range(0, used, 4)]
    assert found == {expert: sorted(sum((one for one, of in zip(blocks, owners) if of == expert), [])) for expert in range(5)}
    assert (tokens[used:] == ids.numel()).all()


def test_moe_align_refusals_and_opcheck():
    ids = torch.tensor([0, 2, 0], dtype=torch.int32)
    with pytest.raises(RuntimeError, match="1 to 1024 experts"):
        ops.moe_align(ids, 0, 4)
    with pytest.raises(NotImplementedError, match="topk_ids is torch.float32; it may be torch.int32, torch.int64"):
        ops.moe_align(ids.float(), 3, 4)
    torch.library.opcheck(torch.ops.mimw.moe_align.default, (torch.zeros(3, dtype=torch.int32), 1, 1))


ROWS = torch.tensor([3, 0, -1, 7, 2, 3, 99]), torch.tensor([1, 5, 0, 3, -2, 100, 4])


def picked(a, b, source, target, out):
    for s, t in zip(source.tolist(), target.tolist()):
        if 0 <= t < out.shape[0]:
            out[t] = a[s].double() @ b.double() if 0 <= s < a.shape[0] else 0
    return out


@pytest.mark.long(everywhere=True, but=[
    "False-8-4-0-dtype4", "True-8-0-4-dtype3", "True-8-16-8-dtype2", "True-8-33-7-dtype0", "True-8-64-64-dtype1"])
@pytest.mark.parametrize("m, k, n, dtype", [(8, 33, 7, bf16), (8, 64, 64, bf16), (8, 16, 8, fp32), (8, 0, 4, bf16),
                                           (8, 4, 0, bf16)])
@pytest.mark.parametrize("copying", [False, True])
def test_picked_products(m, k, n, dtype, copying, copies):
    if copying:
        copies(PICKED)
    a, b, (source, target) = normal(m, k, dtype=dtype), normal(k, n, dtype=dtype, seed=1), ROWS
    found = ops.gather_matmul_scatter(a, b, source, target, 6)
    torch.testing.assert_close(found.double(), picked(a, b, source, target, torch.zeros(6, n).double()), rtol=1e-2, atol=2e-2)
    out = torch.full((n, 6), 7.0, dtype=dtype).T     # any strides
    assert ops.gather_matmul_scatter(a, b, source.int(), target.int(), out=out) is out
    torch.testing.assert_close(out.double(), picked(a, b, source, target, torch.full((6, n), 7.0).double()), rtol=1e-2, atol=2e-2)


def test_gradients_of_picked_products():
    a, b, (source, target) = normal(8, 9).requires_grad_(), normal(9, 4, seed=1).requires_grad_(), ROWS
    weights = normal(6, 4, seed=2)
    (ops.gather_matmul_scatter(a, b, source, target, 6) * weights).sum().backward()
    twin, other = a.detach().clone().requires_grad_(), b.detach().clone().requires_grad_()
    kept = [(s, t) for s, t in zip(source.tolist(), target.tolist()) if 0 <= s < 8 and 0 <= t < 6]
    sum((twin[s] @ other * weights[t]).sum() for s, t in kept).backward()
    torch.testing.assert_close(a.grad, twin.grad)
    torch.testing.assert_close(b.grad, other.grad)


def test_refusals_of_picked_products():
    a, b, (source, target) = normal(8, 9), normal(9, 4), ROWS
    for change, text in ((dict(b=normal(8, 4)), "b is 8 x 4; for a 8 x 9 it must be 9 x n, .k, n."),
                         (dict(target=target[1:]), "target is 6; for source 7 it must be 7, .r."),
                         (dict(b=b.half()), "one type"), (dict(source=source.float()), "source is torch.float32"),
                         (dict(out=normal(6, 5)), "out is 6 x 5; for b 9 x 4 it must be 6 x 4, .rows, n."),
                         (dict(a=normal(9)), "2 dimensions"),
                         (dict(out=normal(6, 4), a=normal(8, 9).requires_grad_()), "no derivative")):
        with pytest.raises(RuntimeError, match=text):
            ops.gather_matmul_scatter(**{**dict(a=a, b=b, source=source, target=target), **change})


def test_opcheck_of_picked_products():
    a, b, (source, target) = normal(8, 9).requires_grad_(), normal(9, 4), ROWS
    torch.library.opcheck(torch.ops.mimw.gather_matmul_scatter.default, (a, b, source, target, 6))
    torch.library.opcheck(torch.ops.mimw.gather_matmul_scatter_.default, (normal(6, 4), a.detach(), b, source, target))


def sparse(q, kv, indices, lengths, value_dim, scale, causal=False, base_2=False):
    out, lse = torch.zeros(*q.shape[:3], value_dim), torch.full(q.shape[:3], float("inf"))
    q, kv = q.float(), kv.float()
    for batch in range(q.shape[0]):
        for query in range(q.shape[1]):
            rows = indices[batch, query, 0, :lengths[batch, query, 0]]
            rows = rows[(rows >= 0) & (rows < kv.shape[1])]
            rows = rows[rows <= query] if causal else rows
            if len(rows):
                listed = kv[batch, rows, 0]
                scores = q[batch, query] @ listed.T * scale
                out[batch, query] = scores.softmax(-1) @ listed[:, :value_dim]
                lse[batch, query] = scores.logsumexp(-1) / (0.6931471805599453 if base_2 else 1)
    return out, lse


@pytest.mark.parametrize("causal, heads, dtype, value_dim", [(False, 64, bf16, 64), (True, 64, bf16, 64), (True, 5, bf16, 50),
                                                             (False, 20, fp32, 96)])
def test_sparse_mla(causal, heads, dtype, value_dim):
    """By the kernel for Hopper, and by the plain one: few heads, odd widths, fp32, no columns that are key only."""
    q, kv = normal(1, 2, heads, 96, dtype=dtype), normal(1, 70, 1, 96, dtype=dtype, seed=1)
    indices = torch.stack([torch.randperm(80, generator=torch.Generator().manual_seed(seed))[:64] - 3 for seed in range(2)])
    indices, lengths = indices.view(1, 2, 1, 64), torch.tensor([64, 0]).view(1, 2, 1)
    out, lse = ops.sparse_mla(q.transpose(1, 2).contiguous().transpose(1, 2), kv, indices, lengths, value_dim, 0.2, causal, True)
    expected, exact = sparse(q, kv, indices, lengths, value_dim, 0.2, causal, True)
    torch.testing.assert_close(out.float(), expected, rtol=0, atol=2e-2)
    torch.testing.assert_close(lse, exact, rtol=0, atol=1e-2)


def test_sparse_mla_refusals_and_opcheck():
    q, kv = normal(1, 2, 64, 96, dtype=bf16), normal(1, 70, 1, 96, dtype=bf16)
    indices, lengths = torch.zeros(1, 2, 1, 64, dtype=torch.int32), torch.zeros(1, 2, 1, dtype=torch.int32)
    with pytest.raises(RuntimeError, match="H is 3 and HKV is 2; H must be HKV equal groups of heads"):
        ops.sparse_mla(q[:, :, :3], kv.expand(1, 70, 2, 96), indices.expand(1, 2, 2, 64), lengths.expand(1, 2, 2), 64)
    with pytest.raises(NotImplementedError, match="q is torch.float64; it may be torch.bfloat16, torch.float16,"):
        ops.sparse_mla(q.double(), kv.double(), indices, lengths, 64)
    with pytest.raises(RuntimeError, match="1 to all of the columns"):
        ops.sparse_mla(q, kv, indices, lengths, 97)
    with pytest.raises(RuntimeError, match="one type"):
        ops.sparse_mla(q, kv.half(), indices, lengths, 64)
    with pytest.raises(RuntimeError, match="4 dimensions"):
        ops.sparse_mla(q[0], kv, indices, lengths, 64)
    torch.library.opcheck(torch.ops.mimw.sparse_mla.default, (q[:, :1], kv, indices[:, :1], lengths[:, :1], 64))
