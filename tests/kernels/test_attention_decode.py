"""Decoding: shares of workers that cut sequences anywhere, rows of two consumers, copies of pages, refusals."""

import ml_dtypes
import numpy as np
import pytest

import mimw
from benchmarks.mutation_kernels import CASES
from mimw.kernels import attention_decode
from mimw.kernels.attention_decode import Configuration, room_for
from mimw.simulate import prepare

SMALL = Configuration(bn=32, stages=2, streams=2, least=1)


def problem(lengths, queries=1, heads=2, dim=64, programs=2, chosen=SMALL, page=None):
    """(q, k, v, lengths, o, lse, room), numbers that no worker writes NaN, and a page table if there are pages."""
    random, bf16 = np.random.default_rng(0), ml_dtypes.bfloat16
    front = (len(lengths), max(lengths)) if page is None else (8, page)
    k, v = (random.standard_normal((*front, 1, dim)).astype(bf16) for _ in range(2))
    q = random.standard_normal((len(lengths), queries, heads, dim)).astype(bf16)
    room = np.full(room_for(q, 1, programs, chosen), np.nan, np.float32)
    table = None if page is None else random.permutation(8).reshape(len(lengths), -1).astype(np.int32)
    lse = np.full((len(lengths), heads, queries), np.nan, np.float32)
    return (q, k, v, np.array(lengths, np.int32), np.full_like(q, np.nan), lse, room), table


def attended(q, k, v, lengths):
    """In fp64, for caches in one piece with one head."""
    o = np.zeros(q.shape)
    for batch, length in enumerate(lengths):
        for query in range(q.shape[1]):
            seen = slice(0, max(0, length - q.shape[1] + query + 1))
            scores = q[batch, query].astype(np.float64) @ k[batch, seen, 0].astype(np.float64).T / q.shape[3]**0.5
            p = np.exp(scores - scores.max(1, keepdims=True, initial=-1e30))
            o[batch, query] = p @ v[batch, seen, 0].astype(np.float64) / np.maximum(p.sum(1), 1e-30)[:, None]
    return o


@pytest.mark.parametrize("programs, lengths, streams", [(1, [100, 0, 33], 2), (7, [200, 70], 2), (2, [100, 3], 1)])
def test_any_number_of_workers(machine, programs, lengths, streams):
    """Whole sequences, sequences of two workers and of many, workers of one block, workers with nothing to do."""
    chosen = Configuration(bn=32, stages=2, streams=streams, least=1)
    arrays, _ = problem(lengths, 1 if streams == 2 else 3, 2 if streams == 2 else 30, programs=programs, chosen=chosen)
    for kernel, grid, args, meta in attention_decode.arguments(*arrays, programs, chosen=chosen):
        machine.launch(kernel, grid, *args, **meta)
    np.testing.assert_allclose(arrays[4].astype(np.float64), attended(*arrays[:4]), rtol=0, atol=1e-2)


def test_drawn_shares():
    """The last eighth of the blocks by who comes first; the same bits whoever that is, and a counter of 0."""
    chosen, counter, found = Configuration(16, 4, 2, 1, 1), np.zeros(1, np.int32), []
    for seed in (1, 2):
        arrays, _ = problem([300, 0, 230], 1, 2, programs=1, chosen=chosen)
        for kernel, grid, args, meta in attention_decode.arguments(*arrays, 1, chosen=chosen, counter=counter):
            mimw.simulate(kernel, grid, *args, **meta, **({"seed": seed} if not found else {}))
        found.append(arrays[4])
    np.testing.assert_allclose(found[0].astype(np.float64), attended(*arrays[:4]), rtol=0, atol=1e-2)
    assert found[0].tobytes() == found[1].tobytes() and not counter.any()


def test_no_interleaving_is_wrong():
    """Few seeds of one form here; benchmarks/mutations.py runs 200 of both."""
    (case, ) = (case for case in CASES if case.name == "Decoding, many rows")
    kernel, grid, args, meta = case.make()
    assert mimw.check(kernel, grid, *args, seeds=2, **meta).ok


def test_a_page_is_a_copy():
    """64 keys of 128 columns: two copies of 64 columns for each of four pages, of keys and of values, in each of two producers."""
    arrays, table = problem([20, 20], dim=128, chosen=None, page=16)
    kernel, grid, args, meta = attention_decode.arguments(*arrays, 2, table)[0]
    ops = [op.name for op in prepare(kernel, grid, args, dict(meta)).program.walk()]
    assert ops.count("tma_load") == 4 * 2 * 2 * 2


@pytest.mark.parametrize("change, text", [
    (dict(page=8), "pages have 8 keys"), (dict(splits=0), "splits 0"),
    (dict(k=slice(0, 1)), "2 sequences and the caches 1"), (dict(scale=-1.0), "scale is -1.0"),
    (dict(room=slice(0, 8)), "room has 8 numbers; 2 programs need")])
def test_refusals(change, text):
    (q, k, v, lengths, o, lse, room), table = problem([20, 20], page=change.pop("page", None))
    k, v, room = k[change.get("k", slice(None))], v[change.pop("k", slice(None))], room[change.pop("room", slice(None))]
    with pytest.raises(ValueError, match=text):
        attention_decode.arguments(q, k, v, lengths, o, lse, room, 2, table, chosen=SMALL, **change)


def test_a_head_dim_that_no_tile_holds():
    with pytest.raises(ValueError, match="the head dim is 264; it may be up to 256"):
        problem([20, 20], dim=264)


def test_one_split_is_one_launch():
    arrays, _ = problem([20, 20])
    assert len(attention_decode.arguments(*arrays, 2, chosen=SMALL, splits=1)) == 1
