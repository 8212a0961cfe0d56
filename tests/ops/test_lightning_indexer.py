"""`mimw.ops.lightning_indexer` and `lightning_indexer_decode` against torch: bounds, pages, types, strides, selection, refusals."""

import pytest

torch = pytest.importorskip("torch", reason="needs torch")

from mimw import ops  # noqa: E402

E4M3, BF16 = torch.float8_e4m3fn, torch.bfloat16


def rounded(*shape, dtype=E4M3):
    return torch.randn(*shape).to(dtype)


def reference(q, k, weights, scale, starts, ends):
    """In fp32; -inf outside of the bounds."""
    product = torch.einsum("shd,td->sht", q.float(), k.float()).relu()
    scores = torch.einsum("sht,sh->st", product, weights.float()) * (1 if scale is None else scale)
    key = torch.arange(k.shape[0])
    return scores.masked_fill((key < torch.as_tensor(starts)[:, None]) | (key >= torch.as_tensor(ends)[:, None]), float("-inf"))


def problem(s=11, t=150, h=64, d=32, dtype=E4M3, seed=0):
    torch.manual_seed(seed)
    return rounded(s, h, d, dtype=dtype), rounded(t, d, dtype=dtype), torch.randn(s, h), torch.rand(t) + 0.5


def test_causal_scores_and_the_largest():
    q, k, weights, scale = problem()
    own = torch.arange(11) + 150 - 10
    exact = reference(q, k, weights, scale, [0] * 11, own)
    torch.testing.assert_close(ops.lightning_indexer(q, k, weights, scale, causal=True), exact)
    places = ops.lightning_indexer(q, k, weights, scale, causal=True, topk=20)
    assert places.shape == (11, 20) and places.dtype is torch.int32
    torch.testing.assert_close(exact.gather(1, places.long()).sort(1, descending=True).values, exact.topk(20).values)


def test_more_queries_than_keys_and_fewer_keys_than_are_wanted():
    q, k, weights, scale = problem(s=9, t=5)
    scores = ops.lightning_indexer(q, k, weights, scale, causal=True)
    torch.testing.assert_close(scores, reference(q, k, weights, scale, [0] * 9, torch.arange(9) - 3))
    places = ops.lightning_indexer(q, k, weights, scale, causal=True, topk=4)
    assert [sorted(row[row >= 0].tolist()) for row in places[:6]] == [[], [], [], [], [0], [0, 1]]


@pytest.mark.parametrize("dtype, heads, dim, out", [(E4M3, 64, 32, None), (BF16, 128, 64, BF16), (torch.float16, 8, 128, None),
                                                     (torch.float16, 5, 20, None)])
def test_packed_sequences_types_and_odd_heads(dtype, heads, dim, out):
    """Two sequences, one query without keys; strided keys, that TMA does not read as they lie; bf16 weights."""
    q, k, weights, _ = problem(7, 140, heads, dim, dtype)
    starts, ends = torch.tensor([0, 0, 0, 70, 70, 70, 9]), torch.tensor([61, 62, 300, 90, 91, 140, 9])
    k, weights = torch.cat([k, k[:, :3]], 1)[:, :dim], weights.bfloat16()
    scores = ops.lightning_indexer(q, k, weights, None, starts, ends, out_dtype=out)
    by = ops.explain(ops.lightning_indexer, q, k, weights, target="sm_90a").kernels
    assert by == ("plain_lightning_indexer" if heads == 5 else "lightning_indexer", )
    exact = reference(q, k, weights, None, starts, ends.clamp(max=140))
    torch.testing.assert_close(scores.float(), exact, rtol=1e-2 if out else 1e-5, atol=1e-2 if out else 1e-4)
    assert scores.dtype is (out or torch.float32) and torch.equal(scores.isneginf(), exact.isneginf())
    if heads == 128:
        return
    places = ops.lightning_indexer(q, k, weights, None, starts, ends, topk=3)
    assert (places[6] == -1).all() and ((places[3:6] >= 70) & (places[3:6] < 140)).all()
    if heads < 8:       # by the plain kernel, which is soon recorded
        only_starts = ops.lightning_indexer(q, k, weights, None, starts)
        torch.testing.assert_close(only_starts, reference(q, k, weights, None, starts, [140] * 7), rtol=1e-5, atol=1e-4)


def test_nan_and_negative_zero_weights_are_as_in_torch():
    q, k, weights, scale = problem(3, 70)
    k[5, 1] = float("nan")
    scores = ops.lightning_indexer(q, k, weights, scale)
    assert scores[:, 5].isnan().all() and not scores[:, :5].isnan().any() and not scores[:, 6:].isnan().any()


def paged(queries=2, heads=8, dim=32, page=16, most=9, dtype=E4M3):
    """A cache as servers have it: the keys of a page, then their scales, in one row of bytes."""
    torch.manual_seed(1)
    pages = 3 * most + 1
    row = page * (dim * dtype.itemsize + 4)
    held = torch.zeros(pages, row, dtype=torch.uint8)
    cache = held[:, :page * dim * dtype.itemsize].view(dtype).view(pages, page, dim)
    scales = held.view(torch.float32)[:, -page:]
    cache.copy_(torch.randn(cache.shape).to(dtype))
    scales.copy_(torch.rand(pages, page) + 0.5)
    table = torch.randperm(pages)[:3 * most].view(3, most)
    return rounded(3, queries, heads, dim, dtype=dtype), cache, torch.randn(3, queries, heads), table, scales


