"""Gradients of `mimw.ops.attention` against autograd in fp64: shapes, strides, masks, that of lse, and what torch asks."""

import sys

import pytest

torch = pytest.importorskip("torch", reason="operators need torch: make test TORCH=torch==VERSION+cpu")

from mimw import ops  # noqa: E402

MODULE = sys.modules["mimw.ops.attention_backward"]


def normal(*shape, dtype=torch.bfloat16, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed + sum(shape))).to(dtype)


def exact(q, k, v, causal=False, scale=None, window=(None, None), softcap=None, sinks=None, alibi_slopes=None):
    """(o, lse) in fp64, differentiable; a query that sees no key has o = 0."""
    if q.dim() > 2 and q.shape[-3] != k.shape[-3]:
        k, v = (x.repeat_interleave(q.shape[-3] // x.shape[-3], -3) for x in (k, v))
    scores = q @ k.mT * (q.shape[-1]**-0.5 if scale is None else scale)
    scores = scores if softcap is None else softcap * (scores / softcap).tanh()
    positions, keys = torch.arange(q.shape[-2])[:, None] + k.shape[-2] - q.shape[-2], torch.arange(k.shape[-2])
    if alibi_slopes is not None:
        scores = scores - alibi_slopes.double()[..., None, None] * (positions - keys).abs()
    left, right = window[0], 0 if causal else window[1]
    unseen = (keys < positions - left) if left is not None else torch.zeros(scores.shape[-2:], dtype=torch.bool)
    unseen = unseen if right is None else unseen | (keys > positions + right)
    scores = scores.masked_fill(unseen, float("-inf"))
    if sinks is not None:
        scores = torch.cat([scores, sinks[..., None, None].expand(*scores.shape[:-1], 1)], -1)
    p = scores.softmax(-1)[..., :k.shape[-2]]
    return p.masked_fill(unseen, 0.0) @ v, scores.logsumexp(-1)


def compare(q, k, v, allowed=1e-2, of_lse=False, sinks=None, **options):
    """The gradients of sum(o do), and of sum(lse^2) with it."""
    do, gradients, inputs = None, [], (q, k, v) if sinks is None else (q, k, v, sinks)
    for make in (lambda *x, **options: ops.attention(*x, return_lse=True, **options), exact):
        leaves = [(x.double() if make is exact else x.detach()).requires_grad_() for x in inputs]
        o, lse = make(*leaves[:3], **options, **dict(zip(("sinks", ), leaves[3:])))
        do = normal(*o.shape, dtype=o.dtype, seed=9) if do is None else do.double()
        loss = (o * do).sum()
        loss = loss + (lse.double()**2).sum() if of_lse else loss
        gradients.append(torch.autograd.grad(loss, leaves))
    for got, wanted, x in zip(*gradients, inputs):
        assert got.shape == x.shape and got.dtype == x.dtype and got.stride() == torch.empty_like(x).stride()
        assert (got.double() - wanted).norm() <= allowed * wanted.norm().clamp(min=1e-3)


CASES = {
    "tma": ((1, 2, 70, 64), (1, 1, 70, 64), None, dict()),
    "of lse": ((1, 1, 40, 64), (1, 1, 64, 64), None, dict(causal=True, of_lse=True)),
    "padded": ((1, 1, 33, 72), (1, 1, 33, 72), 40, dict(scale=0.2)),
    "no batch, wide heads": ((2, 5, 130), (2, 7, 130), 17, dict(causal=True, of_lse=True)),
    "first see nothing": ((1, 1, 9, 16), (1, 1, 5, 16), None, dict(causal=True)),
    "negative scale": ((9, 16), (5, 16), None, dict(scale=-0.5)),
    "broadcast": ((2, 3, 2, 5, 130), (3, 1, 7, 130), None, dict()),
    "broadcast, tma": ((2, 2, 5, 64), (1, 1, 7, 64), None, dict()),
}


@pytest.mark.parametrize("case", CASES)
def test_shapes(case):
    q, k, value_dim, options = CASES[case]
    compare(normal(*q), normal(*k, seed=1), normal(*k[:-1], value_dim or k[-1], seed=2), **options)


def test_fp32_is_exact():
    compare(*(normal(1, 1, 9, 20, dtype=torch.float32, seed=seed) for seed in range(3)), allowed=1e-5)


CHANGES = {
    "tma": ((1, 2, 70, 64), (1, 1, 70, 64), dict(causal=True, window=(9, None), softcap=2.0, of_lse=True)),
    "tma, padded, slopes": ((1, 2, 40, 33), (1, 2, 45, 33), dict(window=(9, 3), alibi_slopes=(1, 2))),
    "first see nothing": ((1, 2, 9, 64), (1, 1, 5, 64), dict(window=(2, 1), softcap=0.7, alibi_slopes=(2, ), of_lse=True)),
    "wide, all": ((2, 2, 5, 130), (2, 1, 7, 130), dict(causal=True, window=(2, None), softcap=0.5, alibi_slopes=(2, 2),
                                                       of_lse=True)),
    "no heads": ((9, 16), (13, 16), dict(alibi_slopes=(1, ), window=(None, 1))),
    "no key": ((1, 2, 3, 64), (1, 2, 0, 64), dict(of_lse=True, window=(3, 0))),
}


@pytest.mark.parametrize("case", CHANGES)
def test_changed_scores(case):
    """Windows, soft caps and slopes, each with sinks, whose gradient is compared as well."""
    q, k, options = CHANGES[case]
    if "alibi_slopes" in options:
        options = {**options, "alibi_slopes": normal(*options["alibi_slopes"], dtype=torch.float32).abs()}
    sinks = normal(q[-3] if len(q) > 2 else 1, dtype=torch.bfloat16 if case == "tma" else torch.float32, seed=3) * 4
    compare(normal(*q), normal(*k, seed=1), normal(*k, seed=2), sinks=sinks, **options)


def test_slopes_have_no_derivative():
    q, slopes = normal(1, 2, 4, 16), normal(2, dtype=torch.float32).requires_grad_()
    with pytest.raises(NotImplementedError, match="no derivative of alibi_slopes"):
        ops.attention(q, q, q, alibi_slopes=slopes).sum().backward()


def test_some_queries_at_a_time(monkeypatch):
    monkeypatch.setattr(MODULE, "QUERIES", 4)
    compare(*(normal(1, 2, 9, 130, dtype=torch.float32, seed=seed) for seed in range(3)), allowed=1e-5, causal=True)


def test_heads_last_but_one():
    compare(*(normal(1, 9, 2, 64, seed=seed).transpose(1, 2) for seed in range(3)))


@pytest.mark.parametrize("one_order", [False, True], ids=["", "one order"])
@pytest.mark.parametrize("dim", [64, 136])
def test_one_order_where_it_is_asked_for(monkeypatch, dim, one_order):
    """By the kernel that owns its queries; else with sums that programs share."""
    asked, module = [], MODULE.hopper if dim == 64 else MODULE.wide
    launches = module.launches

    def noted(*args, **options):
        asked.append(options["one_order"] if dim == 64 else options["sums"] is None)
        return launches(*args, **options)

    monkeypatch.setattr(module, "launches", noted)
    torch.use_deterministic_algorithms(one_order)
    try:
        compare(*(normal(1, 1, 11, width, seed=seed) for seed, width in enumerate((dim, dim, 64))))
    finally:
        torch.use_deterministic_algorithms(False)
    assert asked == [one_order]


def test_of_no_keys():
    q, k = normal(1, 2, 3, 64).requires_grad_(), normal(1, 2, 0, 64).requires_grad_()
    found = torch.autograd.grad(ops.attention(q, k, k).sum(), (q, k))
    assert not found[0].any() and found[1].shape == k.shape


def test_opcheck():
    q, k, v = (normal(1, 1, 5, 16, seed=seed) for seed in range(3))
    torch.library.opcheck(torch.ops.mimw.attention.default, tuple(x.requires_grad_() for x in (q, k, v)))
    o, lse = ops.attention(q.detach(), k.detach(), v.detach(), return_lse=True)
    torch.library.opcheck(torch.ops.mimw.attention_backward.default, (o, q.detach(), k.detach(), v.detach(), o, lse))


def test_opcheck_of_changed_scores():
    q, sinks = normal(1, 2, 5, 16, dtype=torch.float32), normal(2, dtype=torch.float32)
    changes = sinks.clone().requires_grad_(), None, False, None, 3, None, 2.0
    torch.library.opcheck(torch.ops.mimw.attention_with.default, (*(q.clone().requires_grad_() for _ in range(3)), *changes))
    o, lse = ops.attention(q, q, q, return_lse=True, window=(3, None), softcap=2.0, sinks=sinks)
    torch.library.opcheck(torch.ops.mimw.attention_with_backward.default,
                          (o, q, q, q, o, lse, lse, sinks, None, False, None, 3, None, 2.0))


@pytest.mark.gpu
@pytest.mark.long(but=["4-4-1024-1024-128-True", "6-2-513-700-64-False"])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("heads, kv_heads, seq_q, seq_k, dim", [(4, 4, 1024, 1024, 128), (6, 2, 513, 700, 64),
                                                               (2, 1, 100, 300, 96), (4, 2, 700, 900, 256), (2, 1, 300, 300, 136)])
def test_gradients_on_a_gpu(heads, kv_heads, seq_q, seq_k, dim, causal):
    """Twice, since the second call's launches are frozen. No two inputs may have one seed: of equal q and k the scores are so large
    that rounding o to bf16 alone costs 1 % of dq."""
    inputs = [normal(2, count, seq, dim, seed=10000 * number) for number, (count, seq) in enumerate(
        ((heads, seq_q), (kv_heads, seq_k), (kv_heads, seq_k), (heads, seq_q)))]
    q, k, v = (x.double().requires_grad_() for x in inputs[:3])
    wanted = torch.autograd.grad((exact(q, k, v, causal)[0] * inputs[3]).sum(), (q, k, v))
    for _ in range(2):
        leaves = [x.cuda().requires_grad_() for x in inputs[:3]]
        found = torch.autograd.grad(ops.attention(*leaves, causal=causal), leaves, inputs[3].cuda())
        for got, one in zip(found, wanted):
            assert (got.cpu().double() - one).norm() <= 1e-2 * one.norm()


@pytest.mark.gpu
@pytest.mark.long(but=["64-options3-one order", "128-options4-", "192-options5-"])
@pytest.mark.parametrize("one_order", [False, True], ids=["", "one order"])
@pytest.mark.parametrize("dim, options", [(128, dict(causal=True, window=(200, None))), (64, dict(window=(100, 50), softcap=5.0)),
                                          (128, dict(softcap=3.0)), (64, dict(alibi_slopes=(4, ))),
                                          (128, dict(causal=True, window=(300, None), softcap=5.0, alibi_slopes=(4, ))),
                                          (192, dict(causal=True, window=(300, None), softcap=5.0, alibi_slopes=(4, )))])
def test_changed_gradients_on_a_gpu(dim, options, one_order):
    """With sinks, two heads of queries on each of keys."""
    if "alibi_slopes" in options:
        options = {**options, "alibi_slopes": normal(*options["alibi_slopes"], dtype=torch.float32).abs()}
    q, k, v, do = (normal(2, count, 700, dim, seed=seed) for seed, count in enumerate((4, 2, 2, 4)))
    inputs = q, k, v, normal(4, dtype=torch.float32)
    exacts = [x.double().requires_grad_() for x in inputs]
    wanted = torch.autograd.grad((exact(*exacts[:3], sinks=exacts[3], **options)[0] * do).sum(), exacts)
    leaves = [x.cuda().requires_grad_() for x in inputs]
    options = {name: x.cuda() if isinstance(x, torch.Tensor) else x for name, x in options.items()}
    torch.use_deterministic_algorithms(one_order)
    try:
        found = torch.autograd.grad(ops.attention(*leaves[:3], sinks=leaves[3], **options), leaves, do.cuda())
    finally:
        torch.use_deterministic_algorithms(False)
    for got, one in zip(found, wanted):
        assert (got.cpu().double() - one).norm() <= 1e-2 * one.norm()


def test_compiled_whole():
    compiled = torch.compile(lambda q: (ops.attention(q, q, q, causal=True)**2).sum(), fullgraph=True, backend="aot_eager")
    q = normal(1, 1, 5, 16, dtype=torch.float32).requires_grad_()
    compiled(q).backward()
    (wanted, ) = torch.autograd.grad((ops.attention(q, q, q, causal=True)**2).sum(), q)
    torch.testing.assert_close(q.grad, wanted)
