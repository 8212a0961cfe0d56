"""`mimw.ops.attention_varlen`: lengths, masks, strides against fp64, derivatives, what torch asks of an operator."""

import sys

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="operators need torch: make test TORCH=torch==VERSION+cpu")

from mimw import ops  # noqa: E402

MODULE, BACKWARD = (sys.modules[f"mimw.ops.attention_varlen{which}"] for which in ("", "_backward"))
Q_LENGTHS, K_LENGTHS = (5, 0, 9, 2), (7, 3, 4, 0)


def problem(heads=2, kv_heads=1, dim=16, value_dim=None, dtype=torch.float32, q_lengths=Q_LENGTHS, k_lengths=K_LENGTHS, more=0):
    draw = torch.Generator().manual_seed(0)
    shapes = ((sum(q_lengths), heads, dim), (sum(k_lengths), kv_heads, dim), (sum(k_lengths), kv_heads, value_dim or dim))
    q, k, v = (torch.randn(rows + more, *rest, generator=draw).to(dtype) for rows, *rest in shapes)
    return q, k, v, *(torch.tensor([0, *np.cumsum(lengths)], dtype=torch.int32) for lengths in (q_lengths, k_lengths))


def reference(q, k, v, cu_q, cu_k, causal=False, scale=None, window=(None, None), softcap=None, sinks=None, alibi_slopes=None):
    """(o, lse) in fp64, sequence by sequence."""
    o, lse, group = [], [], q.shape[1] // k.shape[1]
    q, k, v = q.double(), *(x.double().repeat_interleave(group, 1) for x in (k, v))
    for at, (a, b, c, d) in enumerate(zip(cu_q, cu_q[1:], cu_k, cu_k[1:])):
        scores = torch.einsum("qhd,khd->hqk", q[a:b], k[c:d]) * (q.shape[2]**-0.5 if scale is None else scale)
        scores = scores if softcap is None else softcap * torch.tanh(scores / softcap)
        position, key = (torch.arange(int(count), device=q.device) for count in (b - a, d - c))
        position = position[:, None] + (d - c) - (b - a)
        if alibi_slopes is not None:
            slopes = alibi_slopes if alibi_slopes.dim() == 1 else alibi_slopes[at]
            scores = scores - slopes.double()[:, None, None] * (position - key).abs()
        left, right = window[0], 0 if causal else window[1]
        for bound, seen in ((left, key >= position - (left or 0)), (right, key <= position + (right or 0))):
            scores = scores if bound is None else scores.masked_fill(~seen, -torch.inf)
        if sinks is not None:
            scores = torch.cat([scores, sinks.double()[:, None, None].expand(-1, int(b - a), 1)], 2)
        o.append(torch.einsum("hqk,khd->qhd", scores.softmax(-1).nan_to_num()[..., :d - c], v[c:d]))
        lse.append(scores.logsumexp(-1))
    return torch.cat(o), torch.cat(lse, 1)


def call(arrays, q_lengths=Q_LENGTHS, k_lengths=K_LENGTHS, **options):
    return ops.attention_varlen(*arrays, max(q_lengths), max(k_lengths), return_lse=True, **options)


SINKS, SLOPES = torch.tensor([0.5, -1.0]), torch.rand(4, 2, generator=torch.Generator().manual_seed(1))
CASES = {
    "plain": (dict(value_dim=24), dict(window=(2, 1), alibi_slopes=SLOPES[0])),
    "all": (dict(), dict(causal=True, window=(3, None), softcap=2.0, sinks=SINKS, alibi_slopes=SLOPES, scale=0.4)),
    "tma": (dict(dim=192, value_dim=128, dtype=torch.bfloat16), dict()),
}


@pytest.mark.parametrize("name", CASES)
def test_values(name):
    shape, options = CASES[name]
    arrays = problem(**shape)
    o, lse = call(arrays, **options)
    wanted, wanted_lse = reference(*arrays, **options)
    exact = arrays[0].dtype is torch.float32
    assert o.shape == wanted.shape and (o.double() - wanted).abs().max() < (1e-5 if exact else 2e-2)
    torch.testing.assert_close(lse.double(), wanted_lse, rtol=0, atol=1e-4)


def test_copies_for_tma(copies):
    """Head dims that no kernel has, and strides that TMA does not take."""
    copies(MODULE)
    q, k, v, cu_q, cu_k = problem(dim=20, value_dim=40, dtype=torch.bfloat16)
    o, _ = call((q, k.mT.contiguous().mT, v, cu_q, cu_k), causal=True)
    assert (o.double() - reference(q, k, v, cu_q, cu_k, causal=True)[0]).abs().max() < 2e-2


