"""The lightning indexer's kernels against numpy: bounds, pages, forms, every interleaving, NaN behind the keys, refusals."""

import re

import ml_dtypes
import numpy as np
import pytest

import mimw
from mimw.kernels import lightning_indexer, plain_lightning_indexer
from mimw.kernels.lightning_indexer import Configuration
from mimw.testing.machines import Gpu
from tests.compiling import stopping

E4M3, BF16 = ml_dtypes.float8_e4m3fn, ml_dtypes.bfloat16
APART, TOGETHER = Configuration(2, 64, 2, True, 2, 1, 128), Configuration(2, 128, 2, False, 2, 2, 128)


def problem(s=7, t=210, h=8, d=32, dtype=E4M3):
    """q, k, weights, scores that hold something else, and scales."""
    random = np.random.default_rng(0)
    q, k = (random.standard_normal(shape).astype(dtype) for shape in ((s, h, d), (t, d)))
    weights = random.standard_normal((s, h)).astype(np.float32)
    return q, k, weights, np.full((s, t), 7, np.float32), random.uniform(0.5, 1.5, t).astype(np.float32)


def reference(q, k, weights, scale, starts, ends):
    product = np.maximum(np.einsum("shd,td->sht", q.astype(np.float32), k.astype(np.float32)), 0)
    key = np.arange(len(k))
    inside = (key >= np.asarray(starts)[:, None]) & (key < np.asarray(ends)[:, None])
    return np.where(inside, np.einsum("sht,sh->st", product, weights) * scale, -np.inf)


