"""Attention of a sequence on several GPUs, simulated: values, call after call, who has what work, nothing to find."""

import numpy as np
import pytest
import triton.language as tl

import mimw
from mimw.kernels import ring_attention, ring_attention_backward
from mimw.kernels.attention import Configuration
from mimw.kernels.attention_backward.nouns import Problem
from mimw.kernels.ring_attention import positions
from mimw.kernels.ring_attention.gather import PIECES, piece_shift
from mimw.kernels.ring_attention.places import extras
from mimw.kernels.ring_attention_backward.places import keys_of
from tests.kernels.cut_sequences import (
    backward,
    collected,
    collecting,
    expected,
    forward,
    gathered,
    gathering,
    inputs,
    parts_of,
)


@mimw.jit
def owned(out, me, size, rows, BM: tl.constexpr, BN: tl.constexpr, PARTS: tl.constexpr, CAUSAL: tl.constexpr):
    """What `keys_of` says of each program, six numbers of it."""
    program = tl.program_id(0)
    source, row, key, first, count, early = keys_of(program, me, size, Problem(1, rows, rows, None, None, 0), BM, BN, PARTS, CAUSAL)
    tl.store(out + program * 6, source)
    tl.store(out + program * 6 + 1, row)
    tl.store(out + program * 6 + 2, key)
    tl.store(out + program * 6 + 3, first)
    tl.store(out + program * 6 + 4, count)
    tl.store(out + program * 6 + 5, early)


def check(results, names, size, causal, balanced=True, **sizes):
    """Each rank's results against those of the whole sequence."""
    wanted = dict(zip(("o", "lse", "dq", "dk", "dv"), expected(*inputs(size, **sizes), causal)))
    for at, name in enumerate(names):
        parts = parts_of(wanted[name], size, sizes.get("length", 256), causal, balanced)
        for rank, (found, part) in enumerate(zip((one[at] for one in results), parts, strict=True)):
            np.testing.assert_allclose(found.astype(np.float64), part, rtol=0, atol=4e-3, err_msg=f"{name} of rank {rank}")


@pytest.mark.long(but=["3-True-True-options1", "1-True-True-options4"], everywhere=True)
@pytest.mark.parametrize("size, causal, balanced, options", [
    (2, True, True, dict(heads=2, kv_heads=1)), (3, True, True, dict(heads=2, kv_heads=1)),
    (2, True, False, dict(length=128, batch=2)), (4, False, True, dict(length=128)), (1, True, True, dict()),
    (2, True, True, dict(dim=128, chosen=Configuration(bn=64)))])
def test_values_call_after_call(size, causal, balanced, options):
    """The second call finds the signals of the first, and arrays that the first has filled."""
    kernel, grid, args, meta, results = forward(size, causal, balanced, **options)
    sizes = {name: value for name, value in options.items() if name != "chosen"}
    for _ in range(2):
        mimw.simulate(kernel, grid, *args, **meta)
        check(results, ("o", "lse"), size, causal, balanced, **sizes)
        for o, lse in results:
            o[...] = lse[...] = np.nan


@pytest.mark.long(but=["2-False-True-options2", "3-True-False-options1"], everywhere=True)
@pytest.mark.parametrize("size, causal, balanced, options", [
    (2, True, True, dict(heads=2)), (3, True, False, dict(length=128)), (2, False, True, dict(length=128, dim=128))])
def test_gradients(size, causal, balanced, options):
    launches, results = backward(size, causal, balanced, **options)
    for kernel, grid, args, meta in launches:
        mimw.simulate(kernel, grid, *args, **meta)
    check(results, ("dq", "dk", "dv"), size, causal, balanced, **options)


def test_nothing_to_find():
    kernel, grid, args, meta, _ = forward(2, True)
    assert mimw.check(kernel, grid, *args, seeds=4, **meta).ok


@pytest.mark.long(shown_by="test_nothing_to_find")
def test_nothing_to_find_in_gradients():
    launches, _ = backward(2, True)
    kernel, grid, args, meta = launches[1]
    assert mimw.check(kernel, grid, *args, seeds=3, **meta).ok


def test_keys_come_twice():
    kernel, grid, args, meta = gathering(3)
    mimw.simulate(kernel, grid, *args, **meta)
    for rank in range(3):
        assert (args[8][rank] == gathered(rank, 3)[..., None, None]).all()
    kernel, grid, args, meta = gathering(2)
    assert mimw.check(kernel, grid, *args, **meta).ok


