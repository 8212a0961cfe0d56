"""Samples of grids: programs that differ in work are told apart, and stand for the others as all of them simulated say."""

from importlib import import_module

import ml_dtypes
import numpy as np
import pytest
import triton.language as tl

import mimw
from mimw.simulator.costs import Figure, Model, model
from mimw.tools.timing.sampling import even, last_end, stratified

SMS = 4
_OF_ALL = ("memory.l2_gb_per_s", "memory.l2_store_gb_per_s", "memory.dram_gb_per_s")


@pytest.fixture
def few_sms(monkeypatch):
    """An H200 of four SMs, with their part of L2 and DRAM."""
    whole = model("sm_90a")
    changed = {"chip.sms": SMS} | {name: whole[name] * SMS / whole.sms for name in _OF_ALL}
    made = Model("sm_90a", "four SMs", {**whole.figures, **{name: Figure(value, "", "") for name, value in changed.items()}})
    monkeypatch.setattr(import_module("mimw.tools.timing.predict"), "model", lambda target: made)


@mimw.jit
def attention(q, k, v, o, SEQ, BM: tl.constexpr, BN: tl.constexpr, D: tl.constexpr, HEADS_FIRST: tl.constexpr):
    """Causal, of plain Triton: a program looks at the keys up to its last row, without a mask up to the diagonal."""
    block, head = tl.program_id(0), tl.program_id(1)
    if HEADS_FIRST:
        block, head = tl.program_id(1), tl.program_id(0)
    rows, dims = block * BM + tl.arange(0, BM), tl.arange(0, D)
    base = head * SEQ * D
    mine = tl.load(q + base + rows[:, None] * D + dims[None, :])
    high, total = tl.full([BM], float("-inf"), tl.float32), tl.zeros([BM], tl.float32)
    acc = tl.zeros([BM, D], tl.float32)
    for first in range(0, (block + 1) * BM, BN):
        keys = first + tl.arange(0, BN)
        scores = tl.dot(mine, tl.load(k + base + keys[None, :] * D + dims[:, None]))
        scores = tl.where(rows[:, None] >= keys[None, :], scores, float("-inf"))
        new = tl.maximum(high, tl.max(scores, 1))
        weights, scale = tl.exp2(scores - new[:, None]), tl.exp2(high - new)
        total = total * scale + tl.sum(weights, 1)
        acc = tl.dot(weights.to(tl.bfloat16), tl.load(v + base + keys[:, None] * D + dims[None, :]), acc * scale[:, None])
        high = new
    tl.store(o + base + rows[:, None] * D + dims[None, :], (acc / total[:, None]).to(tl.bfloat16))


def whole_and_sampled(blocks, heads, heads_first, bm=64):
    q, k, v, o = (np.empty((heads, blocks * bm, 64), ml_dtypes.bfloat16) for _ in range(4))
    grid, meta = (heads, blocks) if heads_first else (blocks, heads), dict(BM=bm, BN=64, D=64, HEADS_FIRST=heads_first, num_warps=4)
    predicting = import_module("mimw.tools.timing.predict")
    launch = predicting.prepare(attention, grid, (q, k, v, o, blocks * bm), meta, "sm_90a")
    found = []
    for everything in (True, False):
        one = predicting.Predictor(launch, predicting.model("sm_90a"), predicting.wanted("sm_90a"), predicting.MOST_CTAS)
        if everything:
            one.simulate_all()
        found.append(one.prediction(1980))
    return found


@mimw.jit
def sums(x, y, SEQ, HEADS, BLOCKS: tl.constexpr, BM: tl.constexpr):
    """Tiles in turn: of a block of rows all in front of it are added up."""
    for tile in range(tl.program_id(0), HEADS * BLOCKS, tl.num_programs(0)):
        block, head = tile % BLOCKS, tile // BLOCKS
        at = x + head * SEQ * BM + tl.arange(0, BM)
        total = tl.zeros([BM], tl.float32)
        for row in range(0, (block + 1) * BM):
            total += tl.exp2(tl.load(at + row * BM))
        tl.store(y + tile * BM + tl.arange(0, BM), total)


