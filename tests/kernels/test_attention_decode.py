"""Decoding: shares of workers that cut sequences anywhere, rows of two consumers, copies of pages, refusals."""

import re
from dataclasses import replace

import ml_dtypes
import numpy as np
import pytest
import triton.language as tl

import mimw
import mimw.tlx as tlx
from benchmarks.mutation_kernels import CASES
from mimw.kernels import attention_decode
from mimw.kernels.attention_decode import Configuration, configs, flags_for, producer, room_for
from mimw.kernels.attention_decode import splits as side
from mimw.kernels.attention_decode.few_rows_epilogue.fp8 import halves
from mimw.runtime.simulate import prepare
from tests.compiling import stopping, to_assembly

SMALL = Configuration(bn=32, stages=2, streams=2, least=1)
FEW = Configuration(bn=64, stages=2, streams=1, least=1, drawn=0, few=1)
FINISHED = replace(FEW, few=2)


def problem(lengths, queries=1, heads=2, dim=64, programs=2, chosen=SMALL, page=None, kv_heads=1):
    """(q, k, v, lengths, o, lse, room), numbers that no worker writes NaN, and a page table if there are pages."""
    random, bf16 = np.random.default_rng(0), ml_dtypes.bfloat16
    front = (len(lengths), max(lengths)) if page is None else (8, page)
    k, v = (random.standard_normal((*front, kv_heads, dim)).astype(bf16) for _ in range(2))
    q = random.standard_normal((len(lengths), queries, heads, dim)).astype(bf16)
    room = np.full(room_for(q, kv_heads, programs, chosen), np.nan, np.float32)
    table = None if page is None else random.permutation(8).reshape(len(lengths), -1).astype(np.int32)
    lse = np.full((len(lengths), heads, queries), np.nan, np.float32)
    return (q, k, v, np.array(lengths, np.int32), np.full_like(q, np.nan), lse, room), table


def attended(q, k, v, lengths):
    """In fp64, for caches in one piece."""
    o, group = np.zeros(q.shape), q.shape[2] // k.shape[2]
    for batch, length in enumerate(lengths):
        for query in range(q.shape[1]):
            seen = slice(0, max(0, length - q.shape[1] + query + 1))
            keys, values = (x[batch, seen].astype(np.float64).repeat(group, 1) for x in (k, v))
            scores = np.einsum("hd,khd->hk", q[batch, query].astype(np.float64), keys) / q.shape[3]**0.5
            p = np.exp(scores - scores.max(1, keepdims=True, initial=-1e30))
            o[batch, query] = np.einsum("hk,khd->hd", p, values) / np.maximum(p.sum(1), 1e-30)[:, None]
    return o


@pytest.mark.long(everywhere=["2-lengths2-1", "7-lengths1-2"])
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
        for kernel, grid, args, meta in attention_decode.arguments(*arrays, 1, chosen=chosen, flags=counter):
            mimw.simulate(kernel, grid, *args, **meta, **({"seed": seed} if not found else {}))
        found.append(arrays[4])
    np.testing.assert_allclose(found[0].astype(np.float64), attended(*arrays[:4]), rtol=0, atol=1e-2)
    assert found[0].tobytes() == found[1].tobytes() and not counter.any()


@pytest.mark.long(everywhere=True, but=[
    "lengths1-1-form1-1-changes1", "lengths4-5-form4-2-changes4", "lengths5-3-form5-2-changes5"])
@pytest.mark.parametrize("lengths, programs, form, kv_heads, changes", [
    ([300, 0, 230], 5, FINISHED, 1, {}),                                        # cut anywhere, and nowhere
    ([1100, 20], 1, replace(FINISHED, drawn=1), 1, dict(heads=16)),             # the last keys by who comes first
    ([1100, 20], 1, replace(FEW, drawn=1), 1, {}),
    ([100, 100], 2, FEW, 1, dict(page=32, queries=2, heads=6)),                 # a program a sequence
    ([70, 200], 5, FINISHED, 2, {}), ([70, 200], 3, FINISHED, 2, {})])          # two programs a head; heads that share programs
def test_few_rows(lengths, programs, form, kv_heads, changes):
    few_rows(lengths, programs, form, kv_heads, changes)


def few_rows(lengths, programs, form, kv_heads, changes):
    """One launch (of SMALL two), flags of 0, no part of `room` read that was not written."""
    arrays, table = problem(lengths, programs=programs, chosen=form, kv_heads=kv_heads, **changes)
    flags = np.zeros(flags_for(programs, form), np.int32)
    launches = attention_decode.arguments(*arrays, programs, table, chosen=form, flags=flags)
    assert len(launches) == (1 if form.few else 2)
    for kernel, grid, args, meta in launches:
        mimw.simulate(kernel, grid, *args, **meta)
    q, *caches, lengths, o = arrays[:5]
    caches = caches if table is None else [x[table].reshape(len(lengths), -1, 1, 64) for x in caches]
    np.testing.assert_allclose(o.astype(np.float64), attended(q, *caches, lengths), rtol=0, atol=1e-2)
    assert not flags.any()


