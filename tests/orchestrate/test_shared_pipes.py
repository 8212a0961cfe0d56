"""Loops one after the other whose tiles have the same types go through one pipe, whatever arrays they load from."""

import numpy as np
import pytest
import triton.language as tl

import mimw
from mimw.compiler.orchestrate.plan import Plan
from mimw.tools.orchestrate.plain import plain_of
from mimw.tools.orchestrate.prove import prove
from mimw.tools.orchestrate.written import written


@mimw.jit
def two_sums(a_desc, b_desc, d_desc, e_desc, c_desc, K, R, TWICE: tl.constexpr):
    m, acc = tl.program_id(0) * 64, tl.zeros((64, 64), tl.float32)
    for _ in range(R):
        for k in range(0, K, 64):
            acc = tl.dot(a_desc.load([m, k]), b_desc.load([k, 0]), acc)
        for k in range(0, K, 64):
            e = e_desc.load([0, k])
            acc = tl.dot(d_desc.load([m, k]), e.T, acc)
        if TWICE:
            last = a_desc.load([m, 0])
            acc = tl.dot(last, b_desc.load([0, 0]), acc)
    c_desc.store([m, 0], acc.to(tl.float16))


def launched(k=192, tiles=4, rounds=2, twice=False):
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(shape).astype(np.float16) for shape in
              ((64 * tiles, k), (k, 64), (64 * tiles, k), (64, k))] + [np.zeros((64 * tiles, 64), np.float16)]
    described = [mimw.TensorDescriptor.from_tensor(one, [64, 64]) for one in arrays]
    return plain_of(two_sums, (tiles, ), (*described, k, rounds), dict(TWICE=twice, num_warps=4), "sm_90a")


@pytest.mark.long(but=["True-plan1", "False-plan0"], everywhere=True)
@pytest.mark.parametrize("twice, plan", [
    (False, Plan(stages=2)), (True, Plan(stages=2)), (False, Plan(consumers=2, stages=2, persistent=True, tiles_in_turn=True))])
def test_two_loops_share_a_pipe(twice, plan):
    one = written(launched(twice=twice), plan)
    assert one.kernel is not None and [ring.stages for ring in one.made.rings.roots] == [2], (one.wrong, one.refused, one.remarks)
    assert len(one.made.rings.rings) == 2 + twice and one.text.count("commit(") == 2 + twice
    found = prove(one, seeds=2, limit=20)
    assert found.ok and found.compared, found


def test_what_is_turned_in_one_loop_only_is_compiled():
    one = written(launched(), Plan())
    made = mimw.compile(one.kernel, one.plain.launch.grid, *one.arguments(), num_warps=4, target="sm_90a")
    assert made.stack_bytes == 0 and "wgmma.mma_async" in made.ptx