@pytest.mark.parametrize("queries, page, heads, dtype, dim", [(1, 16, 8, E4M3, 32), (3, 16, 8, E4M3, 32), (2, 7, 8, E4M3, 32),
                                                              (4, 64, 12, E4M3, 32), (2, 64, 8, BF16, 128)])
def test_decoding(queries, page, heads, dtype, dim):
    q, cache, weights, table, scales = paged(queries, heads, dim, page, 9 if page < 64 else 2, dtype)
    keys = table.shape[1] * page
    lengths = torch.tensor([keys + 5, queries - 1, keys // 2])
    table[2, (keys // 2 - 1) // page + 1:] = 10**6          # behind the keys: nobody looks
    scores = ops.lightning_indexer_decode(q, cache, weights, lengths, table, scales)
    places = ops.lightning_indexer_decode(q, cache, weights, lengths, table, scales, topk=10)
    assert scores.shape == (3, queries, keys) and places.shape == (3, queries, 10)
    for batch in range(3):
        at = table[batch].clamp(max=len(cache) - 1)
        ends = lengths[batch].clamp(max=keys) - queries + 1 + torch.arange(queries)
        exact = reference(q[batch], cache[at].view(keys, -1), weights[batch], scales[at].reshape(keys), [0] * queries, ends)
        torch.testing.assert_close(scores[batch], exact, rtol=1e-5, atol=1e-4 if dim == 128 else 1e-5)
        for query, end in enumerate(ends.clamp(min=0).tolist()):
            mine = places[batch, query][places[batch, query] >= 0].long()
            assert len(mine) == min(10, end)
            torch.testing.assert_close(exact[query, mine].sort(descending=True).values, exact[query].topk(len(mine)).values)


def test_a_cache_that_tma_does_not_read_goes_to_the_plain_kernel():
    q, cache, weights, table, _ = paged()
    odd = torch.cat([cache, cache[..., :3]], 2)[..., :32]
    lengths = torch.tensor([100, 3, 144])
    assert torch.equal(ops.lightning_indexer_decode(q, odd, weights, lengths, table).isneginf(),
                       ops.lightning_indexer_decode(q, cache, weights, lengths, table).isneginf())
    said = str(ops.explain(ops.lightning_indexer_decode, q, odd, weights, lengths, table))
    assert "plain_lightning_indexer" in said and "TMA cannot read the cache" in said


def test_nothing_to_do():
    q, k, weights, _ = problem(3, 0)
    assert ops.lightning_indexer(q, k, weights).shape == (3, 0)
    assert ops.lightning_indexer(q[:0], k, weights[:0], topk=2).shape == (0, 2)


@pytest.mark.parametrize("change, error, text", [
    (dict(k=torch.zeros(9, 31).to(E4M3)), RuntimeError, "D"), (dict(weights=torch.zeros(3, 7)), RuntimeError, "weights"),
    (dict(q=torch.zeros(3, 8, 32)), NotImplementedError, "q is torch.float32"),
    (dict(k_scale=torch.zeros(8)), RuntimeError, "k_scale"),
    (dict(k=torch.zeros(9, 32, dtype=BF16)), RuntimeError, "both must be of one type"),
    (dict(topk=-1), RuntimeError, "topk is -1; it may be 0 to 16384"),
    (dict(out_dtype=torch.float16), NotImplementedError, "out_dtype"),
    (dict(q=torch.zeros(3, 0, 32).to(E4M3), weights=torch.zeros(3, 0)), RuntimeError, "there must be heads")])
def test_refusals(change, error, text):
    given = dict(q=torch.zeros(3, 8, 32).to(E4M3), k=torch.zeros(9, 32).to(E4M3), weights=torch.zeros(3, 8)) | change
    with pytest.raises(error, match=text):
        ops.lightning_indexer(**given)


def test_opcheck_and_compiled():
    q, k, weights, scale = problem(2, 66)
    torch.library.opcheck(torch.ops.mimw.lightning_indexer.default, (q.bfloat16(), k.bfloat16(), weights, scale, None, None, True))
    q, cache, weights_2, table, scales = paged(1)
    torch.library.opcheck(torch.ops.mimw.lightning_indexer_decode.default, (q.bfloat16(), cache.bfloat16(), weights_2,
                                                                            torch.tensor([20, 0, 144]), table, scales))
    del q
    compiled = torch.compile(lambda *x: ops.lightning_indexer(*x, causal=True, topk=3) + 1, fullgraph=True, backend="aot_eager")
    q = problem(2, 66)[0]
    assert torch.equal(compiled(q, k, weights, scale).sort(1).values,
                       ops.lightning_indexer(q, k, weights, scale, causal=True, topk=3).sort(1).values + 1)