@pytest.mark.parametrize("options", [dict(causal=True, sinks=SINKS), dict(window=(2, 1), softcap=2.0, alibi_slopes=SLOPES)])
def test_derivatives(options):
    """Of o and of lse, with rows behind the last sequence."""
    arrays = problem(more=2)
    sinks = options.get("sinks")
    given = [x.clone().requires_grad_() for x in (*arrays[:3], *(() if sinks is None else (sinks, )))]
    for compute, dtype in ((call, torch.float32), (reference, torch.float64)):
        leaves = given if dtype is torch.float32 else [x.detach().double().requires_grad_() for x in given]
        more = options if sinks is None else options | dict(sinks=leaves[3])
        of = *leaves[:3], *arrays[3:]
        o, lse = compute(of, **more) if compute is call else compute(*of, **more)
        rows = sum(Q_LENGTHS)
        weight = torch.linspace(-1, 1, rows * 2 * 16).view(rows, 2, 16).to(dtype)
        seen = lse[:, :rows].detach() > -torch.inf
        ((o[:rows] * weight).sum() + torch.where(seen, lse[:, :rows], 0).sum()).backward()
        found = [x.grad for x in leaves] if dtype is torch.float32 else found      # noqa: F821
        wanted = [x.grad for x in leaves]
    for one, other in zip(found, wanted):
        torch.testing.assert_close(one.double(), other, rtol=0, atol=1e-5)


@pytest.mark.parametrize("dim, one_order", [(20, False), (20, True), (130, False)])
def test_derivatives_in_16_bits(copies, monkeypatch, dim, one_order):
    """By the kernels for Hopper, of copies for TMA: with sums in any order, or in one, as always of wide heads."""
    copies(BACKWARD)
    monkeypatch.setattr(BACKWARD, "WIDE_AND_ONE_ORDER", True)
    q, k, v, *starts = problem(dim=dim, value_dim=40, dtype=torch.bfloat16, more=2)
    leaves = [x.requires_grad_() for x in (q, k.detach().mT.contiguous().mT, v, SINKS.clone())]
    wide = [x.detach().double().requires_grad_() for x in leaves]
    options = dict(causal=True, window=(3, None), softcap=2.0, alibi_slopes=SLOPES)
    o, lse = call((*leaves[:3], *starts), sinks=leaves[3], **options)
    wanted, wanted_lse = reference(*wide[:3], *starts, sinks=wide[3], **options)
    rows = sum(Q_LENGTHS)
    do, dlse = torch.linspace(-1, 1, rows * 2 * 40).view(rows, 2, 40), torch.linspace(1, -1, rows)
    torch.use_deterministic_algorithms(one_order)
    try:
        ((o[:rows].float() * do).sum() + (lse[:, :rows] * dlse).sum()).backward()
    finally:
        torch.use_deterministic_algorithms(False)
    ((wanted * do).sum() + (wanted_lse * dlse).sum()).backward()
    for one, other in zip(leaves, wide):
        assert (one.grad.double() - other.grad).norm() < 1e-2 * other.grad.norm()
    assert (leaves[0].grad[rows:] == 0).all() and (leaves[1].grad[-2:] == 0).all()


def test_nothing_to_compute():
    q, k, v, cu_q, cu_k = problem(q_lengths=(0, 0), k_lengths=(0, 3))
    assert call((q, k, v, cu_q, cu_k), (0, ), (3, ))[0].shape == (0, 2, 16)
    q, k, v, cu_q, cu_k = problem(q_lengths=(2, ), k_lengths=(0, ))
    o, lse = call((q, k, v, cu_q, cu_k), (2, ), (0, ))
    assert (o == 0).all() and (lse == -torch.inf).all()
    assert ops.attention_varlen(q[:0], k, v, cu_q[:1], cu_k[:1], 0, 0).shape == (0, 2, 16)


@pytest.mark.parametrize("change, error, text", [
    (dict(cu_k=torch.zeros(3, dtype=torch.int32)), RuntimeError,
     "cu_seqlens_k is 3; for cu_seqlens_q 5 it must be 5, .sequences ."),
    (dict(cu_q=torch.zeros(5)), NotImplementedError, "cu_seqlens_q is torch.float32"),
    (dict(q=torch.zeros(16, 32)), RuntimeError, "q has 2 dimensions, 16 x 32; it must have 3 dimensions: .total_q,"),
    (dict(k=torch.zeros(14, 1, 8)), RuntimeError, "k is 14 x 1 x 8; for q 16 x 2 x 16 it must be 14 x 1 x 16,"),
    (dict(v=torch.zeros(14, 1, 16).half()), RuntimeError, "one type"),
    (dict(q=torch.zeros(16, 2, 0), k=torch.zeros(14, 1, 0)), RuntimeError, "width 0")])
