"""Sparse MLA against numpy and torch: all forms, on the simulator at small sizes, on a GPU at the published ones."""

import ml_dtypes
import numpy as np
import pytest

import mimw
from mimw.kernels.sparse_mla import arguments, pipelined, shared
from mimw.target import target
from tests.compiling import stopping

BF16 = ml_dtypes.bfloat16
DV, DT = 128, 64  # 512 and 64 in the published problem
SHARED = target("sm_90a").shared_bytes


def problem(b=1, s=2, h=64, hkv=1, skv=200, topk=128, seed=0, lengths=None, invalid=True):
    """Random rows, the rows that each query lists (some invalid), and arrays for the results that hold something else."""
    random = np.random.default_rng(seed)
    q, kv = ((random.standard_normal(shape) / 2).astype(BF16) for shape in ((b, s, h, DV + DT), (b, skv, hkv, DV + DT)))
    indices = np.stack([random.permutation(max(skv, topk))[:topk] for _ in range(b * s * hkv)])
    indices = indices.reshape(b, s, hkv, topk).astype(np.int32)
    if invalid:
        indices[..., 5::11] = -1
        indices[..., 7::13] = skv
    counts = np.full((b, s, hkv), topk if lengths is None else 0, np.int32)
    if lengths is not None:
        counts[...] = np.resize(lengths, counts.shape)
    return q, kv, indices, counts, np.full((b, s, h, DV), 7, BF16), np.full((b, s, h), 7, np.float32)


