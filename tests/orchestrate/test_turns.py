"""Consumers that take turns, at the products of a trip or tile by tile; queries that lie where they are through loops inside."""

import re
from dataclasses import replace

import numpy as np
import pytest
import triton.language as tl

import mimw
from mimw.compiler.orchestrate import tiles_in_turn
from mimw.compiler.orchestrate.authors_tiles import authors_tiles
from mimw.compiler.orchestrate.consumer import Consumer
from mimw.compiler.orchestrate.plan import Plan
from mimw.compiler.orchestrate.turns import turns_at_products
from mimw.runtime.simulate import prepare
from mimw.tools.orchestrate import choose
from mimw.tools.orchestrate import written as module
from mimw.tools.orchestrate.overlap import undone
from mimw.tools.orchestrate.plain import plain_of
from mimw.tools.orchestrate.prove import prove
from mimw.tools.orchestrate.written import written

from .test_orchestrate import other, plain, without

IN_TURN = dict(consumers=2, stages=2, persistent=True, tiles_in_turn=True)
PINGPONG = dict(consumers=2, stages=2, pingpong=True)
PLANS = {       # a GEMM with loads of the consumer's own; heads; tiles with other numbers of chunks; turns in one loop, and in two
    "a tile of its own": ("gemm_bias_gelu", dict(m=256, n=256), IN_TURN | dict(stores=True)),
    "a tile of its own, and no trip": ("gemm_descriptors", dict(m=384, n=128, k=320), IN_TURN),
    "the author's own loop over tiles": ("gemm_persistent", dict(m=384, n=128, k=192, programs=1),
                                         IN_TURN | dict(persistent=False)),
    "heads in turn": ("attention", dict(t=256, heads=2, d=32), IN_TURN),
    "tiles of other lengths": ("attention:causal", dict(t=384), IN_TURN | dict(stores=True)),
    "four consumers": ("attention", dict(t=512, bm=256, bn=64), dict(consumers=4, warps=4, stages=2, persistent=True, stores=True)),
    "turns": ("attention", dict(t=512, bn=64), PINGPONG),
    "turns in two loops": ("attention:causal", dict(t=512, bn=64),
                           PINGPONG | dict(late_stages=3, persistent=True, stores=True)),
}


@pytest.mark.long(everywhere=True, but=[
    "turns", "a tile of its own", "a tile of its own, and no trip", "heads in turn", "tiles of other lengths"])
@pytest.mark.parametrize("what", PLANS)
def test_a_plan_is_proved(what):
    name, sizes, plan = PLANS[what]
    one = written(plain(name, **sizes), Plan(**plan))
    assert one.kernel is not None, (one.wrong, one.refused, one.remarks)
    found = prove(one, seeds=2, limit=10)
    assert found.ok and found.compared and not any(line["different"] for line in found.compared), found
    if one.plan.tiles_in_turn:      # three tiles or more of one program
        assert any(line["most"] == 1 if one.is_persistent else line["tiles"] >= 3 for line in found.compared)
        assert one.made.program.named("pipe_make")[0].attrs["readers"] == (("compute0", "compute1"), )


@pytest.mark.parametrize("name, sizes, persistent", [
    ("gemm_bias_gelu", dict(m=256, n=128), True), ("gemm_persistent", dict(m=256, n=128, k=192, programs=1), False)])
def test_a_consumer_that_never_has_a_second_tile_proves_nothing(name, sizes, persistent):
    one = written(plain(name, **sizes), Plan(**IN_TURN | dict(persistent=persistent)))
    assert "in which a program takes 3 or more tiles" in prove(one, seeds=1, limit=5).wrong


# ---- mistakes that a proof has to find ---------------------------------------------------------------------------------------


def twice(name):
    """Each op of that name a second time."""
    def changed(program):
        def walk(block):
            ops = [op.with_blocks(walk) for op in block.ops]
            return block.with_ops(one for op in ops for one in ([op, replace(op)] if op.name == name else [op]))
        return replace(program, body=walk(program.body))
    return changed


MISTAKES = {
    "a turn is not awaited": without("named_barrier_wait"),
    "a turn is not passed on": without("named_barrier_arrive"),
    "a turn is passed on twice": twice("named_barrier_arrive"),
    "a turn is taken twice": twice("named_barrier_wait"),
    "a turn is passed on to oneself": other("named_barrier_arrive", barrier=lambda number: 17 - number),
}


@pytest.mark.long(but=["turns-*"], everywhere=True)
@pytest.mark.parametrize("mistake", MISTAKES)
@pytest.mark.parametrize("what", ["a tile of its own", "turns"])
def test_a_mistake_in_turns_is_found(what, mistake, monkeypatch):
    """But for ping-pong without a wait: there turns are for speed alone, and pipes keep their order."""
    right, (name, sizes, plan) = module.orchestrated, PLANS[what]

    def wrong(*given):
        made = right(*given)
        return replace(made, program=MISTAKES[mistake](made.program))

    monkeypatch.setattr(module, "orchestrated", wrong)
    found = prove(written(plain(name, **sizes), Plan(**plan)), seeds=2, limit=20)
    assert found.ok is (what == "turns" and "awaited" in mistake), found