@pytest.mark.long(but=["form2-*"], everywhere=True)
@pytest.mark.parametrize("form, changes", [
    (FEW, dict(page=32)), (replace(FEW, bn=128), dict(heads=16)), (replace(FINISHED, bn=128), {})])
def test_few_rows_of_e4m3(form, changes):
    """Caches of bytes, with scales; rows of 8 and of 16."""
    arrays, table = problem([100, 70], programs=3, chosen=form, **changes)
    q, *caches, lengths, o, lse, room = arrays
    caches = [x.astype(ml_dtypes.float8_e4m3fn) for x in caches]
    flags = np.zeros(flags_for(3, form), np.int32)
    scales = dict(k_scale=np.full(1, 0.5, np.float32), v_scale=np.full(1, 2.0, np.float32))
    launches = attention_decode.arguments(q, *caches, lengths, o, lse, room, 3, table, chosen=form, flags=flags, **scales)
    ((kernel, grid, args, meta), ) = launches
    mimw.simulate(kernel, grid, *args, **meta)
    keys, values = (x.astype(np.float64) if table is None else x[table].reshape(2, -1, 1, 64).astype(np.float64) for x in caches)
    np.testing.assert_allclose(o.astype(np.float64), attended(q, keys * 0.5, values * 2, lengths), rtol=0, atol=2e-2)
    assert not flags.any()


@mimw.jit
def always_differ(seen, problem, form):
    return problem.batches > 0


@pytest.mark.long(but=["form0-None"], everywhere=True)
@pytest.mark.parametrize("form, page", [(FEW, None), (FINISHED, 32)])
def test_a_guess_that_was_wrong(monkeypatch, form, page):
    """Lengths that change while the launch ahead ends: what was loaded for others is thrown away, and the share found again."""
    monkeypatch.setattr(producer, "lengths_differ", always_differ)
    form = replace(form, stages=3)      # no other test's, whose recorded program would be taken
    few_rows([300, 0, 200] if page is None else [100, 70], 3, form, 1, dict(page=page))


@pytest.mark.long(but=["form1"], everywhere=True)
@pytest.mark.parametrize("form", [FEW, FINISHED, SMALL])
def test_more_sequences_than_are_looked_at_at_once(monkeypatch, form):
    """Of 32 that are looked at at a time, where a GPU has 256."""
    monkeypatch.setattr(configs, "MOST_LENGTHS", 32)
    few_rows([number % 4 for number in range(52)], 3, form, 1, {})


def test_blocks_are_asked_for_before_the_launch_ahead_has_ended():
    """Keys and values of a guess to L2, in boxes of 64 columns, and their loads behind the wait."""
    arrays, _ = problem([64, 64], dim=128, chosen=FEW)
    ((kernel, grid, args, meta), ) = attention_decode.arguments(*arrays, 2, chosen=FEW, flags=np.zeros(flags_for(2, FEW), np.int32))
    with stopping():
        ptx = mimw.compile(kernel, grid, *args, **meta, target="sm_90a").stage("ptx")
    ahead, behind = ptx[:ptx.rindex("griddepcontrol.wait")], ptx[ptx.rindex("griddepcontrol.wait"):]
    assert ahead.count("cp.async.bulk.prefetch.tensor.4d.L2") == 4 and "cp.async.bulk.tensor.4d.shared" not in ahead
    assert "cp.async.bulk.tensor.4d.shared" in behind and "prefetch.tensor" not in behind


@pytest.mark.long(but=["form1"], everywhere=True)
@pytest.mark.parametrize("form", [FEW, FINISHED])
def test_few_rows_in_any_order(check_kernel, form):
    """Programs that read parts of each sequence, and the one of them that comes last."""
    arrays, table = problem([200, 20, 63], programs=2, chosen=form)
    for x in arrays[4:]:
        x[...] = 0
    flags = np.zeros(flags_for(2, form), np.int32)
    ((kernel, grid, args, meta), ) = attention_decode.arguments(*arrays, 2, table, chosen=form, flags=flags)
    check_kernel(kernel, grid, *args, seeds=3, shrink=False, rounds=False, **meta)


@mimw.jit
def shares(out, length, most, tiles, per, columns, DRAWN: tl.constexpr):
    """The units of each share; a share is the owner of its first unit and its last."""
    shares = side.cut(length, most, tiles, per, columns, 1, DRAWN)
    for number in range(side.splits_of(shares)):
        first, stop = side.split(number, shares)
        tl.store(out + 2 * number, first)
        tl.store(out + 2 * number + 1, stop)
        if first < stop:
            tl.device_assert(side.owner(first, shares) == number)
            tl.device_assert(side.owner(stop - 1, shares) == number)


@pytest.mark.parametrize("length, most, tiles, per, columns, drawn, size", [
    (128, 128, 1, 16, 8, 0, 8), (2048, 2048, 1, 16, 2, 0, 128), (1024, 128, 8, 16, 3, 0, 64), (2048, 16, 128, 16, 1, 0, 128),
    (1000, 128, 8, 16, 1, 0, 63), (70, 7, 10, 6, 2, 0, 12), (5, 5, 1, 3, 1, 0, 2), (300, 100, 3, 2, 2, 2, 113)])