def test_shares_are_given_and_added_twice():
    kernel, grid, args, meta = collecting(3)
    mimw.simulate(kernel, grid, *args, **meta)
    for rank in range(3):
        for found, factor in ((args[2][rank], 1), (args[3][rank], 10)):
            np.testing.assert_array_equal(found, factor * collected(rank, 3, 256))
    kernel, grid, args, meta = collecting(2)
    assert mimw.check(kernel, grid, *args, **meta).ok


@pytest.mark.parametrize("size", [2, 3, 8])
def test_all_ranks_have_the_same_work(size):
    """Blocks of keys that the queries of a rank look at, of chunks of four blocks, tiles as high as blocks."""
    def work(rank, parts):
        own = sum(range(1, 4 * parts + 1))
        return own + 4 * sum(extras(rank, size, parts, 4, True)[:parts])

    assert len({work(rank, 2) for rank in range(size)}) == 1
    assert sum(work(rank, 2) for rank in range(size)) == sum(range(1, 8 * size + 1))
    assert len({work(rank, 1) for rank in range(size)}) == size


@pytest.mark.parametrize("size, parts, causal", [(2, 2, True), (3, 2, True), (3, 1, True), (2, 1, False)])
def test_programs_of_gradients_share_out_what_is_seen(size, parts, causal):
    """Each block of all ranks' keys is one program's, with all blocks of queries that see one of its keys."""
    blocks_of, rows = (64, 128), 256 * parts
    chunks = [positions(rank, size, rows, parts) for rank in range(size)]
    for me in range(size):
        found = np.zeros((size * rows // blocks_of[1], 6), np.int64)
        mimw.simulate(owned, (len(found), ), found, me, size, rows, *blocks_of, parts, causal)
        assert len({(source, row) for source, row, *_ in found.tolist()}) == len(found)
        queries = chunks[me].reshape(-1, blocks_of[0])
        for source, row, key, first, count, early in found.tolist():
            keys = chunks[source][row:row + blocks_of[1]]
            seen = queries.max(1) >= keys.min() if causal else np.full(len(queries), True)
            masked = seen & (queries.min(1) < keys.max()) if causal else ~seen
            assert seen.tolist() == [first <= block < first + count for block in range(len(queries))]
            assert masked.tolist() == [first <= block < first + early for block in range(len(queries))]
            assert not causal or key == (row if source == me else -blocks_of[1])


@pytest.mark.parametrize("units", [1, 2, 7, 8, 9, 64, 100])
def test_pieces_are_enough(units):
    assert units - 1 >> piece_shift(units) < PIECES.value <= max(PIECES.value, 2 * ((units - 1 >> piece_shift(units)) + 1) + 1)


def test_refusals():
    q = np.zeros((1, 2, 384, 64), np.float16)
    k = np.zeros((1, 1, 384, 64), np.float16)
    lse, counter = np.zeros((1, 2, 384), np.float32), np.zeros(1, np.int32)
    work = ring_attention.Workspace.of(mimw.World(2), 1, 1, 128, 64, np.float16).at(0)
    with pytest.raises(ValueError, match="length is 384 and parts is 2; each part of a rank's rows must be"):
        ring_attention.arguments(q, k, k, q, lse, counter, work, 0, 2, True)
    with pytest.raises(ValueError, match="room for 32768 numbers; keys and values are 98304"):
        ring_attention.arguments(q, k, k, q, lse, counter, work, 0, 2)
    with pytest.raises(ValueError, match="dim is 96; the head dim may be 64 or 128"):
        ring_attention.arguments(*(np.zeros((1, 1, 384, 96), np.float16), ) * 4, lse[:, :1], counter, work, 0, 2)
    with pytest.raises(ValueError, match="v is 1 x 1 x 128 x 64; for q 1 x 2 x 384 x 64 and k 1 x 1 x 384 x"):
        ring_attention.arguments(q, k, k[:, :, :128], q, lse, counter, work, 0, 2)
    with pytest.raises(ValueError, match="dk must be contiguous"):
        both = ring_attention_backward.Workspace(work, work.whole)
        wide = np.zeros((1, 1, 384, 128), np.float16)[..., :64]
        ring_attention_backward.launches(q, k, k, q, lse, q, q, wide, k, None, None, both, 0, 2)