def test_of_programs_that_take_tiles_in_turn_the_one_with_the_most_work_is_simulated(few_sms):
    """Eight blocks of rows by four programs: the last one gets blocks 3 and 7 of each head, 12 parts of all 36."""
    x, y = np.empty((6, 8 * 128, 128), np.float32), np.empty((6 * 8, 128), np.float32)
    predicting = import_module("mimw.tools.timing.predict")
    launch = predicting.prepare(sums, (SMS, ), (x, y, 8 * 128, 6), dict(BLOCKS=8, BM=128, num_warps=4), "sm_90a")
    one = predicting.Predictor(launch, predicting.model("sm_90a"), predicting.wanted("sm_90a"), predicting.MOST_CTAS)
    works = [work - min(one.sample.all) for work in one.sample.all]
    assert [list(cluster[0]) for cluster in one.sample.chosen] == [[SMS - 1, 0, 0]]
    assert works == pytest.approx([works[3] * part / 3 for part in range(4)])
    alone = one.rough(1980)
    one.simulate_all()
    assert alone == pytest.approx(one.rough(1980), rel=0.05)


@pytest.mark.long(but=["16-12-True"], everywhere=True)
@pytest.mark.parametrize("blocks, heads, heads_first", [(16, 12, True), (16, 12, False)])
def test_a_causal_grid_takes_as_long_sampled_as_whole(few_sms, blocks, heads, heads_first):
    whole, sampled = whole_and_sampled(blocks, heads, heads_first)
    assert sampled.simulated[0] <= blocks * heads / SMS <= sampled.simulated[1] and whole.simulated[0] == blocks * heads
    assert sampled.cycles == pytest.approx(whole.cycles, rel=0.05)


def test_programs_go_to_the_sm_that_is_free_first():
    assert last_end([4, 1, 1, 1, 1], 2, 1, 1) == 4 and last_end([1, 1, 1, 1, 4], 2, 1, 1) == 6


@pytest.mark.parametrize("at_once, end", [(1, 8), (2, 4), (4 / 3, 6)])
def test_programs_of_an_sm_share_what_it_does_at_once(at_once, end):
    assert last_end([2, 2, 2, 2], 1, 2, at_once) == pytest.approx(end)


def test_a_program_that_is_left_alone_goes_on_as_fast_as_one():
    """Both at half the speed until the short one ends at 2, then the other one's last 2 at full speed."""
    assert last_end([1, 3], 1, 2, 1) == pytest.approx(4)


def test_the_middle_of_each_part_stands_for_it():
    order, works = [[number] for number in range(64)], [100.0 * (number % 8) for number in range(64)]
    found = stratified(order, works, 2, 1, 8)
    assert sorted(found.works) == [100 * number for number in range(8)] and found.chosen == sorted(found.chosen)


def test_the_launch_lasts_as_long_as_the_program_with_the_most_work_if_all_start_together():
    found = stratified([[0], [1], [2]], [1.0, 5.0, 2.0], 4, 1, 8)
    assert found.chosen == [[1]] and not found.differs and found.of_alike(7.0, [7.0], 1.0) == 7.0


def test_others_take_what_their_work_says():
    """One at a time: 10 cycles and one more for each unit of work; two SMs share 8 of works 10 to 80, the largest last."""
    works = [10.0 * number for number in range(1, 9)]
    found = stratified([[number] for number in range(8)], works, 2, 1, 2)
    alone = [10 + work for work in found.works]
    assert found.of_others(sum(alone), alone) == pytest.approx(last_end([10 + work for work in works], 2, 1, 1))


def test_one_more_takes_what_the_later_ones_took():
    """Two at a time: the first two end at 100, the next ones 60 later each, and so do those that are left out."""
    found = even([[number] for number in range(20)], 2, 2, 4)
    ends = [100.0, 100.0, 160.0, 160.0, 220.0, 220.0]
    assert (len(found.chosen), found.number) == (6, 10)
    assert found.of_alike(225.0, ends, 10.0) == pytest.approx(225 + 4 * 30)
    assert found.of_alike(225.0, ends, 240.0) == pytest.approx(225 + 4 * 40)      # a unit that works for longer
