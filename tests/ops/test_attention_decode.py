"""`mimw.ops.attention_decode` against fp64: caches in one piece and in pages, lengths and pages at the edges, what torch asks of an
operator."""

import sys

import pytest

torch = pytest.importorskip("torch", reason="operators need torch: make test TORCH=torch==VERSION+cpu")

from mimw import ops  # noqa: E402

MODULE = sys.modules["mimw.ops.attention_decode"]
bf16, fp32 = torch.bfloat16, torch.float32


def reference(q, k, v, lengths, table=None, scale=None, left=None, softcap=None, sinks=None):
    """(o, lse) in fp64, sequence by sequence, of the keys that count alone."""
    o, lse = torch.zeros(*q.shape[:3], v.shape[3]).double(), torch.zeros(q.shape[0], q.shape[2], q.shape[1]).double()
    for batch, length in enumerate(lengths.tolist()):
        pages = None if table is None else table[batch, :-(-length // k.shape[1])].long()
        k_of, v_of = (x[batch] if table is None else x[pages].flatten(0, 1) for x in (k, v))
        k_of, v_of = (x[:length].double().repeat_interleave(q.shape[2] // x.shape[1], 1).transpose(0, 1) for x in (k_of, v_of))
        scores = q[batch].double().transpose(0, 1) @ k_of.mT * (scale or q.shape[3]**-0.5)
        scores = scores if softcap is None else softcap * (scores / softcap).tanh()
        distance = torch.arange(q.shape[1])[:, None] + length - q.shape[1] - torch.arange(length)
        scores = scores.masked_fill((distance < 0) | (distance > (length if left is None else left)), float("-inf"))
        if sinks is not None:
            scores = torch.cat([scores, sinks.double()[:, None, None].expand(-1, q.shape[1], 1)], 2)
        o[batch] = (scores.softmax(-1).nan_to_num()[..., :length] @ v_of).transpose(0, 1)
        lse[batch] = scores.logsumexp(-1)
    return o, lse


def normal(*shape, dtype=bf16, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed + sum(shape))).to(dtype)


def problem(lengths, queries, heads, kv_heads, dim, page=None, dtype=bf16, value_dim=None):
    """(q, k, v, lengths, table); what lies behind the keys of a sequence is NaN, and its pages are nowhere."""
    batch, most, table = len(lengths), max(lengths) + 3, None
    if page is not None:
        most = -(-most // page)
        table = torch.randperm(batch * most + 1, generator=torch.Generator().manual_seed(0))[:batch * most].view(batch, most).int()
        table[:, 0] = table[0, 0] if min(lengths) >= page else table[:, 0]      # a page that all sequences share
    front = (batch, most) if page is None else (batch * most + 1, page)
    k, v = normal(*front, kv_heads, dim, dtype=dtype, seed=1), normal(*front, kv_heads, value_dim or dim, dtype=dtype, seed=2)
    for number, length in enumerate(lengths):
        for x in (k, v):
            if page is None:
                x[number, length:] = float("nan")
            elif length % page:
                x[table[number, length // page], length % page:] = float("nan")
        if page is not None:
            table[number, -(-length // page):] = 1 << 20
    return normal(batch, queries, heads, dim, dtype=dtype), k, v, torch.tensor(lengths, dtype=torch.int32), table


def holds(q, k, v, lengths, table=None, allowed=1e-2, splits=None, **changes):
    window = {"window": (changes["left"], None)} if "left" in changes else {}
    others = {name: change for name, change in changes.items() if name != "left"}
    o, lse = ops.attention_decode(q, k, v, lengths, page_table=table, splits=splits, return_lse=True, **window, **others)
    expected, expected_lse = reference(q, k, v, lengths, table, **changes)
    assert o.dtype == q.dtype and o.is_contiguous() and lse.dtype == fp32
    assert o.shape == expected.shape and (o.double() - expected).abs().max() < allowed
    torch.testing.assert_close(lse.double(), expected_lse, rtol=0, atol=allowed)
    return o


FP8 = torch.zeros(2, 9, 1, 64).to(torch.float8_e4m3fn)
CASES = {
    "one piece": (dict(lengths=[150, 0, 300], queries=1, heads=4, kv_heads=2, dim=64), {}),
    "pages of 16": (dict(lengths=[133, 90], queries=3, heads=4, kv_heads=2, dim=128, page=16),
                    dict(left=80, softcap=3.0, scale=0.2, sinks=normal(4))),
    "many rows": (dict(lengths=[130, 7], queries=16, heads=10, kv_heads=1, dim=40, page=256, dtype=torch.float16), dict(splits=1)),
    "plain": (dict(lengths=[45, 0, 60], queries=3, heads=4, kv_heads=2, dim=33, page=24, value_dim=17), {}),
    "plain, all changes": (dict(lengths=[45, 60], queries=3, heads=4, kv_heads=2, dim=20, dtype=fp32),
                           dict(left=30, softcap=3.0, scale=-0.2, sinks=normal(4), splits=3)),
}


@pytest.mark.parametrize("case", CASES)
def test_cases(case):
    given, changes = CASES[case]
    holds(*problem(**given), **changes)


def test_other_types_and_lengths_that_no_cache_holds():
    """Lengths and a table of int64, that is not contiguous; one length for all."""
    q, k, v, lengths, table = problem([70, 50], 1, 2, 1, 16, page=32)
    holds(q, k, v, lengths.long(), table.long().T.contiguous().T)
    q, k, v, _, _ = problem([61, 61], 1, 2, 1, 16)
    k, v = k[:, :61], v[:, :61]
    expected, _ = reference(q, k, v, torch.tensor([61, 61]))
    for lengths in (61, torch.tensor([1000, 62])):
        assert (ops.attention_decode(q, k, v, lengths).double() - expected).abs().max() < 1e-2
    assert not ops.attention_decode(q, k, v, torch.tensor([-5, 0])).any()


@pytest.mark.parametrize("given, scales, left", [
    (dict(lengths=[70, 50], queries=1, heads=4, kv_heads=2, dim=128, page=32), (torch.tensor([0.5, 2.0]), torch.tensor([3., 0.3])),
     None),
    (dict(lengths=[150, 0], queries=3, heads=4, kv_heads=1, dim=64), (2.0, 0.5), 70),
    (dict(lengths=[70, 50], queries=2, heads=2, kv_heads=1, dim=33), (0.5, None), None)])
def test_caches_of_e4m3(given, scales, left):
    """By few_rows_epilogue, up to 8 rows and more, and by plain Triton; a scale for each head, and one for all, or none."""
    q, k, v, lengths, table = problem(**given)
    k, v = (x.to(torch.float8_e4m3fn) for x in (k, v))
    found = ops.attention_decode(q, k, v, lengths, page_table=table, softcap=3.0, k_scale=scales[0], v_scale=scales[1],
                                 window=(left, None))
    wide = [x.float() * (1.0 if scale is None else torch.as_tensor(scale).view(-1, 1)) for x, scale in zip((k, v), scales)]
    expected, _ = reference(q, *wide, lengths, table, softcap=3.0, left=left)
    assert found.dtype == q.dtype and (found.double() - expected).abs().max() < 2e-2


def test_autocast_leaves_scales_as_they_are():
    q, k, v, lengths, _ = problem([20, 20], 1, 2, 1, 64, dtype=fp32)
    k, v = (x.nan_to_num().to(torch.float8_e4m3fn) for x in (k, v))
    scale = torch.tensor([1.0 + 2.0**-12])
    with torch.autocast("cpu", bf16):
        found = ops.attention_decode(q, k, v, lengths, k_scale=scale, v_scale=scale, return_lse=True)[1]
    assert torch.equal(found, ops.attention_decode(q.to(bf16), k, v, lengths, k_scale=scale, v_scale=scale, return_lse=True)[1])


@pytest.mark.parametrize("shape", [(0, 1, 2, 64), (2, 0, 2, 64)])
def test_nothing_to_do(shape):
    k = normal(shape[0], 5, 1, 64)
    assert ops.attention_decode(normal(*shape), k, k, 5).shape == shape
    empty = ops.attention_decode(normal(2, 1, 2, 64), *[normal(2, 0, 1, 64)] * 2, 0, sinks=torch.ones(2), return_lse=True)
    assert not empty[0].any() and (empty[1] == 1).all()


@pytest.mark.parametrize("change, error, text", [
    (dict(k=normal(2, 9, 3, 64)), RuntimeError, "v_cache is 2 x 9 x 1 x 64; for k_cache 2 x 9 x 3 x 64 it must be"),
    (dict(k=normal(2, 9, 3, 64), v=normal(2, 9, 3, 64)), RuntimeError,
     "kv_heads is 3 and heads is 2; the heads of k and v must divide"),
    (dict(lengths=torch.tensor([1])), RuntimeError, "cache_seqlens is 1; for q 2 x 1 x 2 x 64 it must be 2, .batch."),
    (dict(table=torch.zeros(3, 1).int()), RuntimeError, "page_table is 3 x 1; for q 2 x 1 x 2 x 64 it must be 2 x"),
    (dict(lengths=torch.tensor([1., 2.])), NotImplementedError, "cache_seqlens is torch.float32"),
    (dict(v=normal(2, 9, 1, 64).half()), RuntimeError, "one type"),
    (dict(k_scale=torch.ones(1)), RuntimeError, "k_cache is 2 x 9 x 1 x 64 of torch.bfloat16 and k_scale is 1 of"),
    (dict(k=FP8, v=FP8, k_scale=torch.ones(2)), RuntimeError, "k_scale is 2"),
    (dict(q=normal(2, 2, 64)), RuntimeError, "q has 3 dimensions, 2 x 2 x 64; it must have 4 dimensions:"),
    (dict(splits=0), RuntimeError, "splits is 0; the number of splits must be 1 or more, or None"),
    (dict(softcap=0.0), RuntimeError, "softcap is 0.0"),
    (dict(window=(-1, None)), RuntimeError, "left is -1; the left bound of the window must be 0 or more keys,"),
    (dict(window=(3, -1)), RuntimeError, "right bound of the window is -1")])
def test_refusals(change, error, text):
    k, lengths = normal(2, 9, 1, 64), torch.tensor([3, 4])
    given = dict(q=normal(2, 1, 2, 64), k=k, v=k, lengths=lengths, table=None) | change
    q, k, v, lengths, table = (given.pop(name) for name in ("q", "k", "v", "lengths", "table"))
    with pytest.raises(error, match=text):
        ops.attention_decode(q, k, v, lengths, page_table=table, **given)


def test_opcheck():
    q, k, v, lengths, table = problem([40, 20], 1, 2, 1, 16, page=16)
    given = q, k, v, lengths, table, normal(2), None, None, None, 30, 5.0, 1
    torch.library.opcheck(torch.ops.mimw.attention_decode.default, given)


def test_compiled_whole():
    q, k, v, lengths, _ = problem([40, 20], 1, 2, 1, 16)
    compiled = torch.compile(lambda q: ops.attention_decode(q, k, v, lengths, splits=1) * 2, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(q), ops.attention_decode(q, k, v, lengths, splits=1) * 2)
