"""A task that transforms: tiles that products take are computed between the producer and the consumers, to the same bits."""

import importlib

import numpy as np
import pytest
import triton
import triton.language as tl

import mimw
from mimw.compiler.orchestrate.plan import Plan
from mimw.compiler.orchestrate.transforms import may_transform
from mimw.tools.orchestrate.choose import Candidate, Search, plans
from mimw.tools.orchestrate.found import Orchestration
from mimw.tools.orchestrate.plain import plain_of
from mimw.tools.orchestrate.prove import prove
from mimw.tools.orchestrate.written import written
from tests.fuzz.ordinary.mutants import CORPUS, MUTANTS, _proved

CASES = {
    "gemm_int4": (dict(k=256), Plan(transform=4, stages=2)),
    "gemm_int4, eight warps": (dict(k=256), Plan(transform=8, stages=3)),
    "gemm_int4, rows shared out": (dict(k=256, m=100, bm=128), Plan(transform=4, stages=3, consumers=2)),
    "gemm_cast": (dict(), Plan(transform=4, stages=2, consumers=2)),
    "gemm_cast, tiles in turn": (dict(m=384), Plan(transform=4, stages=2, consumers=2, persistent=True)),
    "gemm_cast:both, tiles in turn": (dict(m=192), Plan(transform=4, stages=2, persistent=True)),
    "gemm_cast:both": (dict(), Plan(transform=4, stages=2)),
    "gemm_cast:left": (dict(), Plan(transform=4, stages=1)),
    "gemm_cast:left, rows shared out": (dict(k=256), Plan(transform=4, stages=2, consumers=2)),
}


def plain(name, **sizes):
    module, _, which = name.partition(",")[0].partition(":")
    kernel, grid, args, meta, _ = getattr(importlib.import_module(f"tests.orchestrate.cases.{module}"), which or "case")(**sizes)
    return plain_of(kernel, grid, args, meta, "sm_90a")


@pytest.mark.parametrize("name", CASES)
def test_a_plan_is_proved(name):
    sizes, plan = CASES[name]
    one = written(plain(name, **sizes), plan)
    proof = prove(one, seeds=2, limit=20)
    assert proof.ok, proof
    made, raw = ([ring for ring in one.made.rings.roots if getattr(ring, which)] for which in ("made", "raw"))
    assert len(made) == len(raw) == 1 + ("both" in name) and one.plan.transform == plan.transform
    assert all(ring.direct and ring.stages == min(plan.stages, 2) for ring in made) and not any(ring.direct for ring in raw)
    assert "# transform" in one.text and "tl.dot" not in one.text


def test_the_report_says_who_computes():
    sizes, plan = CASES["gemm_int4"]
    one = written(plain("gemm_int4", **sizes), plan)
    text = str(Orchestration(one.plain, Search(), Candidate(one), None, False, "nothing was measured"))
    assert "1 x 4 warps, 4 to transform" in text
    assert "4,096 B x 2   read to registers by the task that transforms, released at once" in text
    assert "16,384 B x 2   computed there by that task, read where it lies, released a product later" in text


def test_it_is_tried_where_a_tile_is_computed():
    assert sum(plan.transform > 0 for plan in plans(plain("gemm_int4").program)) == 6    # a program a tile, or in turn
    for name in ("gemm_descriptors", "gemm_fp8_blocks", "attention"):
        program = plain(name).program
        assert not may_transform(program) and not any(plan.transform for plan in plans(program))


@pytest.mark.parametrize("mistake", ["a raw slot is given back before it is read", "one slot for tiles that are read a trip longer",
                                     "a tile is handed over before it is stored", "a slot is taken a chunk early"])
def test_a_mistake_is_found(mistake):
    make, plan = CORPUS["transformed"]
    was_planted, said = _proved(make(), plan, *MUTANTS[mistake])
    assert was_planted and said


# ---- what stays with the consumers -------------------------------------------------------------------------------------------


@triton.jit
def kept(a_desc, b_desc, out, K, HOW: tl.constexpr, D: tl.constexpr):
    at = tl.arange(0, D)
    acc = tl.zeros((D, D), tl.float32)
    total = tl.zeros((D, ), tl.float32)
    for k in range(0, K, D):
        x = a_desc.load([0, k])
        raw = b_desc.load([k, 0])
        y = (raw * 2.0).to(tl.float16)
        if HOW == "also read":          # what is loaded, by others than the product
            total += tl.sum(raw.to(tl.float32), 0)
        if HOW == "of a product":
            y = (y * tl.sum(acc, 0)[None, :]).to(tl.float16)
        if HOW == "written":
            y = y * tl.load(out + at).to(tl.float16)[None, :]
        if HOW == "a view":
            y = raw.T.T
        acc = tl.dot(x, y, acc)
    tl.store(out + at[:, None] * D + at[None, :], acc + total[None, :])


@pytest.mark.parametrize("how, may", [("", True), ("also read", False), ("of a product", False), ("written", False),
                                      ("a view", False)])
def test_what_others_need_stays(how, may):
    a, b = (np.random.default_rng(0).standard_normal((64, 256)).astype(np.float16) for _ in range(2))
    b, out, describe = b.reshape(256, 64), np.zeros((64, 64), np.float32), mimw.TensorDescriptor.from_tensor
    args = describe(a, [64, 64]), describe(b, [64, 64]), out, 256
    one = written(plain_of(kept, (1, ), args, dict(HOW=how, D=64, num_warps=4), "sm_90a"), Plan(transform=4, stages=2))
    assert one.kernel is not None and bool(one.made.rings.computed) == may and one.plan.transform == 4 * may
    assert prove(one, seeds=1, limit=5).ok