def paged_problem(lengths, s=2, h=8, d=32, page=16, most=10):
    """q, cache, weights, scores, lengths, a table with strangers behind a sequence's keys, and scales."""
    random, batch = np.random.default_rng(1), len(lengths)
    q, cache = (random.standard_normal(shape).astype(E4M3) for shape in ((batch, s, h, d), (batch * most, page, d)))
    table = random.permutation(batch * most).reshape(batch, most).astype(np.int32)
    for row, length in zip(table, lengths):
        row[-(-max(length, 0) // page):] = 10**6
    return (q, cache, random.standard_normal((batch, s, h)).astype(np.float32), np.full((batch, s, most * page), 7, np.float32),
            np.array(lengths, np.int32), table, random.uniform(0.5, 1.5, (batch * most, page)).astype(np.float32))


def close(machine, found, expected, of_e4m3=True):
    """Tensor cores keep some 14 bits of sums of e4m3 products, as of the largest of them."""
    np.testing.assert_array_equal(np.isneginf(found), np.isneginf(expected))
    coarse = 4e-4 * np.abs(expected, where=np.isfinite(expected), out=np.zeros_like(expected)).max()
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=coarse if of_e4m3 and isinstance(machine, Gpu) else 1e-4)


def close_in_pages(machine, problem, fill):
    q, cache, weights, scores, lengths, table, scales = problem
    for batch, length in enumerate(lengths):
        rows = np.where(table[batch] < len(cache), table[batch], 0)
        keys, queries = scores.shape[2], q.shape[1]
        ends = min(length, keys) - queries + 1 + np.arange(queries)
        exact = reference(q[batch], cache[rows].reshape(keys, -1), weights[batch], scales[rows].ravel(), [0] * queries, ends)
        close(machine, scores[batch], exact if fill else np.where(np.isneginf(exact), 7, exact))


@pytest.mark.long(everywhere=["chosen1-3"])
@pytest.mark.parametrize("chosen, programs", [(APART, 1), (TOGETHER, 3)])
def test_bounds(machine, chosen, programs):
    """Some queries see nothing; a chunk of which nobody sees anything; scores beyond the bounds are filled, or left."""
    q, k, weights, scores, scale = problem()
    starts, ends = np.array([0, 3, 70, 9, 5, -4, 130], np.int32), np.array([61, 64, 71, 9, 1, 66, 999], np.int32)
    for fill in (True, False):
        grid, args, meta = lightning_indexer.arguments(q, k, weights, scores, programs, scale, starts, ends, False, fill, chosen)
        scores[...] = 7
        machine.launch(lightning_indexer.kernel, grid, *args, **meta)
        exact = reference(q, k, weights, scale, starts, ends)
        close(machine, scores, exact if fill else np.where(np.isneginf(exact), 7, exact))


@pytest.mark.parametrize("dtype, chosen", [(BF16, TOGETHER), (E4M3, Configuration(1, 64, 4, True, 2, 2, 64))])
def test_causal_without_scales(machine, dtype, chosen):
    q, k, weights, scores, _ = problem(dtype=dtype)
    grid, args, meta = lightning_indexer.arguments(q, k, weights, scores, 2, causal=True, chosen=chosen)
    machine.launch(lightning_indexer.kernel, grid, *args, **meta)
    close(machine, scores, reference(q, k, weights, 1, [0] * 7, np.arange(7) + 204), dtype == E4M3)


@pytest.mark.long(but=["None", "chosen2"], everywhere=["chosen2"])
@pytest.mark.parametrize("chosen", [None, Configuration(2, 64, 4, True, 2, 1, 128), Configuration(2, 128, 2, False, 2, 1, 128)])
def test_rows_of_256_bytes(machine, chosen):
    """In two parts; queries of four consumers are 512 rows of each."""
    q, k, weights, scores, scale = problem(s=5, t=140, h=64, d=128, dtype=BF16)
    grid, args, meta = lightning_indexer.arguments(q, k, weights, scores, 2, scale, causal=True, chosen=chosen)
    assert meta["FORM"].PARTS == 2
    machine.launch(lightning_indexer.kernel, grid, *args, **meta)
    np.testing.assert_allclose(scores, reference(q, k, weights, scale, [0] * 5, np.arange(5) + 136), rtol=1e-3, atol=1e-2)


def test_no_buffer_has_rows_of_over_128_bytes():
    """Of longer ones TMA's copies to parts and tensor cores place rows from number 256 on differently, which no simulator sees."""
    q, k, weights, scores, scale = problem(s=8, t=64, d=128, dtype=BF16)
    grid, args, meta = lightning_indexer.arguments(q, k, weights, scores, 1, scale, chosen=Configuration(2, 64, 2, True, 2, 1, 64))
    with stopping(("ttgir", )):
        text = mimw.compile(lightning_indexer.kernel, grid, *args, **meta, target="sm_90a").ttgir
    buffers = {tuple(map(int, one.split("x"))) for one in re.findall(r"local_alloc.*-> !ttg.memdesc<([x0-9]+)xbf16,", text)}
    assert buffers == {(1, 2 * 2 * 2 * 8, 64), (2, 2 * 64, 64)}, "slots, rows of two parts, columns"


@pytest.mark.parametrize("queries, page, fill", [(1, 16, True), (3, 64, False)])
def test_pages(machine, queries, page, fill):
    arrays = paged_problem((page * 3 + 1, queries - 1, 999, 0), queries, page=page, most=160 // page + 1)
    chosen = Configuration(1 << (queries - 1).bit_length(), 128, 2, False, 2, 2, 128)
    grid, args, meta = lightning_indexer.paged(*arrays[:-1], 2, arrays[-1], fill, chosen)
    machine.launch(lightning_indexer.kernel, grid, *args, **meta)
    close_in_pages(machine, arrays, fill)


@pytest.mark.long(but=["256"], everywhere=True)
@pytest.mark.parametrize("page", [16, 32, 256])
def test_pages_compile(page):
    """The scales of each page begin where TMA writes."""
    arrays = paged_problem((page * 3 + 1, 5), 1, page=page, most=256 // page + 1)
    grid, args, meta = lightning_indexer.paged(*arrays[:-1], 2, arrays[-1])
    with stopping(("ttgir", )):
        assert mimw.compile(lightning_indexer.kernel, grid, *args, **meta, target="sm_90a").ttgir.count("async_tma_copy") > 2


def test_pages_behind_the_keys_may_hold_anything(machine):
    arrays = paged_problem((70, 33))
    q, cache, _, scores, lengths, table, scales = arrays
    scales[table[0, 4], 6:] = np.nan
    scales[np.setdiff1d(np.arange(20), table[table < 20])] = np.nan
    grid, args, meta = lightning_indexer.paged(*arrays[:-1], 2, scales, chosen=TOGETHER)
    machine.launch(lightning_indexer.kernel, grid, *args, **meta)
    close_in_pages(machine, arrays, True)


@pytest.mark.long(but=["chosen0"], everywhere=True)
@pytest.mark.parametrize("chosen", [APART, TOGETHER])
def test_every_interleaving_is_right(check_kernel, chosen):
    q, k, weights, scores, scale = problem(s=5, t=150)
    grid, args, meta = lightning_indexer.arguments(q, k, weights, scores, 1, scale, causal=True, chosen=chosen)
    check_kernel(lightning_indexer.kernel, grid, *args, seeds=4, **meta)


def test_plain(machine):
    """Numbers of heads and columns that are no powers of two; pages of 7 keys."""
    q, k, weights, scores, scale = problem(9, 100, 5, 20)
    grid, args, meta = plain_lightning_indexer.arguments(q, k, weights, scores, scale, causal=True, direct=False)
    machine.launch(plain_lightning_indexer.kernel, grid, *args, **meta)
    close(machine, scores, reference(q, k, weights, scale, [0] * 9, np.arange(9) + 92))
    arrays = paged_problem((30, 0, 1), 3, 5, 20, 7, 6)
    grid, args, meta = plain_lightning_indexer.paged(*arrays, fill=False)
    machine.launch(plain_lightning_indexer.kernel, grid, *args, **meta)
    close_in_pages(machine, arrays, False)


@pytest.mark.parametrize("change, text", [
    (dict(q=np.zeros((3, 24, 32), E4M3), weights=np.zeros((3, 24), np.float32)), "there may be 8, 16, 32, 64, 128 heads"),
    (dict(q=np.zeros((3, 8, 48), E4M3), k=np.zeros((9, 48), E4M3)), "heads may have 32, 64, 128 columns"),
    (dict(k=np.zeros((9, 40), E4M3)[:, :32]), "strides of multiples of 16 bytes for TMA"), (dict(programs=0), "programs"),
    (dict(k=np.zeros((9, 32), BF16)), "both must be of one type"), (dict(weights=np.zeros((3, 8), BF16)), "weights is bfloat16"),
    (dict(starts=np.zeros(4, np.int32)), "starts is 4")])
def test_refusals(change, text):
    given = dict(q=np.zeros((3, 8, 32), E4M3), k=np.zeros((9, 32), E4M3), weights=np.zeros((3, 8), np.float32),
                 scores=np.zeros((3, 9), np.float32), programs=1) | change
    with pytest.raises(ValueError, match=text):
        lightning_indexer.arguments(**given)


def test_pages_that_are_refused():
    arrays = paged_problem((30, 0, 1), page=7)
    with pytest.raises(ValueError, match="pages may have 16, 32, 64, 128, 256 keys"):
        lightning_indexer.paged(*arrays[:-1], 1)
    q, cache, weights, scores, lengths, table, _ = paged_problem((30, 0, 1))
    with pytest.raises(ValueError, match="no more scores than keys in the table's pages"):
        lightning_indexer.paged(q, cache, weights, np.zeros((3, 2, 161), np.float32), lengths, table, 1)
