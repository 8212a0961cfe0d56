"""`mimw.ops.mla_decode` and FlashMLA's names against plain torch: pages, types, layouts of e4m3, refusals, graphs."""

import pytest

torch = pytest.importorskip("torch", reason="operators need torch")

from mimw import ops  # noqa: E402
from mimw.integrations import flash_mla  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore::mimw.ops.SimulationWarning")
BF16, FP16, FP32, E4M3 = torch.bfloat16, torch.float16, torch.float32, torch.float8_e4m3fn


def tensors(batch=2, queries=1, heads=16, values=128, others=64, page=16, most=4, dtype=BF16, seed=0):
    """(q, cache, table), NaN nowhere."""
    torch.manual_seed(seed)
    q = torch.randn(batch, queries, heads, values + others).to(dtype)
    return q, torch.randn(batch * most, page, 1, values + others).to(dtype), torch.randperm(batch * most).view(batch, most).int()


def expected(q, cache, lengths, table, values, causal=True, scale=None):
    """(out, lse) in fp32, by torch's operations."""
    out, lse = torch.zeros(*q.shape[:3], values), torch.full((q.shape[0], q.shape[2], q.shape[1]), float("-inf"))
    for at, length in enumerate(lengths.tolist()):
        keys = (cache[at] if table is None else cache[table[at].long()].flatten(0, 1))[:length, 0].float()
        scores = torch.einsum("qhd,kd->hqk", q[at].float(), keys) * (q.shape[3]**-0.5 if scale is None else scale)
        if causal:
            last = torch.arange(q.shape[1]) + length - q.shape[1]
            scores = scores.masked_fill(torch.arange(length) > last[:, None], float("-inf"))
        out[at] = (scores.softmax(-1).nan_to_num() @ keys[:, :values]).transpose(0, 1)
        lse[at] = scores.logsumexp(-1)
    return out, lse


def near(found, exact, allowed=1e-2):
    torch.testing.assert_close(found[0].float(), exact[0], rtol=0, atol=allowed)
    torch.testing.assert_close(found[1], exact[1], rtol=0, atol=1e-3)


def packed(cache, values):
    """FlashMLA's layout as bytes, and what it stands for."""
    groups = cache[..., :values].float().unflatten(-1, (-1, 128))
    scales = groups.abs().amax(-1) / 448
    small = (groups / scales[..., None]).to(E4M3)
    others = cache[..., values:].contiguous()
    parts = small.flatten(-2), scales, others
    return (torch.cat([part.view(torch.uint8) for part in parts], -1),
            torch.cat([(small.float() * scales[..., None]).to(BF16).flatten(-2), others], -1))


@pytest.mark.parametrize("given, options, kernel", [
    (dict(queries=2), {}, "mla_decode"), (dict(dtype=FP16, page=64, most=2), dict(causal=False, scale=0.3), "mla_decode"),
    (dict(heads=3, values=40, others=8, page=5, dtype=FP32), dict(splits=2), "plain_mla_decode"),
    (dict(page=24), dict(splits=1), "plain_mla_decode")])
def test_against_torch(given, options, kernel):
    """By the kernel for Hopper, and by the plain one: other widths, fp32, pages that TMA does not take."""
    q, cache, table = tensors(**given)
    values, lengths = cache.shape[3] - given.get("others", 64), torch.tensor([3, cache.shape[1] * table.shape[1] - 5])
    strided = q.transpose(1, 2).contiguous().transpose(1, 2)
    found = ops.mla_decode(strided, cache, lengths, page_table=table.long(), value_dim=values, **options)
    exact = {name: value for name, value in options.items() if name != "splits"}
    near(found, expected(q, cache, lengths, table, values, **exact))
    assert ops.explain(ops.mla_decode, q, cache, lengths, page_table=table, value_dim=values, **options).kernels[0] == kernel