def reference(q, kv, indices, lengths, out, lse, scale=None, causal=False, base_2=False, **_):
    q, kv = q.astype(np.float32), kv.astype(np.float32)
    scale = q.shape[-1]**-0.5 if scale is None else scale
    results = np.zeros(out.shape, np.float32), np.full(lse.shape, np.inf, np.float32)
    for batch, query, group in np.ndindex(lengths.shape):
        rows = indices[batch, query, group, :lengths[batch, query, group]]
        rows = rows[(rows >= 0) & (rows < kv.shape[1]) & (rows <= query if causal else True)]
        heads = slice(group * q.shape[2] // kv.shape[2], (group + 1) * q.shape[2] // kv.shape[2])
        if len(rows):
            listed = kv[batch, rows, group]
            logits = q[batch, query, heads] @ listed.T * scale
            most = logits.max(1, keepdims=True)
            p = np.exp(logits - most)
            results[0][batch, query, heads] = p @ listed[:, :DV] / p.sum(1, keepdims=True)
            results[1][batch, query, heads] = (most[:, 0] + np.log(p.sum(1))) / (np.log(2) if base_2 else 1)
    return results


def run(machine, arrays, **options):
    kernel, grid, args, meta = arguments(*arrays, **options)
    machine.launch(kernel, grid, *args, **meta)
    return arrays[-2].astype(np.float32), arrays[-1]


def close(found, expected):
    (out, lse), (exact, exact_lse) = found, expected
    assert np.abs(out - exact).max() < 1e-2
    finite = np.isfinite(exact_lse)
    assert (np.isposinf(lse) == ~finite).all() and np.abs(lse[finite] - exact_lse[finite]).max(initial=0) < 1e-2
    if exact.any():
        assert (out * exact).sum() / np.sqrt((out**2).sum() * (exact**2).sum()) > 0.9999


@pytest.mark.long(but=["case0-*", "case1-*", "case3-*-shared", "case4-*-pipelined"], everywhere=[
    "case0-options0-shared", "case1-options1-pipelined", "case2-options2-shared", "case3-options3-shared",
    "case4-options4-shared"])
@pytest.mark.parametrize("form", [pipelined, shared])
@pytest.mark.parametrize("case, options", [
    (dict(topk=256), {}), (dict(lengths=(70, 128)), dict(scale=0.5)), (dict(lengths=(0, 1)), {}),
    (dict(h=128, topk=128, s=1), dict(base_2=True)), (dict(skv=40, topk=128), {})])
def test_forms(machine, form, case, options):
    arrays = problem(**case)
    close(run(machine, arrays, form=form, **options), reference(*arrays, **options))


@pytest.mark.long(everywhere=["None-case1-options1", "shared-case0-options0", "shared-case2-options2"])
@pytest.mark.parametrize("case, options", [(dict(b=2, hkv=2, h=128, s=2), {}), (dict(s=5, topk=64, skv=64), dict(causal=True)),
                                           (dict(topk=192), {})])
@pytest.mark.parametrize("form", [None, shared])
def test_batches_groups_masks_and_odd_numbers_of_blocks(machine, form, case, options):
    arrays = problem(**case)
    assert arguments(*arrays, form=form, **options)[0] is (form or pipelined)
    close(run(machine, arrays, form=form, **options), reference(*arrays, **options))


@pytest.mark.parametrize("programs", [1, 3])
def test_programs_go_on_with_other_queries(machine, programs):
    arrays = problem(b=2, s=2, topk=256, lengths=(0, 256, 65, 1))
    close(run(machine, arrays, programs=programs), reference(*arrays))


def test_every_interleaving_of_programs_that_go_on_is_right():
    kernel, grid, args, meta = arguments(*problem(s=3, topk=128, lengths=(128, 0, 1)), programs=1)
    report = mimw.check(kernel, grid, *args, seeds=4, shrink=False, **meta)
    assert report.ok, report


@pytest.mark.parametrize("form", [pipelined, shared])
def test_fp16(machine, form):
    arrays = problem()
    arrays = *(array.astype(np.float16) if array.dtype == BF16 else array for array in arrays),
    close(run(machine, arrays, form=form), reference(*arrays))


@pytest.mark.parametrize("form", [pipelined, shared])
def test_rows_that_nobody_lists_may_hold_anything(machine, form):
    arrays = problem(topk=128, skv=300)
    q, kv, indices = arrays[:3]
    unlisted = np.setdiff1d(np.arange(300), indices)
    kv[:, unlisted] = np.nan
    assert len(unlisted)
    close(run(machine, arrays, form=form), reference(*arrays))


@pytest.mark.long(but=["0-pipelined", "64-shared", "256-*"], everywhere=True)
@pytest.mark.parametrize("form", [pipelined, shared])
@pytest.mark.parametrize("lengths", [0, 64, 256])
def test_every_interleaving_is_right(form, lengths):
    kernel, grid, args, meta = arguments(*problem(s=1, topk=256, lengths=(lengths, )), form=form)
    report = mimw.check(kernel, grid, *args, seeds=4, shrink=False, **meta)
    assert report.ok, report


def test_refused_shapes():
    with pytest.raises(ValueError, match="H is 96, HKV is 1 and of_program is 64; H must be HKV groups of a"):
        arguments(*problem(h=96))
    q, kv, indices, lengths, out, lse = problem()
    with pytest.raises(ValueError, match="q is bfloat16 and kv float16; both must be of one type"):
        arguments(q, kv.astype(np.float16), indices, lengths, out, lse)
    with pytest.raises(ValueError, match="lengths has 2 dimensions, 1 x 2; it must have 3 dimensions: .B,"):
        arguments(q, kv, indices, lengths[..., 0], out, lse)


# ---- the published sizes: B=1, S=4096, H=128, HKV=1, 512 + 64 columns, 2048 rows a query --------------------------------

def published(form):
    """The TTGIR, of fewer queries: numbers count by what they are multiples of."""
    arrays = (np.zeros(shape, kind) for shape, kind in (
        ((1, 16, 128, 576), BF16), ((1, 8192, 1, 576), BF16), ((1, 16, 1, 2048), np.int32), ((1, 16, 1), np.int32),
        ((1, 16, 128, 512), BF16), ((1, 16, 128), np.float32)))
    kernel, grid, args, meta = arguments(*arrays, form=form)
    with stopping(("ttgir", )):
        return mimw.compile(kernel, grid, *args, target="sm_90a", **meta)


@pytest.mark.long(but=["shared-3-229376"], everywhere=True)
@pytest.mark.parametrize("form, products, total", [(pipelined, 6, 231304), (shared, 3, 229376)])
def test_the_published_sizes_fit(form, products, total):
    found = published(form)
    assert found.metadata.shared == total <= SHARED
    ttgir = found.ttgir
    assert ttgir.count("warp_group_dot ") == products
    # No tile is copied to a second buffer, but for probabilities that all warps of the form without roles want.
    assert ttgir.count("ttg.local_alloc %") == (form is shared)


@pytest.mark.gpu
@pytest.mark.long(but=["8192-pipelined", "131072-shared"])
@pytest.mark.parametrize("form", [pipelined, shared])
@pytest.mark.parametrize("skv", [8192, 131072])
def test_the_published_sizes_on_a_gpu(form, skv):
    import torch
    torch.manual_seed(1)
    s, h, topk = 4096, 128, 2048
    q = (torch.randn(1, s, h, 576, device="cuda") / 10 + 0.01).clamp(-10, 10).bfloat16()
    kv = (torch.randn(1, skv, 1, 576, device="cuda") / 10 + 0.01).clamp(-10, 10).bfloat16()
    indices = torch.stack([torch.randperm(skv, device="cuda")[:topk] for _ in range(s)]).int().view(1, s, 1, topk)
    lengths = torch.full((1, s, 1), topk, dtype=torch.int32, device="cuda")
    lengths[0, ::7] = 100
    indices[0, ::5, 0, ::3] = -1
    out, lse = torch.full((1, s, h, 512), 7.0, device="cuda").bfloat16(), torch.full((1, s, h), 7.0, device="cuda")
    kernel, grid, args, meta = arguments(q, kv, indices, lengths, out, lse, scale=0.5, form=form, programs=132)
    kernel[grid](*args, **meta)
    for query in range(0, s, 97):
        rows = indices[0, query, 0, :lengths[0, query, 0]].long()
        listed = kv[0, rows[rows >= 0], 0].float()
        logits = q[0, query].float() @ listed.T * 0.5
        exact = torch.softmax(logits, 1) @ listed[:, :512]
        found = out[0, query].float()
        assert (found - exact).abs().max() < 1e-2
        assert torch.nn.functional.cosine_similarity(found.flatten(), exact.flatten(), 0) > 0.9999
        assert (lse[0, query] - torch.logsumexp(logits, 1)).abs().max() < 1e-2