@pytest.mark.parametrize("step, change", [
    ("_skip", lambda self, tile: None),         # chunks of the other one's tiles are not counted
    ("last", lambda self, loop: None),          # .. those behind a tile
    ("bounds", lambda self, loop: super(tiles_in_turn.ConsumerInTurn, self).bounds(loop)),      # both have all tiles
])
def test_a_mistake_in_whose_tile_it_is_is_found(step, change, monkeypatch):
    monkeypatch.setattr(tiles_in_turn.ConsumerInTurn, step, change)
    name, sizes, plan = PLANS["a tile of its own"]
    assert not prove(written(plain(name, **sizes), Plan(**plan)), seeds=2, limit=20).ok


def test_queries_that_are_given_back_too_early_are_found(monkeypatch):
    """In front of the loop that reads them, not behind it."""
    from mimw.compiler.orchestrate import rings
    right = rings.ends

    def early(uses, load, products):
        found = right(uses, load, products)
        found.behind[:] = [min(products, key=uses.position.get)]
        return found

    monkeypatch.setattr(rings, "ends", early)
    one = written(plain("attention", t=256, heads=2, d=32), Plan(consumers=2, stages=2, persistent=True))
    assert one.kernel is None or not prove(one, seeds=2, limit=20).ok


# ---- what becomes of a program -----------------------------------------------------------------------------------------------


def test_persistent_attention_reads_queries_where_they_lie():
    one = written(plain("attention", t=256, heads=2, d=32), Plan(consumers=2, stages=2, persistent=True))
    assert not one.made.program.named("local_load") and [ring.stages for ring in one.made.rings.roots] == [1, 2, 2]
    text = one.text[one.text.index("# compute0"):one.text.index("# compute1")]
    loop, last, empty = text.split("q.reader(\"compute0\").release(chunk)")
    assert "for start in" in loop and loop.count("async_dot(") == 3 and last.count("async_dot(") == 1 and "else:" in last
    assert "async_dot" not in empty


def test_the_pipe_of_a_late_product_has_a_slot_more_where_it_fits():
    """And the plan that is kept writes the same kernel."""
    launch = plain("attention", t=1024, d=128, bn=128)
    one = written(launch, Plan(consumers=2))
    assert {ring.name: ring.stages for ring in one.made.rings.roots} == {"q": 1, "k": 2, "v": 3}
    assert (one.plan.stages, one.plan.late_stages) == (2, 3)
    again = written(launch, Plan.parse(one.plan.text()))
    assert again.text == re.sub("Plan: .*", f"Plan: {one.plan.text()}", one.text)
    assert {ring.stages for ring in written(launch, Plan(stages=2)).made.rings.roots} == {1, 2}


def test_a_turn_is_both_products_of_a_late_trip_alone():
    """Where the second product takes what the first one gives, there is nothing to start together."""
    for delayed in (True, False):
        one = written(plain("attention", t=256, bn=64), Plan(consumers=2, stages=2, delayed=delayed, pingpong=True))
        assert len(one.made.program.named("named_barrier_wait")) == 2 * delayed
        assert len(one.made.program.named("named_barrier_arrive")) == 3 * delayed       # one opens the first turn
    gemm = plain("gemm_descriptors", m=128, n=128, k=320).program
    assert not turns_at_products(gemm, gemm.named("dot")).begins


@mimw.jit
def one_sum(a_desc, b_desc, c_desc, m, end):
    acc = tl.zeros((64, 64), tl.float32)
    for k in range(0, end, 64):
        acc = tl.dot(a_desc.load([m, k]), b_desc.load([k, 0]), acc)
    c_desc.store([m, 0], acc.to(tl.float16))


@mimw.jit
def by_a_table(a_desc, b_desc, c_desc, table, WHILE: tl.constexpr):
    m = tl.program_id(0) * 64
    end = m
    if WHILE:
        while end < 512:
            one_sum(a_desc, b_desc, c_desc, m, 128)
            end += 512
    else:
        one_sum(a_desc, b_desc, c_desc, m, tl.load(table + tl.program_id(0)))


@pytest.mark.parametrize("which", [False, True])
def test_chunks_of_a_tile_have_to_be_counted_by_who_does_not_have_it(which):
    """A tile behind the last one is counted as well, so nothing is loaded for it, and no `while` runs."""
    a, b, c = (np.zeros(shape, np.float16) for shape in ((256, 128), (128, 64), (256, 64)))
    described = (mimw.TensorDescriptor.from_tensor(one, [64, 64]) for one in (a, b, c))
    args = *described, np.full(4, 128, np.int32)
    one = written(plain_of(by_a_table, (4, ), args, dict(WHILE=which, num_warps=4), "sm_90a"), Plan(**IN_TURN))
    assert one.kernel is None and ("`while` decides" if which else "follows from `load`") in one.remarks[-1].message, one.remarks


