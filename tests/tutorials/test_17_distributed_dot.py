"""Tutorial 17 on the simulator and the GPU: whole and ragged tiles, several rounds; "what if" edits."""

import numpy as np
import pytest

import mimw
from mimw.testing import compare
from tests.compiling import to_assembly

SMALL = dict(BM=32, BN=64, BK=32, STAGES=3, num_warps=4)


def inputs(m: int, n: int, k: int):
    """a, b and a c of NaNs."""
    random = np.random.default_rng(0)
    a, b = (random.standard_normal(shape, np.float32).astype(np.float16) for shape in ((m, k), (k, n)))
    return a, b, np.full((m, n), np.nan, np.float16)


def launch(machine, tutorial, m, n, k):
    a, b, c = inputs(m, n, k)
    grid, args, meta = tutorial.arguments(a, b, c, **SMALL)
    machine.launch(tutorial.gemm, grid, *args, **meta)
    compare(c, a.astype(np.float32) @ b.astype(np.float32), rtol=2e-3, atol=2e-2)


@pytest.mark.parametrize("m, n, k", [(32, 64, 64), (64, 64, 256), (72, 136, 192)])
def test_product(machine, tutorial, m, n, k):
    launch(machine, tutorial, m, n, k)


def checked(tutorial):
    grid, args, meta = tutorial.arguments(*inputs(32, 64, 128), **SMALL)
    return mimw.check(tutorial.gemm, grid, *args, seeds=3, shrink=False, **meta)


def test_right_under_every_interleaving(tutorial):
    report = checked(tutorial)
    assert report.ok, report


def test_operands_that_are_not_what_is_said_are_refused(edited):
    """B that is said to be whole has half of its rows."""
    with pytest.raises(Exception, match="a shard of"):
        checked(edited('B_PARTS = tle.sharding(PAIR, split=["z", None])', 'B_PARTS = tle.sharding(PAIR, split=[None, None])'))


def test_a_sum_that_is_not_said_to_be_partial_is_refused(edited):
    with pytest.raises(Exception, match="must be distributed as the result"):
        checked(edited(', partial=["z"])', ")"))


def test_the_loop_is_as_fast_as_any(tutorial):
    """Tensor cores, copies that run ahead, and nothing of the cluster before the end."""
    signature = {"a_ptr": "*fp16", "b_ptr": "*fp16", "c_ptr": "*fp16", "M": "i32", "N": "i32", "K": "i32"}
    attrs = {(index, ): [["tt.divisibility", 16]] for index in range(6)}
    ptx = to_assembly(tutorial.gemm, signature, dict(BM=128, BN=128, BK=64, GROUP_M=8, STAGES=4), options={"num_warps": 8},
                         attrs=attrs).stages["ptx"]
    assert "wgmma.mma_async" in ptx and "cp.async.cg.shared.global" in ptx and "ld.shared::cluster.v4" in ptx
