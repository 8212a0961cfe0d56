"""Loads by pointers that are no box go to a producer that copies by cp.async: proved, compiled, or left with their line."""

import importlib
from dataclasses import replace

import numpy as np
import pytest
import triton.language as tl

import mimw
from mimw.compiler.orchestrate import lags
from mimw.compiler.orchestrate.plan import Plan
from mimw.ir import Op
from mimw.tools.orchestrate.choose import plans
from mimw.tools.orchestrate.loaded import changed, deciding, spread
from mimw.tools.orchestrate.plain import plain_of
from mimw.tools.orchestrate.prove import prove
from mimw.tools.orchestrate.written import may_gather, written
from tests.check.tables import as_authors_wrote_it
from tests.orchestrate.test_orchestrate import other, without


def plain(name, **sizes):
    kernel, grid, args, meta, _ = importlib.import_module(f"tests.orchestrate.cases.{name}").case(**sizes)
    return plain_of(kernel, grid, args, meta, "sm_90a")


@pytest.fixture(scope="module")
def experts():
    return plain("gathered_gemm", tokens=40, n=64, bm=64, bn=64, k=384)


@pytest.fixture(scope="module")
def sequences():
    return plain("attention_sequences")


def flights(one):
    return [ring.flight and ring.flight.pending for ring in one.made.rings.rings if ring.gathers and not ring.once]


@pytest.mark.parametrize("stages, pending, boxes", [(1, None, False), (3, 1, False), (4, 2, True)])
def test_rows_that_an_array_names_are_copied_by_threads(experts, stages, pending, boxes):
    """Beside the expert's weights by TMA, whose descriptor the kernel makes, or with these by threads as well."""
    one = written(experts, Plan(gathers=True, stages=stages, boxes=boxes))
    assert one.kernel is not None, (one.wrong, one.refused, one.remarks)
    assert [len(ring.gathers) for ring in one.made.rings.roots] == [2 - boxes] and flights(one) == [pending]
    assert ("tlx.make_tensor_descriptor(" in one.text) == boxes
    proof = prove(one, seeds=1, limit=10)
    assert proof.ok and {line["sizes"].get("K") for line in proof.compared} >= {0, 64, 128, 64 * stages + 64}, proof


@pytest.mark.long(but=["plan0-*"], everywhere=True)
@pytest.mark.parametrize("plan, pending", [(Plan(delayed=False, stages=2), [2, 2]), (Plan(stages=2), [None, 1, 1, None]),
                                           (Plan(consumers=2, delayed=False, stages=3), [4, 4])])
def test_sequences_that_begin_where_arrays_say_are_proved_by_shorter_ones(sequences, plan, pending):
    one = written(sequences, replace(plan, gathers=True))
    assert one.kernel is not None, (one.wrong, one.refused, one.remarks)
    assert flights(one) == pending
    proof = prove(one, seeds=1, limit=5)
    assert proof.ok, proof
    most = [max((count for _, count in line["rounds"]), default=0) for line in proof.compared]
    assert min(most) == 1 and max(most) > plan.stages and {"lengths"} == {name for line in proof.compared for name in line["sizes"]}


def test_what_is_compiled_copies_16_bytes_a_thread(experts):
    one = written(experts, Plan(gathers=True, stages=4, boxes=False))
    made = mimw.compile(one.kernel, experts.launch.grid, *one.arguments(), num_warps=one.num_warps, target="sm_90a")
    copies = [line for line in made.ptx.splitlines() if "cp.async.c" in line and "commit" not in line]
    each = 2 * 64 * 64 * 2 // (128 * 16)        # of both tiles; the loop may be written out several times
    assert copies and len(copies) % each == 0 and all(".cg." in line and " 0x10," in line for line in copies), copies
    assert "wgmma.mma_async" in made.ptx and "fence.proxy.async" in made.ptx and made.stack_bytes == 0


def test_plans_gather_where_a_load_is_no_box(experts):
    assert may_gather(experts) and not may_gather(plain("gemm_pointers"))
    assert {plan.gathers for plan in plans(experts.program, True)} == {True, False}
    assert {plan.gathers for plan in plans(experts.program)} == {False}


# ---- mistakes that a proof has to find ---------------------------------------------------------------------------------------


MUTANTS = {
    "told of a group too early": other("async_wait", pending=lambda pending: pending + 1),
    "told of before anything has landed": without("async_wait"),
    "no group": without("async_commit"),
    "no commit": without("pipe_commit"),
    "the mask is left out": other("async_load", mask=lambda mask: None),
}


def mistaken(monkeypatch, change):
    from mimw.tools.orchestrate import written as module
    right = module.orchestrated

    def wrong(*given):
        made = right(*given)
        program = change(made.program)
        assert program.body != made.program.body
        return replace(made, program=program)

    monkeypatch.setattr(module, "orchestrated", wrong)


@pytest.mark.parametrize("mistake", MUTANTS)
def test_a_mistake_is_found(experts, mistake, monkeypatch):
    mistaken(monkeypatch, MUTANTS[mistake])
    proof = prove(written(experts, Plan(gathers=True, stages=4)), seeds=2, limit=20)
    assert not proof.ok and proof.wrong


