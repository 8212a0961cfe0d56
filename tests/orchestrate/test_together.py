"""Trips of a loop together: groups of them and those that are left, to the same bits; products of one body beside each other."""

import numpy as np
import pytest
import triton
import triton.language as tl

import mimw
from mimw.compiler.orchestrate.plan import Plan
from mimw.compiler.orchestrate.together import may_go_together, together
from mimw.tools.orchestrate.plain import plain_of
from mimw.tools.orchestrate.prove import prove
from mimw.tools.orchestrate.written import written
from tests.fuzz.ordinary.mutants import CORPUS, MUTANTS, _proved
from tests.orchestrate.cases import attention, gemm_descriptors, gemm_fp8_blocks, small_loads
from tests.orchestrate.running import run


def plain(module, **sizes):
    kernel, grid, args, meta, _ = module.case(**sizes)
    return plain_of(kernel, grid, args, meta, "sm_90a")


@pytest.mark.parametrize("count, trips", [(2, 0), (2, 1), (3, 3), (3, 5), (3, 7), (4, 8)])
def test_the_same_bits(count, trips):
    *launch, (out, expected) = small_loads.case(k=32 * trips, programs=1)
    run(None, *launch)
    wanted = out.copy()
    np.testing.assert_allclose(wanted, expected(), rtol=1e-4, atol=1e-3)
    out[...] = 0
    program, _ = run(lambda program: together(program, count).program, *launch)
    assert out.tobytes() == wanted.tobytes()
    groups, rest = program.named("for")
    assert [sum(op.name == "dot" for op in loop.blocks[0].ops) for loop in (groups, rest)] == [count, 1]


@triton.jit
def turning(a_desc, b_desc, out, start, end, D: tl.constexpr, STEP: tl.constexpr):
    """Sums that change places, numbers that go round beside the product, and a start and a step of their own."""
    at = tl.arange(0, D)
    one, other = tl.zeros((D, D), tl.float32), tl.full((D, D), 1.0, tl.float32)
    count, before = 0, 0
    for k in range(start, end, STEP):
        s = tl.dot(a_desc.load([0, k * D]), b_desc.load([k * D, 0]))
        one, other = other + s * (count + 1), one - s * before
        before = count
        count += k
    tl.store(out + at[:, None] * D + at[None, :], one + 2.0 * other + count)


@pytest.mark.parametrize("start, end", [(0, 8), (1, 8), (3, 2), (0, 0), (-2, 1), (2, 3)])
def test_loops_from_anywhere(start, end):
    a, b = (np.random.default_rng(0).standard_normal((16, 16 * 16)).astype(np.float16) for _ in range(2))
    b, out, describe = np.ascontiguousarray(b.T), np.zeros((16, 16), np.float32), mimw.TensorDescriptor.from_tensor
    launch = turning, (1, ), (describe(a, [16, 16]), describe(b, [16, 16]), out, start, end), dict(D=16, STEP=2, num_warps=4)
    run(None, *launch)
    wanted = out.copy()
    out[...] = 0
    run(lambda program: together(program, 3).program, *launch)
    assert out.tobytes() == wanted.tobytes() and wanted.any()


@pytest.mark.long(but=["sizes1-*"], everywhere=True)
@pytest.mark.parametrize("sizes, plan", [(dict(k=1280, n=128), Plan(consumers=2, stages=3, together=3)),
                                         (dict(k=768, m=64, bm=64), Plan(stages=2, together=2, persistent=True))])
def test_a_plan_is_proved(sizes, plan):
    one = written(plain(gemm_fp8_blocks, **{"m": 128, "bm": 128} | sizes), plan)
    proof = prove(one, seeds=2, limit=10)
    assert proof.ok, proof
    assert {128 * trips for trips in range(plan.together)} - {0} <= {line["sizes"].get("K") for line in proof.compared}
    assert one.plan.together == plan.together and "acc = tlx.async_dot_wait(1, acc)" in one.text
    assert len(one.made.rings.roots) == 1       # all trips of a group take turns at one pipe's slots


def test_one_slot_is_too_few():
    assert written(plain(gemm_fp8_blocks, k=512), Plan(stages=1, together=2)).plan.together == 1


def test_sums_alone_run_on_as_they_are():
    for module in (gemm_descriptors, attention):
        program = plain(module).program
        assert not may_go_together(program) and together(program, 4).program is program


@triton.jit
def watching(a_desc, b_desc, flag, out, K, D: tl.constexpr):
    at = tl.arange(0, D)
    acc = tl.zeros((D, D), tl.float32)
    for k in range(0, K, D):
        acc += tl.dot(a_desc.load([0, k]), b_desc.load([k, 0])) * tl.load(flag, volatile=True)
    tl.store(out + at[:, None] * D + at[None, :], acc)


def test_what_is_read_anew_keeps_its_trip():
    a, describe = np.zeros((16, 32), np.float16), mimw.TensorDescriptor.from_tensor
    args = describe(a, [16, 16]), describe(a.reshape(32, 16), [16, 16]), np.ones(1, np.float32), np.zeros((16, 16), np.float32), 32
    assert not may_go_together(plain_of(watching, (1, ), args, dict(D=16, num_warps=4), "sm_90a").program)


@pytest.mark.parametrize("mistake", ["products are waited for one too late", "trips that are left begin a trip late"])
def test_a_mistake_is_found(mistake):
    make, plan = CORPUS["trips together"]
    was_planted, said = _proved(make(), plan, *MUTANTS[mistake])
    assert was_planted and said
