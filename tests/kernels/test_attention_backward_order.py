"""The order of programs in attention's gradients: each has its block once, long ones come first in a band, and the bits of dK and
dV stay."""

from heapq import heapreplace

import numpy as np
import pytest
import triton.language as tl

import mimw
from mimw.kernels import attention_backward as backward
from mimw.kernels import wide_attention_backward as wide
from mimw.kernels.attention_backward.order import ORDERS, RUNNING, bands_of, grid_of, program_of, sizes_of
from tests.kernels.test_attention_backward import problem, reference


@mimw.jit
def where(out, sizes, heads, blocks, BANDS: tl.constexpr):
    """The number of each program, at its block's place."""
    block, head, batch = program_of(BANDS)
    of_head, all_heads = sizes_of(BANDS)
    number = (tl.program_id(2) * tl.num_programs(1) + tl.program_id(1)) * tl.num_programs(0) + tl.program_id(0)
    tl.store(out + (batch * heads + head) * blocks + block, number)
    tl.store(sizes, of_head)
    tl.store(sizes + 1, all_heads)


@pytest.mark.parametrize("bands", [0, 1, 4])
def test_each_program_has_its_block_once(bands):
    blocks, heads, batches = 5, 12, 2
    out, sizes = np.full((batches * heads, blocks), -1, np.int32), np.zeros(2, np.int32)
    mimw.simulate(where, grid_of(blocks, heads, batches, bands), out, sizes, heads, blocks, bands)
    assert sorted(out.ravel()) == list(range(blocks * heads * batches)) and list(sizes) == [blocks, heads * batches]
    if bands:       # the first blocks of a band's heads, then their second ones
        width = heads // bands
        assert (out[:width, 0] == np.arange(width)).all() and (out[:width, 1] == width + np.arange(width)).all()
        assert out[width, 0] == width * blocks
    else:
        assert (out.ravel() == np.arange(out.size)).all()


def _longest(blocks: int, heads: int, batches: int, order: str) -> float:
    """When the last program ends, over the mean load of a multiprocessor, if each starts where one ended: 128 keys are seen by two
    blocks of queries fewer than those before, and the start and the end of a program take as long as one."""
    bands = bands_of(blocks, heads, batches, order)
    width, _, _ = grid_of(blocks, heads, batches, bands)
    free = [0] * RUNNING
    for number in range(heads * batches * blocks):
        block = number // width % blocks if bands else number % blocks
        heapreplace(free, free[0] + 1 + 2 * (blocks - block))
    return max(free) * RUNNING / sum(free)


@pytest.mark.parametrize("blocks, heads, batches", [(8, 48, 4), (32, 48, 4), (32, 8, 1), (64, 8, 1), (32, 40, 1), (64, 12, 1)])
def test_by_lengths_all_programs_end_together(blocks, heads, batches):
    assert _longest(blocks, heads, batches, "lengths") < min(1.03, _longest(blocks, heads, batches, "heads"))


@pytest.mark.parametrize("blocks, heads, bands", [(8, 48, 1), (32, 48, 4), (128, 48, 16), (32, 8, 1), (128, 7, 1), (1, 1, 1)])
def test_bands_are_no_wider_than_they_need_be(blocks, heads, bands):
    assert bands_of(blocks, heads, 4, "lengths") == bands and bands_of(blocks, heads, 4, "heads") == 0


@pytest.mark.parametrize("blocks, heads, batches, bands", [
    (8, 48, 4, 0), (16, 48, 4, 0), (32, 48, 4, 0), (128, 48, 4, 0), (128, 8, 1, 0), (64, 16, 4, 0),     # by heads
    (32, 8, 1, 1), (64, 8, 1, 2), (32, 8, 4, 1), (32, 32, 1, 4), (16, 16, 4, 1)])                       # by lengths
def test_the_order_that_was_faster(blocks, heads, batches, bands):
    assert bands_of(blocks, heads, batches, "auto") == bands


@pytest.mark.long(but=[""], everywhere=True)
@pytest.mark.parametrize("one_order", [False, True], ids=["", "one order"])
def test_the_same_bits_in_both_orders(one_order):
    found = []
    for order in ORDERS[1:]:
        chosen = backward.Configuration(order=order)
        arrays, wanted = problem(2, 4, 2, 70, 140, 64, causal=True, chosen=chosen)
        for kernel, grid, args, meta in backward.launches(*arrays, causal=True, chosen=chosen, one_order=one_order):
            mimw.simulate(kernel, grid, *args, **meta)
        found.append(arrays[6:9])
    assert all((x == y).all() for x, y in list(zip(*found))[0 if one_order else 1:])
    for got, one in zip(found[1], wanted):
        assert np.linalg.norm(got.astype(np.float64) - one) < 2e-3 * np.linalg.norm(one)


@pytest.mark.parametrize("options, bands, grid", [(dict(causal=True), 1, (2, 3, 2)), (dict(), 0, (3, 2, 2)),
                                                  (dict(causal=True, window=(40, None)), 0, (3, 2, 2))])
def test_programs_of_one_length_keep_their_order(options, bands, grid):
    chosen = backward.Configuration(order="lengths")
    arrays, _ = problem(2, 2, 2, 150, 300, 64, chosen=chosen)
    _, (_, launched, _, meta), _ = backward.launches(*arrays, chosen=chosen, **options)
    assert (meta["FORM"].form.BANDS.value, launched) == (bands, grid)


def test_wide_heads():
    random = np.random.default_rng(0)
    q, k, v, do = (random.standard_normal((2, 2, rows, 136)).astype(np.float16) for rows in (70, 130, 130, 70))
    o, lse, *wanted, _ = reference(q, k, v, do, True)
    rows, gradients = np.full(wide.workspace(q), np.nan, np.float32), [np.full_like(x, np.nan) for x in (q, k, v)]
    launches = wide.launches(q, k, v, o.astype(np.float16), lse.astype(np.float32), do, *gradients, rows, True, order="lengths")
    assert [grid for _, grid, _, _ in launches[1:]] == [(2, 3, 2), (2, 1, 2)]
    for kernel, grid, args, meta in launches:
        mimw.simulate(kernel, grid, *args, **meta)
    for got, one in zip(gradients, wanted):
        assert np.linalg.norm(got.astype(np.float64) - one) < 2e-3 * np.linalg.norm(one)


def test_an_order_that_there_is_not():
    with pytest.raises(ValueError, match='order is \'sizes\'; it may be "auto", "heads" or "lengths"'):
        backward.Configuration(order="sizes")