def test_shares(length, most, tiles, per, columns, drawn, size):
    """Every unit of every column is of one share, shares are of one size, and end where tiles end if that costs little."""
    out = np.full((6 * per * columns, 2), -1, np.int32)
    mimw.simulate(shares, (1, ), out, length, most, tiles, per, columns, DRAWN=drawn)
    out = out[(out >= 0).all(1) & (out[:, 0] < out[:, 1])]
    out = out[out[:, 0].argsort()]
    assert out[0, 0] == 0 and out[-1, 1] == length * columns and (out[1:, 0] == out[:-1, 1]).all()
    assert (out[:, 1] - out[:, 0]).max() == out[0, 1] == size


def test_no_interleaving_is_wrong():
    """Few seeds of one form here; benchmarks/mutations.py runs 200 of both."""
    (case, ) = (case for case in CASES if case.name == "Decoding, many rows")
    kernel, grid, args, meta = case.make()
    assert mimw.check(kernel, grid, *args, seeds=2, **meta).ok


def test_a_page_is_a_copy():
    """64 keys of 128 columns: two copies of 64 columns for each of four pages, of keys and of values, in each of two producers."""
    arrays, table = problem([20, 20], dim=128, chosen=Configuration(), page=16)
    kernel, grid, args, meta = attention_decode.arguments(*arrays, 2, table, chosen=Configuration())[0]
    ops = [op.name for op in prepare(kernel, grid, args, dict(meta)).program.walk()]
    assert ops.count("tma_load") == 4 * 2 * 2 * 2


@pytest.mark.parametrize("change, text", [
    (dict(page=8), "page_table is 2 x 4 of int32 and page_size is 8; pages may have"),
    (dict(splits=0), "splits is 0; it must be 1 or more, or None"),
    (dict(k=slice(0, 1)), "pages is 1 and batch is 2; without a page table there must be as"), (dict(scale=-1.0), "scale is -1.0"),
    (dict(room=slice(0, 8)), "room has 8 elements; the launch needs 2120"),
    (dict(chosen=FEW), "flags are None"), (dict(chosen=replace(FEW, bn=32), flags=np.zeros(9, np.int32)), "blocks have 32 keys"),
    (dict(chosen=FEW, flags=np.zeros(2, np.int32)), "flags has 2 elements; the launch needs 3")])
def test_refusals(change, text):
    (q, k, v, lengths, o, lse, room), table = problem([20, 20], page=change.pop("page", None))
    k, v, room = k[change.get("k", slice(None))], v[change.pop("k", slice(None))], room[change.pop("room", slice(None))]
    with pytest.raises(ValueError, match=text):
        attention_decode.arguments(q, k, v, lengths, o, lse, room, 2, table, **{"chosen": SMALL, **change})


def test_a_head_dim_that_no_tile_holds():
    with pytest.raises(ValueError, match="the head dim is 264; it may be up to 256"):
        problem([20, 20], dim=264)


def test_one_split_is_one_launch():
    arrays, _ = problem([20, 20])
    assert len(attention_decode.arguments(*arrays, 2, chosen=SMALL, splits=1)) == 1


@mimw.jit
def doubled_pairs(x, weights, y):
    """y = keys, of the first and of the second bytes of 64 rows of 16 pairs, times weights, four warps with 16 rows each."""
    rows = tlx.local_alloc((64, 16), tl.int16, 1)
    pair = tl.arange(0, 64)[:, None] * 16 + tl.arange(0, 16)[None, :]
    tlx.local_store(rows[0], tl.load(x + pair))
    first, second = halves(tlx.local_load(tlx.local_reshape(rows[0], [4, 16, 16])), 16, 16)
    warp, column = tl.arange(0, 4)[:, None, None], tl.arange(0, 16)[None, :, None]
    right = tl.load(weights + (warp * 0 + column * 8 + tl.arange(0, 8)[None, None, :]))
    found = tl.dot(second, right, tl.dot(first, right))
    tl.store(y + ((warp * 16 + column) * 8 + tl.arange(0, 8)[None, None, :]), found)


def test_bytes_are_left_operands():
    """By `ldmatrix`, taken apart two numbers an instruction; no byte is loaded alone."""
    random = np.random.default_rng(0)
    keys = random.standard_normal((64, 32)).astype(ml_dtypes.float8_e4m3fn)
    weights, found = random.standard_normal((16, 8)).astype(np.float16), np.zeros((64, 8), np.float32)
    mimw.simulate(doubled_pairs, (1, ), keys.view(np.int16), weights, found, num_warps=4)
    wide = keys.astype(np.float32).reshape(64, 16, 2).sum(2)
    np.testing.assert_allclose(found, wide @ weights.astype(np.float32), rtol=0, atol=1e-4)
    ptx = to_assembly(doubled_pairs, {"x": "*i16", "weights": "*fp16", "y": "*fp32"}, {}, "sm_90a").stage("ptx")
    assert ptx.count("cvt.rn.f16x2.e4m3x2") == 64 * 32 // 2 // 128 and "ldmatrix" in ptx
    assert not re.search(r"ld\.shared\S*[bu]8 ", ptx)