def test_refusals(change, error, text):
    arrays = dict(zip(("q", "k", "v", "cu_q", "cu_k"), problem())) | change
    with pytest.raises(error, match=text):
        ops.attention_varlen(*arrays.values(), 9, 7)


def test_refused_options():
    arrays = problem()
    for options, text in ((dict(window=(-1, None)), "left is -1; the left bound of the window must be 0 or more keys,"),
                          (dict(softcap=0.0), "softcap is 0.0"),
                          (dict(sinks=torch.zeros(3)), "sinks is 3; for q 16 x 2 x 16 it must be 2, .heads."),
                          (dict(alibi_slopes=torch.zeros(3, 2)), "alibi_slopes is 3 x 2; for q 16 x 2 x 16 and cu_seqlens_q 5 it")):
        with pytest.raises(RuntimeError, match=text):
            ops.attention_varlen(*arrays, 9, 7, **options)
    with pytest.raises(NotImplementedError, match="alibi_slopes have no derivative"):
        ops.attention_varlen(*arrays, 9, 7, alibi_slopes=torch.zeros(2, requires_grad=True))


def test_opcheck():
    q, k, v, cu_q, cu_k = problem(q_lengths=(3, 4), k_lengths=(5, 4))
    arrays = q.requires_grad_(), k, v, cu_q, cu_k, SINKS.clone().requires_grad_(), None, 4, 5, True
    torch.library.opcheck(torch.ops.mimw.attention_varlen.default, arrays)


def test_compiled_whole_with_symbolic_totals():
    compiled = torch.compile(lambda *arrays: ops.attention_varlen(*arrays, 9, 7, causal=True) * 2, fullgraph=True,
                             backend="aot_eager", dynamic=True)
    for more in (0, 3):
        q, k, v, cu_q, cu_k = problem(more=more)
        rows = sum(Q_LENGTHS)
        torch.testing.assert_close(compiled(q, k, v, cu_q, cu_k)[:rows],
                                   ops.attention_varlen(q, k, v, cu_q, cu_k, 9, 7, causal=True)[:rows] * 2)


@pytest.mark.gpu
@pytest.mark.long(but=["192-*", "80-*"])
@pytest.mark.parametrize("dim, value_dim, options", [(128, 128, dict(causal=True)), (192, 128, dict()), (80, 80, dict(causal=True)),
                                                     (64, 64, dict(window=(50, 0), softcap=20.0, sinks=SINKS))])
def test_on_the_gpu(dim, value_dim, options):
    """200 sequences, values and gradients, the same bits again, and from a graph of a call with other lengths."""
    lengths = [[(37 * i + 11 * turn) % 300 for i in range(200)] for turn in range(2)]
    arrays = [x.cuda() for x in problem(2, 2, dim, value_dim, torch.bfloat16, *lengths)]
    options = {name: x.cuda() if isinstance(x, torch.Tensor) else x for name, x in options.items()}
    leaves = [x.requires_grad_() for x in arrays[:3]]
    wide = [x.detach().double().requires_grad_() for x in leaves]
    o, lse = call(arrays, *lengths, **options)
    wanted, wanted_lse = reference(*wide, *arrays[3:], **options)
    assert (o.double() - wanted).abs().max() < 2e-2
    torch.testing.assert_close(lse.double(), wanted_lse, rtol=0, atol=2e-2)
    dy = torch.randn_like(o)
    found = torch.autograd.grad(o, leaves, dy, retain_graph=True)
    again = torch.autograd.grad(o, leaves, dy, retain_graph=True)
    exact = torch.autograd.grad(wanted, wide, dy.double())
    for number, (one, more, other) in enumerate(zip(found, again, exact)):
        assert (one.double() - other).norm() / other.norm() < 1e-2
        assert number == 0 or torch.equal(one, more), "only the sums of dQ have no order"
    torch.use_deterministic_algorithms(True)
    try:
        first, second = (torch.autograd.grad(o, leaves, dy, retain_graph=True) for _ in range(2))
    finally:
        torch.use_deterministic_algorithms(False)
    for one, more, other in zip(first, second, exact):
        assert (one.double() - other).norm() / other.norm() < 1e-2 and torch.equal(one, more)
    with torch.no_grad():
        assert torch.equal(o, call(arrays, *lengths, **options)[0])
        starts = [x.clone() for x in arrays[3:]]
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            replayed, _ = call((*arrays[:3], *starts), *lengths, **options)
        starts[0].copy_(torch.tensor([0, *np.cumsum(lengths[0][::-1])]))
        starts[1].copy_(torch.tensor([0, *np.cumsum(lengths[1][::-1])]))
        graph.replay()
        wanted, _ = reference(*arrays[:3], *starts, **options)
        assert (replayed.double() - wanted).abs().max() < 2e-2