def test_lengths_that_are_none_or_too_long_and_no_table():
    q, cache, _ = tensors(batch=3, queries=2, page=20, most=1)
    found = ops.mla_decode(q, cache, torch.tensor([0, 1, 99]), value_dim=128)
    exact = expected(q, cache, torch.tensor([0, 1, 20]), None, 128)
    near(found, exact)
    assert not found[0][0].any() and torch.isneginf(found[1][0]).all() and torch.isneginf(found[1][1, :, 0]).all()
    near(ops.mla_decode(q, cache, 20, value_dim=128), expected(q, cache, torch.full((3, ), 20), None, 128))
    empty = ops.mla_decode(q, cache[:, :0], 0, value_dim=128)
    assert not empty[0].any() and torch.isneginf(empty[1]).all()


@pytest.mark.long(but=["4"], everywhere=True)
@pytest.mark.parametrize("heads", [4, 80])
def test_caches_of_e4m3(heads):
    q, cache, table = tensors(heads=heads, queries=2)
    lengths = torch.tensor([7, 60])
    small = (cache.float() * 2).to(E4M3)
    for scale in (0.5, torch.tensor([0.5])):
        near(ops.mla_decode(q, small, lengths, page_table=table, value_dim=128, k_scale=scale),
             expected(q, small.float() * 0.5, lengths, table, 128))
    given, stands_for = packed(cache, 128)
    near(ops.mla_decode(q, given.view(E4M3), lengths, page_table=table, value_dim=128),
         expected(q, stands_for, lengths, table, 128))


def test_flash_mla():
    """Its names, its lse of queries without keys, its default of no mask, and its caches of bytes."""
    q, cache, table = tensors(queries=2, page=64, most=1)
    lengths = torch.tensor([1, 50], dtype=torch.int32)
    metadata, splits = flash_mla.get_mla_metadata(lengths, 2 * 16, 1)
    out, lse = flash_mla.flash_mla_with_kvcache(q, cache, table, lengths, 128, metadata, splits, causal=True)
    exact = expected(q, cache, lengths, table, 128)
    near((out, lse), (exact[0], exact[1].masked_fill(exact[1].isneginf(), float("inf"))))
    assert torch.isposinf(lse[0, :, 0]).all()
    given, stands_for = packed(cache, 128)
    near(flash_mla.flash_mla_with_kvcache(q, given, table, lengths, 128, softmax_scale=0.1, is_fp8_kvcache=True),
         expected(q, stands_for, lengths, table, 128, False, 0.1))
    with pytest.raises(NotImplementedError, match="indices are given, .* call mimw.ops.sparse_mla"):
        flash_mla.flash_mla_with_kvcache(q, cache, table, lengths, 128, indices=table)
    with pytest.raises(RuntimeError, match="is_fp8_kvcache is True, and k_cache is torch.bfloat16"):
        flash_mla.flash_mla_with_kvcache(q, cache, table, lengths, 128, is_fp8_kvcache=True)


def test_refusals_and_opcheck():
    q, cache, table = tensors()
    lengths = torch.tensor([7, 60])

    def call(q=q, cache=cache, **options):
        return ops.mla_decode(q, cache, lengths, **dict(page_table=table, value_dim=128) | options)

    with pytest.raises(RuntimeError, match="kv_heads is 2; all heads share one latent row"):
        call(cache=cache.expand(-1, -1, 2, -1))
    with pytest.raises(RuntimeError, match="values are some of a row's columns, not all"):
        call(value_dim=192)
    with pytest.raises(RuntimeError, match="a scale goes with a cache of e4m3"):
        call(k_scale=1.0)
    with pytest.raises(RuntimeError, match="e4m3 without a scale is packed"):
        call(cache=cache.to(E4M3))
    with pytest.raises(RuntimeError, match="as many caches as sequences"):
        call(page_table=None)
    with pytest.raises(RuntimeError, match="both must be of one type|one type"):
        call(cache=cache.half())
    with pytest.raises(NotImplementedError, match="q is torch.float64"):
        call(q=q.double(), cache=cache.double())
    torch.library.opcheck(torch.ops.mimw.mla_decode.default, (q, cache, lengths, table, None, 128))