def test_copies_that_nobody_fences_are_found(experts, monkeypatch):
    expander = importlib.import_module("mimw.compiler.passes.expand_pipes")._Expander
    right = expander.pipe_commit

    def wrong(self, op: Op):
        right(self, op)
        self.writer.ops[:] = [one for one in self.writer.ops if one.name != "fence"]

    monkeypatch.setattr(expander, "pipe_commit", wrong)
    with as_authors_wrote_it():     # else the compiler puts one in (`passes/fence_deliveries.py`)
        proof = prove(written(experts, Plan(gathers=True, stages=4)), seeds=1, limit=5)
    assert not proof.ok and "MissingFence" in proof.wrong, proof


@pytest.mark.parametrize("name", ["experts", "sequences"])
def test_copies_of_more_trips_than_slots_allow_are_found(name, request, monkeypatch):
    monkeypatch.setattr(lags, "_fits", lambda ring, groups, trip, late: groups <= trip * (ring.root.stages))
    one = written(request.getfixturevalue(name), Plan(gathers=True, lag=2, stages=2, delayed=False))
    assert set(flights(one)) == {2 * len(flights(one))}
    proof = prove(one, seeds=1, limit=5)
    assert not proof.ok and ("Deadlock" in proof.wrong or "WaitCycle" in proof.wrong), proof


# ---- what stays with the consumer --------------------------------------------------------------------------------------------


@mimw.jit
def named(a, b, c, ids, count, stride, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, K: tl.constexpr, HOW: tl.constexpr):
    rows, cols, ks = tl.load(ids + tl.arange(0, BM)), tl.arange(0, BN), tl.arange(0, BK)
    acc = tl.zeros((BM, BN), tl.float32)
    if HOW == "ordered":
        tl.atomic_add(count, 1)
    for k in range(0, K, BK):
        at = a + rows[:, None] * stride + (k + ks)[None, :]
        if HOW == "other":
            x = tl.load(at, mask=rows[:, None] < 60, other=1.0)
        elif HOW == "volatile":
            x = tl.load(at, volatile=True)
        elif HOW == "ragged":
            x = tl.load(at, mask=(k + ks)[None, :] < tl.load(ids + BM), other=0.0)
        else:
            x = tl.load(at)
        y = tl.load(b + (k + ks)[:, None] * BN + cols[None, :])
        acc = tl.dot(x, y, acc)
        if HOW == "written":
            tl.store(a + rows[:, None] * stride + cols[None, :], acc.to(tl.float16))
    tl.store(c + tl.arange(0, BM)[:, None] * BN + cols[None, :], acc)


@pytest.mark.parametrize("how, reason", [
    ("other", "what stands for elements outside of the mask is not 0, and cp.async writes zeros"),
    ("volatile", "it is volatile"),
    ("ragged", "may change every 2 bytes, as far as the program shows, and cp.async copies 4 at least"),
    ("odd", "may change every 2 bytes, as far as the program shows, and cp.async copies 4 at least"),
    ("written", "the kernel writes the array that it reads"),
    ("ordered", "`atomic_rmw` on line"),
])
def test_what_cp_async_cannot_copy_stays_with_its_line(how, reason):
    stride = 257 if how == "odd" else 256
    a, b = np.zeros((64, stride), np.float16), np.zeros((256, 32), np.float16)
    ids = np.append(np.random.default_rng(0).permutation(64), 200).astype(np.int32)
    args = a, b, np.zeros((64, 32), np.float32), ids, np.zeros(1, np.int32), stride
    launch = plain_of(named, (1, ), args, dict(BM=64, BN=32, BK=64, K=256, HOW=how, num_warps=4), "sm_90a")
    one = written(launch, Plan(gathers=True, stages=2))
    line = next(number for number, text in enumerate(open(__file__), 1) if "at = a + rows" in text)
    assert any(reason in remark.message and line < remark.site.line < line + 10 for remark in one.remarks), one.remarks
    assert not any(load.site.line < line + 9 for ring in one.made.rings.rings for load in ring.gathers)


# ---- loops that loaded numbers bound -------------------------------------------------------------------------------------------


def test_arrays_that_bound_loops_are_found(sequences, experts):
    assert deciding(sequences.program) == {"lengths"} and deciding(experts.program) == set()


def test_no_number_is_above_the_size():
    lengths = np.array([3, 200, 90], np.int32)
    made = changed({"lengths": lengths, "K": 5}, {"lengths": 100, "K": 2})
    assert made["lengths"].tolist() == [3, 100, 90] and made["K"] == 2 and lengths.tolist() == [3, 200, 90]


def test_programs_along_each_axis_are_looked_at():
    assert spread((2, 1, 9), 3) == ((0, 0, 0), (1, 0, 0), (0, 0, 1), (1, 0, 1), (0, 0, 2), (1, 0, 8))


def test_a_launch_that_fills_no_pipe_proves_nothing():
    one = written(plain("attention_sequences", lengths=(100, 60)), Plan(gathers=True, stages=2, delayed=False))
    proof = prove(one, seeds=1, limit=1)
    assert not proof.ok and "no loop of this launch has more than 2 iterations, and a pipe has 2 slots" in proof.wrong
