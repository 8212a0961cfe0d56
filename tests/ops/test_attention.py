"""`mimw.ops.attention` against scaled_dot_product_attention: shapes, strides, masks, and what torch asks of an operator."""

import sys

import pytest

torch = pytest.importorskip("torch", reason="operators need torch: make test TORCH=torch==VERSION+cpu")

from torch.nn.functional import scaled_dot_product_attention  # noqa: E402

from mimw import ops  # noqa: E402
from tests.kernels.attention_reference import reference  # noqa: E402

MODULE = sys.modules["mimw.ops.attention"]


def normal(*shape, dtype=torch.bfloat16, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed + sum(shape))).to(dtype)


def compare(q, k, v, allowed=1e-2, **options):
    """o and lse against fp64; a query that sees nothing has o = 0."""
    o, lse = ops.attention(q, k, v, return_lse=True, **options)
    q, k, v = q.double(), k.double(), v.double()
    seen = torch.ones(q.shape[-2], k.shape[-2], dtype=torch.bool)
    seen = seen.tril(k.shape[-2] - q.shape[-2]) if options.get("causal") else seen
    if q.dim() > 2 and q.shape[-3] != k.shape[-3]:
        k, v = (x.repeat_interleave(q.shape[-3] // x.shape[-3], -3) for x in (k, v))
    scores = q @ k.mT * options.get("scale", q.shape[-1]**-0.5)
    scores = scores.masked_fill(~seen, float("-inf"))
    expected = scores.softmax(-1).nan_to_num() @ v
    assert o.shape == expected.shape and lse.shape == expected.shape[:-1] and lse.dtype == torch.float32
    if o.numel():
        assert (o.double() - expected).abs().max() < allowed
        torch.testing.assert_close(lse.double(), scores.logsumexp(-1), rtol=0, atol=allowed)
    return o


CASES = {
    "tma": ((1, 2, 64, 64), (1, 1, 64, 64), None, dict()),
    "heads of two tiles": ((1, 1, 40, 96), (1, 1, 40, 96), None, dict()),
    "causal": ((1, 1, 40, 64), (1, 1, 64, 64), None, dict(causal=True)),
    "odd": ((1, 2, 5, 33), (1, 1, 7, 33), 17, dict(causal=True, scale=0.3)),
    "first see nothing": ((1, 1, 9, 16), (1, 1, 5, 16), None, dict(causal=True)),
    "negative scale": ((1, 1, 9, 16), (1, 1, 5, 16), None, dict(scale=-0.5)),
    "no heads": ((5, 33), (7, 33), 17, dict()),
    "no batch": ((4, 5, 33), (2, 7, 33), None, dict()),
    "broadcast": ((2, 3, 2, 5, 16), (3, 1, 7, 16), None, dict()),
    "one query": ((2, 4, 1, 64), (2, 2, 9, 64), None, dict(causal=True)),
    "no query": ((1, 2, 0, 64), (1, 2, 9, 64), None, dict()),
    "no key": ((1, 2, 3, 64), (1, 2, 0, 64), None, dict()),
    "no batch at all": ((0, 2, 3, 64), (0, 2, 4, 64), None, dict(causal=True)),
}


@pytest.mark.parametrize("case", CASES)
def test_shapes(case):
    q, k, value_dim, options = CASES[case]
    compare(normal(*q), normal(*k, seed=1), normal(*k[:-1], value_dim or k[-1], seed=2), **options)


def test_fp32_is_exact():
    compare(*(normal(1, 1, 9, 20, dtype=torch.float32, seed=seed) for seed in range(3)), allowed=1e-5)


def test_copies_for_tma(copies):
    """Head dims that no kernel has, other strides; the results are as without copies."""
    copies(MODULE)
    compare(normal(1, 2, 5, 33), normal(1, 1, 7, 33, seed=1), normal(1, 1, 7, 17, seed=2))
    compare(*(normal(1, 2, 64, 20, seed=seed).mT for seed in range(3)))


def test_memory_as_the_queries():
    q, k, v = (normal(1, 9, 2, 64, seed=seed).transpose(1, 2) for seed in range(3))
    o = compare(q, k, v)
    assert o.stride() == q.stride()
    q = normal(1, 2, 9, 64).requires_grad_()
    assert torch.allclose(ops.attention(q.detach(), k, v), scaled_dot_product_attention(q.detach(), k, v), atol=1e-2)


@pytest.mark.parametrize("q, k, v, error, text", [
    (normal(1, 3, 4, 8), normal(1, 2, 4, 8), normal(1, 2, 4, 8), RuntimeError,
     "kv_heads is 2 and heads is 3; the heads of k and v must divide"),
    (normal(4, 8), normal(5, 9), normal(5, 8), RuntimeError, "k is 5 x 9; for q 4 x 8 it must be 5 x 8, .seq_k, dim."),
    (normal(4, 8), normal(5, 8), normal(6, 8), RuntimeError, "v is 6 x 8; for k 5 x 8 it must be 5 x value_dim, .seq_k,"),
    (normal(4, 8), normal(5, 8), normal(5, 8).half(), RuntimeError, "one type"),
    (normal(4, 0), normal(5, 0), normal(5, 8), RuntimeError, "width 0"),
    (normal(8), normal(5, 8), normal(5, 8), RuntimeError, "q has 1 dimensions, 8; it must be ...., heads, seq_q, dim. or"),
    (*(normal(4, 8).double() for _ in range(3)), NotImplementedError,
     "q is torch.float64; it may be torch.bfloat16, torch.float16,")])
def test_refusals(q, k, v, error, text):
    with pytest.raises(error, match=text):
        ops.attention(q, k, v)


@pytest.mark.parametrize("options, text", [
    ((True, 0.5), r"attention\(\) takes its options by name: causal=True, scale=0.5. mimw.ops.scaled_dot_product_attention"),
    ((None, 0.0, True), "causal=None, scale=0.0, return_lse=True"), ((normal(4, 4), ), "causal=<Tensor>")])
def test_options_by_position_are_refused(options, text):
    """In scaled_dot_product_attention's order, too, whose dropout_p would be the scale."""
    with pytest.raises(TypeError, match=text):
        ops.attention(*(normal(1, 2, 4, 8) for _ in range(3)), *options)


@pytest.mark.parametrize("args", [(normal(1, 2, 5, 33), normal(1, 1, 7, 33), normal(1, 1, 7, 17), True),
                                  (*(normal(1, 9, 2, 16).transpose(1, 2) for _ in range(3)), )])
def test_opcheck(args):
    torch.library.opcheck(torch.ops.mimw.attention.default, args)


CHANGES = {
    "tma": ((1, 2, 64, 64), (1, 1, 64, 64), dict(window=(9, None), softcap=2.0, sinks=(2, ), alibi_slopes=(1, 2))),
    "odd": ((2, 2, 5, 33), (2, 1, 7, 33), dict(causal=True, window=(2, None), softcap=0.5, sinks=(2, ), alibi_slopes=(2, 2))),
    "first see nothing": ((1, 1, 9, 64), (1, 1, 5, 64), dict(window=(None, 1), sinks=(1, ))),
    "no heads": ((5, 16), (7, 16), dict(alibi_slopes=(1, ), window=(None, 1))),
    "no key": ((1, 2, 3, 64), (1, 2, 0, 64), dict(sinks=(2, ))),
}


def changed(case):
    """q, k, v and the options of a case."""
    q, k, options = CHANGES[case]
    dtypes = {"sinks": torch.bfloat16, "alibi_slopes": torch.float32}
    options = {name: normal(*x, dtype=dtypes[name]) if name in dtypes else x for name, x in options.items()}
    return normal(*q), normal(*k, seed=1), normal(*k, seed=2), options


@pytest.mark.parametrize("case", CHANGES)
def test_changed_scores(case):
    """Windows, soft caps, sinks (of bf16) and slopes, by TMA and without."""
    q, k, v, options = changed(case)
    o, lse = ops.attention(q, k, v, return_lse=True, **options)
    if "alibi_slopes" in options:
        options["slopes"] = options.pop("alibi_slopes").numpy()
    if "sinks" in options:
        options["sinks"] = options["sinks"].float().numpy()
    four = [x.reshape(*(1, ) * (4 - x.dim()), *x.shape).float().numpy() for x in (q, k, v)]
    expected, expected_lse = (torch.from_numpy(x) for x in reference(*four, **options))
    assert (o.double() - expected.view(o.shape)).abs().max() < 1e-2
    torch.testing.assert_close(lse.double(), expected_lse.view(lse.shape), rtol=0, atol=1e-2)


@pytest.mark.parametrize("options, text", [
    (dict(window=(-2, None)), "left is -2; the left bound of the window must be 0 or more keys,"),
    (dict(softcap=-1.0), "softcap is -1.0"),
    (dict(sinks=normal(3)), "sinks is 3; for q 1 x 2 x 4 x 8 it must be 2, ..heads."),
    (dict(alibi_slopes=normal(3, 2)), "alibi_slopes is 3 x 2 of torch.bfloat16, of_slopes is .3,. and")])
def test_refused_changes(options, text):
    with pytest.raises(RuntimeError, match=text):
        ops.attention(*(normal(1, 2, 4, 8) for _ in range(3)), **options)


def test_opcheck_of_changed_scores():
    q = normal(1, 2, 5, 16)
    torch.library.opcheck(torch.ops.mimw.attention_with.default, (q, q, q, normal(2), None, False, None, 3, None, 2.0))


def test_compiled_whole():
    compiled = torch.compile(lambda q: ops.attention(q, q, q, causal=True) * 2, fullgraph=True, backend="aot_eager")
    q = normal(1, 1, 5, 16)
    torch.testing.assert_close(compiled(q), ops.attention(q, q, q, causal=True) * 2)