def test_whole_tiles_need_a_loop_over_tiles():
    one = written(plain("gemm_descriptors", m=128, n=128, k=320), Plan(**IN_TURN | dict(persistent=False)))
    assert one.kernel is None and "no tiles to take in turn" in one.remarks[-1].message


@mimw.jit
def own_loop(x, y, n, WHAT: tl.constexpr):
    first, step = tl.program_id(0), tl.num_programs(0)
    total = 0
    if WHAT == 1:
        tl.store(y, 1.0)
    for tile in range(first, n, step):
        at = tile * 16 + tl.arange(0, 16)
        if WHAT == 2:
            total += 1
        if WHAT == 3:
            at += step
        tl.store(y + at, tl.load((y if WHAT == 4 else x) + at) + total)
        if WHAT == 5:
            tl.atomic_add(y, 1.0)


@pytest.mark.parametrize("what, found", [(0, True), (1, False), (2, False), (3, False), (4, False), (5, False)])
def test_a_loop_over_tiles_is_one_whose_tiles_may_be_done_in_any_order(what, found):
    """Not one that writes in front of it, carries a number, asks for the programs inside, loads what it writes, or waits."""
    arrays = np.zeros(64, np.float32), np.zeros(64, np.float32)
    program = prepare(own_loop, (2, ), (*arrays, 4), dict(WHAT=what), "sm_90a").recorded
    loop = authors_tiles(program)
    assert (loop is not None) is found and (loop is None or loop.name == "for")


def test_they_are_tried_where_they_fit():
    """Two sums of 128 x 128 are more than four warps hold; products that add one to the other have one sum."""
    found = list(choose.plans(plain("gemm_bias_gelu").program))
    assert sum(one.tiles_in_turn and one.persistent for one in found) == 1 and not any(one.pingpong for one in found)
    found = list(choose.plans(plain("gemm_persistent").program))
    assert sum(one.tiles_in_turn and not one.persistent for one in found) == 1
    found = list(choose.plans(plain("attention", t=256, d=128, bn=128).program))
    assert not any(one.tiles_in_turn for one in found) and all(one.delayed and one.consumers == 2 for one in found if one.pingpong)
    assert sum(one.pingpong for one in found) == 1 and not any(one.consumers == 4 for one in found)
    found = list(choose.plans(plain("attention", t=256, d=64, bm=256).program))
    assert sum(one.consumers == 4 for one in found) == 8
    assert not any(one.tiles_in_turn for one in choose.plans(plain("gemm_descriptors", bn=256).program))


# ---- machine code ------------------------------------------------------------------------------------------------------------


def compiled(one):
    return mimw.compile(one.kernel, one.programs(one.plain.launch.grid), *one.arguments(), num_warps=one.num_warps, target="sm_90a")


def test_tiles_in_turn_are_compiled_without_stack():
    one = written(plain("gemm_bias_gelu", m=128, n=192, bm=64, bn=64), Plan(**IN_TURN | dict(warps=4, stores=True)))
    made = compiled(one)
    arrivals = [made.ptx.count(f"barrier.arrive {number}, 256") for number in (8, 9)]
    assert made.stack_bytes == 0 and "wgmma.mma_async" in made.ptx and arrivals == [2, 1]     # one of them opens the first turn


def test_the_assembler_undoes_late_products_and_the_search_sees_it(monkeypatch):
    """With the wait for the next chunk in front of the wait for a late product it does not."""
    launch, plan = plain("attention", t=256, d=64, bn=64), Plan(consumers=2, stages=2)
    right = choose._compiled(choose.Candidate(written(launch, plan)))
    monkeypatch.setattr(Consumer, "_anchor", lambda self, dot, gives: None)
    wrong = choose._compiled(choose.Candidate(written(launch, plan), predicted=1.0))
    assert (right.undone, wrong.undone) == (False, True) and right.stack == wrong.stack == 0
    assert sorted((wrong, replace(right, predicted=2.0)), key=choose._order)[1] is wrong


CODE = """
LBB0:
\tHGMMA.64x16x16.F32 R24, gdesc[UR4], RZ, !UPT, gsb0;
\tHGMMA.64x32x16.F32 R40, R4, gdesc[UR4], R40, gsb0;
\tWARPGROUP.DEPBAR.LE gsb0, 0x1;
{0}
\tMUFU.EX2 R8, R24;
\tMUFU.EX2 R9, R25;
{1}
\t@P0 BRA LBB0;
"""


def test_where_the_wait_for_a_late_product_stands():
    wait = "\tWARPGROUP.DEPBAR.LE gsb0, 0x0;"
    assert undone(CODE.format(wait, "")) and not undone(CODE.format("", wait)) and not undone("")
